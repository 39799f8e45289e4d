#include <doctest/doctest.h>

#include "sim/sim_world.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

constexpr std::array kSizes{1_KiB, 64_KiB, 1_MiB, 100_MiB, 1_GiB};
const LinkCost kLink{.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 125.0_GBps};

SimTime time_of(SimWorld& world, Network& network, CollectiveKind kind, Bytes message, std::int64_t pieces = 1) {
  const SimTime begin = world.now;
  const auto id = network.open({kind, 0, message, pieces});
  for (std::uint32_t m = 0; m < world.communicators[0].ranks.size(); ++m) network.join(id, m, begin);
  const auto done = world.run(network);
  CHECK(done.size() == world.communicators[0].ranks.size());
  return done.back().time - begin;
}

}  // namespace

TEST_CASE("flow network: alone, collectives take the closed form's time") {
  for (const std::int64_t n : {2, 3, 4, 7, 8, 16, 64})
    for (const Bytes size : kSizes)
      for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                        CollectiveKind::AllReduce, CollectiveKind::Broadcast})
        for (const std::int64_t pieces : {1, 3}) {
          CAPTURE(n);
          CAPTURE(size.count);
          CAPTURE(int(kind));
          CAPTURE(pieces);
          SimWorld world(n, kLink);
          const auto flows = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
          const SimTime simulated = time_of(world, *flows, kind, size, pieces);
          const auto formula = make_analytic_network(world.communicators, world.comm, world.queue);
          const SimTime expected = time_of(world, *formula, kind, size, pieces);
          // every message is rounded up to whole ps
          CHECK(simulated.ps >= expected.ps - 1);
          CHECK(simulated.ps <= expected.ps + 2 * 2 * 64 * pieces);
          CHECK(flows->bytes_sent(0) <= size * 2);
        }
}

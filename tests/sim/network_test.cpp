#include <doctest/doctest.h>

#include "sim/sim_world.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

constexpr std::array kSizes{1_KiB, 64_KiB, 1_MiB, 100_MiB, 1_GiB};
const LinkCost kNetworkLink{.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 125.0_GBps};

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
          SimWorld world(n, kNetworkLink);
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

TEST_CASE("flow network: one rank alone costs nothing; a message takes alpha + S / B, a copy S / B") {
  SimWorld world(1, kNetworkLink);
  world.add(2, 2);
  NetworkLinks links = world.own_links();
  links.capacities = {100.0_GBps, 20.0_GBps};
  links.copy_route = [](std::int64_t, HostCopy kind) {
    return Route{{.link = 1, .weight = kind == HostCopy::HostToNvme ? 2.0 : 1.0}};
  };
  const auto network = make_flow_network(world.communicators, world.comm, links, world.queue);
  CHECK(time_of(world, *network, CollectiveKind::AllReduce, 1_GiB).ps == 0);
  CHECK(network->bytes_sent(0) == 0_B);
  network->send({Axis::Pp, 0, 1}, {100'000'000}, {});
  CHECK(world.run(*network).back().time.ps == 1'005'000'000);  // 5 us + 1 ms
  const SimTime now = world.now;
  network->copy(0, HostCopy::HostToDevice, {20'000'000}, now);
  CHECK((world.run(*network).back().time - now).ps == 1'000'000'000);
  network->copy(0, HostCopy::HostToNvme, {20'000'000}, world.now);  // crosses its link twice
  CHECK((world.run(*network).back().time - now).ps == 3'000'000'000);
  CHECK(network->link_loads()[1].carried == 60e6);
}

TEST_CASE("a message takes the time that was measured for its size, in both networks") {
  SimWorld world(2, kNetworkLink);
  // below 1 MiB 20 us and 1 GB/s, above 100 us and 10 GB/s; the link says 5 us and 100 GB/s
  const CollectiveCurve curve{.kind = CollectiveKind::SendRecv,
                              .num_ranks = 2,
                              .segments = {{Bytes{0}, {20e-6}, {1e9}}, {1_MiB, {100e-6}, {10e9}}}};
  world.comm.axes[std::size_t(Axis::Pp)].curves[std::size_t(CollectiveKind::SendRecv)] = &curve;
  const auto flows = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  const auto formula = make_analytic_network(world.communicators, world.comm, world.queue);
  for (Network* network : {flows.get(), formula.get()})
    for (const auto& [message, ps] :
         {std::pair{Bytes{100'000}, 120'000'000.0}, {Bytes{100'000'000}, 10'100'000'000.0}}) {
      const SimTime begin = world.now;
      network->send({Axis::Pp, 0, 1}, message, begin);
      CHECK(double((world.run(*network).back().time - begin).ps) == doctest::Approx(ps).epsilon(1e-6));
    }
  CHECK(flows->bytes_sent(0) == Bytes{100'100'000});
}

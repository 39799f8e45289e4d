#include <doctest/doctest.h>

#include "sim/network.h"
#include "sim/sim_world.h"

using namespace gpuplan;
using namespace gpuplan::literals;

TEST_CASE("analytic network: a collective begins with its last member and takes the closed form") {
  // all-gather of 1 GiB by 4 ranks: 3 * (5 us + 256 MiB / 100 GB/s)
  SimWorld world(4, {.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 150.0_GBps});
  const auto network = make_analytic_network(world.communicators, world.comm, world.queue);
  const auto id = network->open({CollectiveKind::AllGather, 0, 1_GiB});
  for (std::uint32_t m = 0; m < 4; ++m) network->join(id, m, {std::int64_t(m) * 1000});
  const auto done = world.run(*network);
  REQUIRE(done.size() == 4);
  CHECK(done[0].time.ps == 3000 + to_sim_time(world.comm.gather_time(Axis::DpShard, 1_GiB)).ps);
  CHECK(done[0].time.seconds().value == doctest::Approx(3e-9 + 3 * (5e-6 + 268435456 / 1e11)));
  CHECK(network->bytes_sent(2) == 3 * 256_MiB);
}

TEST_CASE("analytic network: every piece of a cut collective pays the latency") {
  SimWorld world(4, {.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 150.0_GBps});
  const auto network = make_analytic_network(world.communicators, world.comm, world.queue);
  const auto time = [&](std::int64_t pieces) {
    const SimTime now = world.now;
    const auto id = network->open({CollectiveKind::AllReduce, 0, 64_MiB, pieces});
    for (std::uint32_t m = 0; m < 4; ++m) network->join(id, m, now);
    return (world.run(*network).back().time - now).seconds().value;
  };
  CHECK(time(3) - time(1) == doctest::Approx(2 * 6 * 5e-6).epsilon(1e-6));  // two more pieces of 2 (n - 1) steps
}

TEST_CASE("analytic network: ids are used again, copies take the rates of host link and NVMe, one rank costs nothing") {
  SimWorld world(1, {.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 100.0_GBps});
  world.comm.host_link = 25.0_GBps;
  world.comm.nvme = 5.0_GBps;
  const auto network = make_analytic_network(world.communicators, world.comm, world.queue);
  CHECK(network->copy(0, HostCopy::HostToDevice, {25'000'000}, {}) == 0);
  CHECK(network->copy(0, HostCopy::HostToNvme, {25'000'000}, {}) == 1);
  const auto copies = world.run(*network);
  REQUIRE(copies.size() == 2);
  CHECK(copies[0].time.ps == 1'000'000'000);
  CHECK(copies[1].time.ps == 5'000'000'000);
  const auto id = network->open({CollectiveKind::AllReduce, 0, 1_GiB});
  CHECK(id <= 1);
  network->join(id, 0, world.now);
  CHECK(world.run(*network).back().time.ps == 5'000'000'000);
}

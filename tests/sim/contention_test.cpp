// What sharing, late members and folding do to collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "sim/sim_world.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

const LinkCost kLink{.latency = 2.0_us, .bandwidth = 50.0_GBps, .all_reduce_bandwidth = 50.0_GBps};

/// Opens a collective that everybody joins at `now`.
std::uint32_t begin_all(SimWorld& world, Network& network, const CollectiveCall& call, SimTime now = {}) {
  const auto id = network.open(call);
  for (std::uint32_t m = 0; m < world.communicators[call.communicator].ranks.size(); ++m) network.join(id, m, now);
  return id;
}

}  // namespace

TEST_CASE("flow network: two collectives on the same links take between the longer and the sum of both") {
  for (const std::int64_t n : {2, 5, 16})
    for (const Bytes second : {1_KiB, 10_MiB, 256_MiB}) {
      CAPTURE(n);
      CAPTURE(second.count);
      SimWorld world(n, kLink);
      const auto alone = [&](const CollectiveCall& call) {
        SimWorld own(n, kLink);
        const auto network = make_flow_network(own.communicators, own.comm, own.own_links(), own.queue);
        begin_all(own, *network, call);
        return own.run(*network).back().time;
      };
      const CollectiveCall gather{CollectiveKind::AllGather, 0, 256_MiB}, reduce{CollectiveKind::AllReduce, 0, second};
      const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
      begin_all(world, *network, gather);
      begin_all(world, *network, reduce);
      const SimTime both = world.run(*network).back().time, a = alone(gather), b = alone(reduce);
      CHECK(both >= std::max(a, b));
      CHECK(both <= a + b + SimTime{1000});  // ps: messages are rounded up
      if (second == 256_MiB) CHECK(both.ps > a.ps + b.ps / 3);  // they truly disturb each other
    }
}

TEST_CASE("flow network: a message that meets another gets half the link while both move") {
  // 100 MB alone: 2 us + 2 ms. The second begins 1 ms later and has half as much: at 1.002 ms both have 50 MB left to go at
  // 25 GB/s, so both end at 1.002 ms + 2 ms.
  SimWorld world(2, kLink);
  const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  network->send(0, 1, {100'000'000}, {});
  world.queue.push({.time = {1'000'000'000}, .target = EventTarget::Engine});
  std::vector<TimedFinish> done = world.run(*network, [&](SimTime now) { network->send(0, 1, {50'000'000}, now); });
  REQUIRE(done.size() == 2);
  CHECK(done[0].time.ps == 3'002'000'000);
  CHECK(done[1].time.ps == 3'002'000'000);
  CHECK(network->bytes_sent(0) == Bytes{150'000'000});
  CHECK(network->link_loads()[0].carried == 150e6);
  CHECK(network->link_loads()[0].busy.ps == 3'000'000'000);
}

TEST_CASE("flow network: one late member ends when all shards passed it; the collective ends with the closed form after it") {
  SimWorld world(8, kLink);
  const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  const SimTime late{5'000'000'000};
  const auto id = network->open({CollectiveKind::AllGather, 0, 64_MiB});
  for (std::uint32_t m = 0; m < 8; ++m)
    if (m != 3) network->join(id, m, {});
  world.queue.push({.time = late, .target = EventTarget::Engine});
  const auto done = world.run(*network, [&](SimTime now) { network->join(id, 3, now); });
  REQUIRE(done.size() == 8);
  for (const TimedFinish& f : done) CHECK(f.time > late);  // nobody has all shards without the late one's
  const SimTime alone = to_sim_time(world.comm.gather_time(Axis::DpShard, 64_MiB));
  CHECK(done.back().time.ps == doctest::Approx(double((late + alone).ps)).epsilon(1e-9));
}

TEST_CASE("flow network: folding a ring of like ranks changes no time, to the picosecond") {
  for (const std::int64_t n : {8, 16, 64})
    for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce,
                                      CollectiveKind::Broadcast})
      for (const std::int64_t pieces : {1, 4}) {
        const auto time = [&](std::int64_t kept) {
          SimWorld world(n, kLink, kept);
          const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
          begin_all(world, *network, {kind, 0, 100'000'007_B, pieces});
          const auto done = world.run(*network);
          CHECK(done.size() == std::size_t(kept));
          return done.back().time.ps;
        };
        CAPTURE(n);
        CAPTURE(int(kind));
        for (const std::int64_t kept : {1, 2, 8}) {
          CAPTURE(kept);
          if (kind == CollectiveKind::Broadcast)  // a chain is not alike for all: within rounding of its edges
            CHECK(std::abs(time(kept) - time(n)) <= 4 * pieces);
          else
            CHECK(time(kept) == time(n));
        }
      }
}

TEST_CASE("flow network: ranks send what the algorithms say: (n - 1)/n S to gather or scatter, twice that to all-reduce") {
  for (const std::int64_t n : {2, 3, 8, 24}) {
    SimWorld world(n, kLink);
    const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
    const Bytes s = 24_MiB;
    begin_all(world, *network, {CollectiveKind::AllGather, 0, s});
    world.run(*network);
    begin_all(world, *network, {CollectiveKind::ReduceScatter, 0, s, 3}, world.now);
    world.run(*network);
    begin_all(world, *network, {CollectiveKind::AllReduce, 0, s}, world.now);
    world.run(*network);
    for (std::int64_t rank = 0; rank < n; ++rank) CHECK(network->bytes_sent(rank).count == 4 * (n - 1) * (s.count / n));
    for (const LinkLoad& load : network->link_loads())
      CHECK(load.carried == doctest::Approx(double(4 * (n - 1)) / double(n) * double(s.count)));
  }
}

TEST_CASE("flow network: the same calls give the same times, and nothing depends on what ran before") {
  const auto times = [] {
    std::vector<std::int64_t> out;
    SimWorld world(6, kLink);
    world.add(6, 6);
    const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
    std::mt19937_64 random(3);
    for (int call = 0; call < 30; ++call) {
      const SimTime now = world.now;
      const std::uint32_t ring = call % 2;
      const auto id = network->open({call % 3 ? CollectiveKind::AllReduce : CollectiveKind::AllGather, ring, {std::int64_t(1000 + random() % 10'000'000)}});
      for (std::uint32_t m = 0; m < 6; ++m) network->join(id, m, now + SimTime{std::int64_t(random() % 1'000'000)});
      if (call % 4 == 3)
        for (const TimedFinish& f : world.run(*network)) out.push_back(f.time.ps);
    }
    return out;
  };
  const auto first = times();
  CHECK(first.size() == 28 * 6);
  CHECK(times() == first);
}

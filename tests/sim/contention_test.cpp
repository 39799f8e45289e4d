// What sharing, late members and folding do to collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "sim/naive_rates.h"
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
      CHECK(both <= a + b + SimTime{1000});                     // ps: messages are rounded up
      if (second == 256_MiB) CHECK(both.ps > a.ps + b.ps / 3);  // they truly disturb each other
    }
}

TEST_CASE("flow network: a message that meets another gets half the link while both move") {
  // 100 MB alone: 2 us + 2 ms. The second begins 1 ms later and has half as much: at 1.002 ms both have 50 MB left to
  // go at 25 GB/s, so both end at 1.002 ms + 2 ms.
  SimWorld world(2, kLink);
  const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  network->send({Axis::Pp, 0, 1}, {100'000'000}, {});
  world.queue.push({.time = {1'000'000'000}, .target = EventTarget::Engine});
  std::vector<TimedFinish> done = world.run(*network, [&](SimTime now) {
    network->send({Axis::Pp, 0, 1}, {50'000'000}, now);
  });
  REQUIRE(done.size() == 2);
  CHECK(done[0].time.ps == 3'002'000'000);
  CHECK(done[1].time.ps == 3'002'000'000);
  CHECK(network->bytes_sent(0) == Bytes{150'000'000});
  CHECK(network->link_loads()[0].carried == 150e6);
  CHECK(network->link_loads()[0].busy.ps == 3'000'000'000);
}

TEST_CASE(
    "flow network: one late member ends when all shards passed it; the collective ends with the closed form after it") {
  SimWorld world(8, kLink);
  const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  const SimTime late{5'000'000'000};
  const auto id = network->open({CollectiveKind::AllGather, 0, 64_MiB});
  for (std::uint32_t m = 0; m < 8; ++m)
    if (m != 3) network->join(id, m, {});
  world.queue.push({.time = late, .target = EventTarget::Engine});
  const auto done = world.run(*network, [&](SimTime now) { network->join(id, 3, now); });
  REQUIRE(done.size() == 8);
  for (const LinkLoad& load : network->link_loads()) CHECK(load.carried == doctest::Approx(7.0 / 8 * 67108864));
  for (const TimedFinish& f : done) CHECK(f.time > late);  // nobody has all shards without the late one's
  const SimTime alone = to_sim_time(world.comm.gather_time(Axis::DpShard, 64_MiB));
  CHECK(done.back().time.ps == doctest::Approx(double((late + alone).ps)).epsilon(1e-9));
}

TEST_CASE("flow network: folding a ring of like ranks changes no time, to the picosecond") {
  for (const std::int64_t n : {8, 16, 64})
    for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                      CollectiveKind::AllReduce, CollectiveKind::Broadcast})
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

TEST_CASE(
    "flow network: ranks send what the algorithms say: (n - 1)/n S to gather or scatter, twice that to all-reduce") {
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
    std::multimap<SimTime, Finished> joins;
    for (int call = 0; call < 30; ++call) {
      const std::uint32_t ring = call % 2;
      const auto id = network->open({call % 3 ? CollectiveKind::AllReduce : CollectiveKind::AllGather,
                                     ring,
                                     {std::int64_t(1000 + random() % 10'000'000)}});
      for (std::uint32_t m = 0; m < 6; ++m) {
        const SimTime when = world.now + SimTime{std::int64_t(random() % 1'000'000)};
        joins.emplace(when, Finished{id, m});
        world.queue.push({.time = when, .target = EventTarget::Engine});
      }
      if (call % 4 != 3) continue;
      const auto done = world.run(*network, [&](SimTime now) {
        const auto next = joins.extract(joins.begin());
        network->join(next.mapped().transfer, next.mapped().member, now);
      });
      for (const TimedFinish& f : done) out.push_back(f.time.ps);
    }
    return out;
  };
  const auto first = times();
  CHECK(first.size() == 28 * 6);
  CHECK(times() == first);
}

TEST_CASE("flow network: a ring whose messages all cross one link takes n times as long a step") {
  // 4 ranks, 100 MB: 3 * (2 us + 4 * 25 MB / 50 GB/s) = 6.006 ms
  SimWorld world(4, kLink);
  NetworkLinks links = world.own_links();
  links.capacities.push_back(kLink.bandwidth);
  links.ring_route = [](std::int64_t from, std::int64_t, const CommGroup&) {
    return Route{{.link = std::uint32_t(from)}, {.link = 4}};
  };
  const auto network = make_flow_network(world.communicators, world.comm, links, world.queue);
  begin_all(world, *network, {CollectiveKind::AllGather, 0, {100'000'000}});
  CHECK(world.run(*network).back().time.ps == 6'006'000'000);
  CHECK(network->link_loads()[4].busy.ps == 6'000'000'000);
  CHECK(network->link_loads()[4].carried == doctest::Approx(4 * 75e6));
}

TEST_CASE("flow network: messages at any moment over any routes end when a fluid simulation from scratch says") {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    constexpr std::int64_t kLinks = 5, kPeers = 6, kMessages = 40;
    std::vector<double> capacities;
    for (int k = 0; k < kLinks; ++k) capacities.push_back(1e9 * double(1 + random() % 50));
    std::vector<Route> routes;  // by receiver
    for (int k = 0; k < kPeers; ++k) {
      Route route;
      for (std::uint64_t u = 0, n = 1 + random() % 3; u < n; ++u)
        route.push_back({std::uint32_t(random() % kLinks), random() % 2 ? 1 : 0.5});
      routes.push_back(route);
    }
    struct Sent {
      std::int64_t at, to;
      double left;
    };
    std::vector<Sent> sent;
    for (int k = 0; k < kMessages; ++k)
      sent.push_back({std::int64_t(random() % 5) * 1'000'000'000, std::int64_t(random() % kPeers),
                      double(1 + random() % 20'000'000)});

    SimWorld world(2, {.latency = {}, .bandwidth = 1.0_GBps, .all_reduce_bandwidth = 1.0_GBps});
    NetworkLinks links = world.own_links();
    links.capacities.clear();
    for (const double c : capacities) links.capacities.push_back({c});
    links.route = [&](std::int64_t, std::int64_t to) { return routes[std::size_t(to)]; };
    const auto network = make_flow_network(world.communicators, world.comm, links, world.queue);
    std::map<std::uint32_t, std::size_t> message_of;  // transfers are used again
    for (std::size_t k = 0; k < sent.size(); ++k)
      world.queue.push({.time = {sent[k].at}, .target = EventTarget::Engine, .index = std::uint32_t(k)});
    std::vector<double> end(sent.size(), -1);
    std::vector<Finished> finished;
    while (!world.queue.empty()) {
      const SimEvent event = world.queue.pop();
      finished.clear();
      if (event.target == EventTarget::Engine) {
        const Sent& s = sent[event.index];
        message_of[network->send({Axis::Pp, 0, s.to}, {std::int64_t(s.left)}, event.time)] = event.index;
      } else {
        network->handle(event, finished);
      }
      for (const Finished& f : finished) end[message_of[f.transfer]] = double(event.time.ps);
      if (world.queue.empty() || world.queue.next_time() > event.time) network->settle(event.time);
    }

    double now = 0;  // ps
    for (std::size_t open = sent.size(); open > 0;) {
      std::map<std::uint32_t, Route> active;
      double next = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < sent.size(); ++k)
        if (sent[k].left > 0 && double(sent[k].at) <= now)
          active[std::uint32_t(k)] = routes[std::size_t(sent[k].to)];
        else if (sent[k].left > 0)
          next = std::min(next, double(sent[k].at));
      const auto rates = naive_rates(capacities, active);
      for (const auto& [k, rate] : rates) next = std::min(next, now + sent[k].left * 1e12 / rate);
      for (const auto& [k, rate] : rates) {
        sent[k].left -= rate * (next - now) * 1e-12;
        if (sent[k].left > 1e-3) continue;  // a thousandth of a byte: rounding
        sent[k].left = 0;
        --open;
        CHECK(std::abs(end[k] - next) <= kMessages);  // ps: every end is rounded up, and moves those it sets free
      }
      now = next;
    }
  }
}

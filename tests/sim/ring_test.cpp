// Rings in closed form: the same ends as messages, and messages from where they are once others share a link.
#include "sim/ring.h"

#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "sim/sim_world.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

/// A ring with a link of its own from every member to the next, and messages of others over these links.
struct RingCase {
  CollectiveKind kind = CollectiveKind::AllGather;
  std::int64_t size = 8, num_kept = 8, pieces = 1;
  Bytes message = 1_MiB;
  Seconds latency = 2.0_us, base = 5.0_us;
  std::vector<BytesPerSec> capacities;  // by member
  std::vector<SimTime> joins;           // by member
  struct Other {
    SimTime at;
    std::uint32_t link{};
    double bytes{};
  };
  std::vector<Other> others;
};

struct Outcome {
  std::vector<SimTime> ends;  // by member, then of the others
  std::vector<double> carried;
  std::uint64_t num_events{};
};

/// `spread_at`: moments at which the ring becomes messages, without anybody needing the room.
Outcome run(const RingCase& c, std::optional<SimTime> spread_at = {}) {
  SimWorld world(c.size, {}, c.num_kept);
  const CommGroup& group = world.communicators[0];
  Channels channels(c.capacities, world.queue);
  std::vector<std::uint32_t> routes;
  for (std::uint32_t m = 0; m < group.ranks.size(); ++m) routes.push_back(channels.add_route(Route{{.link = m}}));
  std::vector<Finished> finished;
  SentBytes sent;
  Ring ring({channels, sent, finished}, 0, group, routes);
  std::vector<std::uint32_t> other_channels;
  for (std::uint32_t k = 0; k < c.others.size(); ++k) {
    other_channels.push_back(channels.add({1, k}, routes[c.others[k].link]));
    world.queue.push({.time = c.others[k].at, .target = EventTarget::Engine, .kind = 1, .index = k});
  }
  const std::int64_t steps = ring_steps(c.kind, c.size);
  ring.open({c.kind, 0, c.message, c.pieces},
            {.base = c.base,
             .all_steps = double(steps) * c.latency,
             .wire_bytes = double(c.message.count) / double(c.pieces * c.size) * double(steps)});
  for (std::uint32_t m = 0; m < c.joins.size(); ++m)
    world.queue.push({.time = c.joins[m], .target = EventTarget::Engine, .index = m});
  if (spread_at) world.queue.push({.time = *spread_at, .target = EventTarget::Engine, .kind = 2});
  Outcome out{.ends = std::vector<SimTime>(c.joins.size() + c.others.size(), SimTime{-1}), .carried = {}};
  std::uint64_t before = 0;
  while (!world.queue.empty()) {
    const SimEvent event = world.queue.pop();
    const SimTime now = event.time;
    if (event.target == EventTarget::Engine) {
      ++before;
      if (event.kind == 0) ring.join(event.index, now);
      if (event.kind == 1) channels.begin(other_channels[event.index], c.others[event.index].bytes, now);
      if (event.kind == 2) ring.spread(now);
    } else {
      const ChannelOwner owner = channels.owner(event.index);
      if (Channels::Kind(event.kind) == Channels::Kind::Ready)
        ring.ready(owner.index, now);
      else if (Channels::Kind(event.kind) == Channels::Kind::Over)
        ring.over(owner.index, event.stamp);
      else if (channels.finish(event))
        owner.transfer == 0 ? ring.sent(owner.index, now) : void(out.ends[c.joins.size() + owner.index] = now);
    }
    for (const Finished& f : finished) {
      CHECK(out.ends[f.member].ps == -1);  // once
      out.ends[f.member] = now;
    }
    finished.clear();
    if (!world.queue.empty() && world.queue.next_time() == now) continue;
    for (const std::uint32_t crowded : channels.crowded()) {
      CHECK(crowded == 0);
      ring.spread(now);
    }
    channels.settle(now);
  }
  for (const LinkLoad& load : channels.loads()) out.carried.push_back(load.carried);
  out.num_events = world.queue.num_popped() - before;
  return out;
}

RingCase random_case(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return std::int64_t(random() % n); };
  RingCase c;
  c.kind =
      std::array{CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce}[random() % 3];
  c.num_kept = 1 + below(12);
  c.size = std::max<std::int64_t>(2, c.num_kept * (1 + below(3)));
  c.pieces = 1 + below(3);
  c.message = {1000 + below(10'000'000)};
  c.latency = {1e-7 * double(below(60))};
  c.base = {1e-6 * double(below(20))};
  const bool is_even = random() % 2;
  for (std::int64_t m = 0; m < c.num_kept; ++m) c.capacities.push_back({1e9 * double(is_even ? 10 : 1 + below(40))});
  const std::int64_t spread = std::array<std::int64_t, 4>{1, 1000, 10'000'000, 2'000'000'000}[random() % 4];
  for (std::int64_t m = 0; m < c.num_kept; ++m) c.joins.push_back({below(std::uint64_t(spread))});
  return c;
}

/// The recurrence of sim/ring_timing.h, word by word.
std::vector<SimTime> naive_last_sends(const RingTiming& t, const std::vector<SimTime>& joins) {
  const std::size_t size = joins.size();
  std::vector<SimTime> ends(size);
  for (std::uint32_t s = 0; s < t.num_steps; ++s) {
    const std::vector<SimTime> before = ends;
    for (std::size_t m = 0; m < size; ++m) {
      const SimTime came = s == 0 ? std::max(joins[m], joins[(m + 1) % size]) : before[(m + size - 1) % size];
      ends[m] = t.moves[m] + std::max(s == 0 ? SimTime{} : before[m], came + t.latency_of(s));
    }
  }
  return ends;
}

}  // namespace

TEST_CASE("ring timing: many steps at once are the recurrence, step by step") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const std::size_t size = 1 + random() % 20;
    const bool is_even = random() % 2;
    RingTiming t{.moves = {},
                 .latency = {std::int64_t(random() % 50)},
                 .base = {std::int64_t(random() % 100)},
                 .steps_per_piece = 1 + std::uint32_t(random() % 50)};
    t.num_steps = t.steps_per_piece * (1 + std::uint32_t(random() % 3));
    std::vector<SimTime> joins;
    for (std::size_t m = 0; m < size; ++m) {
      t.moves.push_back({is_even ? 7 : std::int64_t(random() % 30)});
      joins.push_back({std::int64_t(random() % (random() % 2 ? 10 : 2000))});
    }
    CHECK(last_sends(t, joins) == naive_last_sends(t, joins));
  }
}

TEST_CASE("ring timing: without latency all end together, at the last join and a step's time for every step") {
  // 6 members, 5 steps of 100 ps: 1000 + 500 ps
  const RingTiming t{
      .moves = std::vector<SimTime>(6, SimTime{100}), .latency = {}, .base = {}, .steps_per_piece = 5, .num_steps = 5};
  const std::vector<SimTime> ends = last_sends(t, {{3}, {1000}, {0}, {40}, {999}, {7}});
  CHECK(*std::max_element(ends.begin(), ends.end()) == SimTime{1500});
  CHECK_THROWS_AS(last_sends(t, std::vector<SimTime>(6, SimTime{INT64_MAX - 900})), InputError);
}

TEST_CASE("ring: in closed form every member ends when its messages would, over random rings and arrivals") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const RingCase c = random_case(random);
    const Outcome closed = run(c), messages = run(c, SimTime{});
    CHECK(closed.ends == messages.ends);  // to the picosecond
    for (std::size_t link = 0; link < c.capacities.size(); ++link)
      CHECK(closed.carried[link] == doctest::Approx(messages.carried[link]).epsilon(1e-9));
    CHECK(closed.num_events == c.joins.size());
    CHECK(messages.num_events >= std::uint64_t(ring_steps(c.kind, c.size)) * 2 * c.joins.size());
  }
}

TEST_CASE("ring: whenever it becomes messages, it goes on from where it is") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const RingCase c = random_case(random);
    const Outcome closed = run(c);
    const SimTime end = *std::max_element(closed.ends.begin(), closed.ends.end());
    const Outcome spread = run(c, SimTime{std::int64_t(random() % std::uint64_t(end.ps + 1))});
    for (std::size_t m = 0; m < c.joins.size(); ++m) CHECK(std::abs((closed.ends[m] - spread.ends[m]).ps) <= 2);
    for (std::size_t link = 0; link < c.capacities.size(); ++link)
      CHECK(closed.carried[link] == doctest::Approx(spread.carried[link]).epsilon(1e-9));
  }
}

TEST_CASE("ring: messages of others that appear on its links make it as late as a ring that was messages all along") {
  std::mt19937_64 random(3);
  int num_delayed = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    RingCase c = random_case(random);
    const Outcome alone = run(c);
    const SimTime end = *std::max_element(alone.ends.begin(), alone.ends.end());
    for (std::uint64_t k = 0, n = 1 + random() % 3; k < n; ++k)
      c.others.push_back({SimTime{std::int64_t(random() % std::uint64_t(end.ps + 1))},
                          std::uint32_t(random() % c.joins.size()), double(1000 + random() % 2'000'000)});
    const Outcome closed = run(c), messages = run(c, SimTime{});
    for (std::size_t k = 0; k < closed.ends.size(); ++k) {
      CAPTURE(k);
      CHECK(double(closed.ends[k].ps) == doctest::Approx(double(messages.ends[k].ps)).epsilon(1e-9));
    }
    num_delayed += *std::max_element(closed.ends.begin(), closed.ends.begin() + c.num_kept) > end;
  }
  CHECK(num_delayed > 50);
}

TEST_CASE("flow network: rings on links of their own cost an event per member, also one call behind the other") {
  SimWorld world(64, {.latency = 2.0_us, .bandwidth = 50.0_GBps, .all_reduce_bandwidth = 50.0_GBps});
  const auto network = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
  CHECK(network->ring_cost(0) == RingCost::Closed);
  std::vector<std::uint32_t> ids;
  for (int call = 0; call < 3; ++call) {
    const auto id = network->open({CollectiveKind::AllGather, 0, 64_MiB});
    for (std::uint32_t m = 0; m < 64; ++m) network->join(id, m, world.now);
    CHECK(world.run(*network).size() == 64);
  }
  CHECK(world.queue.num_popped() == 3 * 64);
}

TEST_CASE("flow network: a ring whose members fill a link together is messages; links that differ are stepped") {
  SimWorld world(4, {.latency = 2.0_us, .bandwidth = 50.0_GBps, .all_reduce_bandwidth = 50.0_GBps});
  NetworkLinks links = world.own_links();
  links.capacities[1] = 10.0_GBps;
  CHECK(make_flow_network(world.communicators, world.comm, links, world.queue)->ring_cost(0) == RingCost::Stepped);
  links.capacities.push_back(40.0_GBps);
  links.ring_route = [](std::int64_t from, std::int64_t, const CommGroup&) {
    return Route{{.link = std::uint32_t(from)}, {.link = 4, .weight = 0.5}};
  };
  CHECK(make_flow_network(world.communicators, world.comm, links, world.queue)->ring_cost(0) == RingCost::Messages);
  links.capacities[4] = 200.0_GBps;
  CHECK(make_flow_network(world.communicators, world.comm, links, world.queue)->ring_cost(0) == RingCost::Stepped);
}

// Orders of pipeline schedules: who visits what when, how much is in flight, and the bubble that follows.
#include "planner/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <doctest/doctest.h>

using namespace gpuplan;

namespace {

std::vector<Visit> order(Schedule schedule, const PipelinePlace& place) { return pipeline_row(schedule)->order(place); }

/// Time of a step over its ideal, less 1, where a chunk takes 1 / v forward and 2 / v backward and messages nothing.
/// Written apart from the planner: every visit starts when its stage is free and what it needs has ended.
double bubble(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t m) {
  using Key = std::tuple<bool, std::int64_t, std::uint32_t>;  // direction, chunk of the whole model, micro-batch
  std::map<Key, double> done;
  std::vector<std::vector<Visit>> orders;
  for (std::int64_t r = 0; r < p; ++r) orders.push_back(order(schedule, {p, v, m, r}));
  std::vector<std::size_t> at(std::size_t(p), 0);
  std::vector<double> clock(std::size_t(p), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < std::size_t(p); ++r)
      while (at[r] < orders[r].size()) {
        const Visit& visit = orders[r][at[r]];
        const std::int64_t chunk = visit.chunk * p + std::int64_t(r);
        const bool is_last = chunk == p * v - 1;
        double ready = 0;
        if (visit.is_backward || chunk > 0) {
          const Key needed = !visit.is_backward ? Key{false, chunk - 1, visit.micro_batch}
                             : is_last          ? Key{false, chunk, visit.micro_batch}
                                                : Key{true, chunk + 1, visit.micro_batch};
          if (!done.contains(needed)) break;
          ready = done[needed];
        }
        clock[r] = std::max(clock[r], ready) + (visit.is_backward ? 2.0 : 1.0) / double(v);
        done[{visit.is_backward, chunk, visit.micro_batch}] = clock[r];
        ++at[r], moved = true;
      }
  }
  for (std::size_t r = 0; r < std::size_t(p); ++r) REQUIRE(at[r] == orders[r].size());
  const double ideal = 3.0 * double(m);
  return *std::max_element(clock.begin(), clock.end()) / ideal - 1;
}

/// Chunks of a stage that are between their two visits.
std::int64_t chunks_in_flight(std::span<const Visit> visits) {
  std::int64_t open = 0, most = 0;
  for (const Visit& v : visits) most = std::max(most, open += v.is_backward ? -1 : 1);
  return most;
}

}  // namespace

TEST_CASE("every schedule visits each chunk once forward with each micro-batch, and once backward after that") {
  for (const PipelineRow& row : pipeline_schedules())
    for (const std::int64_t p : {2, 4, 8})
      for (const std::int64_t v : {1, 2, 5}) {
        if (v > 1 && !row.has_chunks) continue;
        for (std::int64_t r = 0; r < p; ++r) {
          std::set<std::tuple<std::uint16_t, std::uint32_t>> forward, backward;
          for (const Visit& visit : row.order({p, v, 3 * p, r})) {
            const std::tuple key(visit.chunk, visit.micro_batch);
            if (visit.is_backward) CHECK(forward.contains(key));
            CHECK((visit.is_backward ? backward : forward).insert(key).second);
          }
          CHECK(forward.size() == std::size_t(v * 3 * p));
          CHECK(backward == forward);
        }
      }
}

TEST_CASE("the bubble is (p - 1) / m of equal stages, and (p - 1) / (v m) where v chunks are interleaved") {
  // Narayanan et al. 2021, section 2.2
  for (const auto& [p, m] : {std::pair{4, 16}, {8, 64}, {16, 128}})
    for (const Schedule schedule : {Schedule::GPipe, Schedule::OneFOneB})
      CHECK(bubble(schedule, p, 1, m) == doctest::Approx(double(p - 1) / m).epsilon(1e-12));
  for (const auto& [p, v, m] : {std::tuple{4, 5, 64}, {8, 5, 64}, {8, 8, 64}, {8, 12, 32}, {4, 8, 16}})
    CHECK(bubble(Schedule::Interleaved, p, v, m) == doctest::Approx(double(p - 1) / (v * m)).epsilon(1e-12));
}

TEST_CASE("in flight: all micro-batches, as many as stages are behind, or twice those and the chunks between") {
  CHECK(chunks_in_flight(order(Schedule::GPipe, {4, 1, 16, 0})) == 16);
  for (std::int64_t r = 0; r < 4; ++r) CHECK(chunks_in_flight(order(Schedule::OneFOneB, {4, 1, 16, r})) == 4 - r);
  // 2 (p - 1) + (v - 1) p + 1 on the first stage, (v - 1) p + 1 on the last
  CHECK(chunks_in_flight(order(Schedule::Interleaved, {8, 5, 64, 0})) == 47);
  CHECK(chunks_in_flight(order(Schedule::Interleaved, {4, 8, 16, 0})) == 35);
  CHECK(chunks_in_flight(order(Schedule::Interleaved, {4, 8, 16, 3})) == 29);
  CHECK(most_in_flight(order(Schedule::OneFOneB, {4, 1, 16, 0})) == 4);
  // of one chunk: p and, before the next group ends, up to p more
  CHECK(most_in_flight(order(Schedule::Interleaved, {4, 8, 16, 0})) <= 8);
}

TEST_CASE("micro-batches of a chunk go and come back in order, so that slots are used in turn") {
  for (std::int64_t r = 0; r < 4; ++r) {
    const std::vector<Visit> visits = order(Schedule::Interleaved, {4, 5, 12, r});
    const auto slots = std::uint32_t(most_in_flight(visits));
    std::set<std::pair<std::uint16_t, std::uint32_t>> used;
    for (const Visit& v : visits) {
      const std::pair slot(v.chunk, v.micro_batch % slots);
      if (v.is_backward)
        CHECK(used.erase(slot) == 1);
      else
        CHECK(used.insert(slot).second);
    }
  }
}

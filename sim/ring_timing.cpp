#include "sim/ring_timing.h"

#include <algorithm>
#include <deque>

namespace gpuplan {
namespace {

using Ends = std::vector<std::int64_t>;  // ps, by place

/// One step in which every message has this latency.
void step(Ends& ends, const RingTiming& timing, std::int64_t latency) {
  std::int64_t previous = ends.back();
  for (std::size_t p = 0; p < ends.size(); ++p) {
    const std::int64_t own = ends[p];
    ends[p] = timing.moves[p].ps + std::max(own, previous + latency);
    previous = own;
  }
}

/// `count` steps at once of a ring whose messages all move for `move`.
void steps_alike(Ends& ends, std::int64_t count, std::int64_t move, std::int64_t latency) {
  const auto size = std::int64_t(ends.size()), width = std::min(count, size - 1);
  // Over 0 <= j <= width the maximum of E(first + j) - j L, for the places from the last to the first one.
  struct Candidate {
    std::int64_t place, value;  // value: E(place) - place x L, of the circle unrolled
  };
  std::deque<Candidate> best;
  const Ends before = ends;
  for (std::int64_t first = size + width - 1; first >= 0; --first) {
    const std::int64_t value = before[std::size_t(first % size)] - first * latency;
    while (!best.empty() && best.back().value <= value) best.pop_back();
    best.push_back({first, value});
    while (best.front().place > first + width) best.pop_front();
    if (first < size)
      ends[std::size_t((first + count) % size)] = best.front().value + first * latency + count * (move + latency);
  }
}

}  // namespace

std::vector<SimTime> last_sends(const RingTiming& timing, const std::vector<SimTime>& joins) {
  const std::size_t size = joins.size();
  const auto [least, most] = std::minmax_element(timing.moves.begin(), timing.moves.end());
  const std::int64_t latency = timing.latency.ps, first_latency = (timing.latency + timing.base).ps;
  // The longest path there may be, so that sums need no checks below.
  const std::int64_t longest = checked_product(timing.num_steps, checked_sum(most->ps, first_latency));
  (void)(*std::max_element(joins.begin(), joins.end()) + SimTime{checked_product(2, longest)});
  Ends ends(size);
  for (std::size_t p = 0; p < size; ++p)
    ends[p] = std::max(joins[p], joins[(p + 1) % size]).ps + first_latency + timing.moves[p].ps;
  for (std::uint32_t at = 0; at < timing.num_steps; at += timing.steps_per_piece) {
    if (at > 0) step(ends, timing, first_latency);
    if (*least == *most)
      steps_alike(ends, timing.steps_per_piece - 1, most->ps, latency);
    else
      for (std::uint32_t s = 1; s < timing.steps_per_piece; ++s) step(ends, timing, latency);
  }
  std::vector<SimTime> out;
  for (const std::int64_t end : ends) out.push_back({end});
  return out;
}

}  // namespace gpuplan

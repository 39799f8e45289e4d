// The times at which the members of a ring send, without an event per message. While its links are free for it, all
// messages of a member take the same time, and the ring is a recurrence. Let a member have its predecessor's message s
// - 1 and let the latency L(s) pass; it then sends message s, which moves for c, behind its own message s - 1. So it
// ends at
//
//   E(m, s) = c(m) + max(E(m, s - 1), E(m - 1, s - 1) + L(s)),   E(m, 0) = c(m) + L(0) + max(join(m), join(m + 1)),
//
// with members numbered in ring order. L is one latency, more for the first message of each piece of a cut collective.
// Unrolled, E(m, s) is the longest of the paths that begin at some member's message 0 and at every later step either
// pass on to the next member, c + L, or stay, c. Where all c and L are alike, a path that stays j times of n began at
// member m - n + j, and one that stays M times is M L shorter than the one that goes round once more instead:
//
//   E(m, s + n) = n (c + L) + max over 0 <= j <= min(n, M - 1) of (E(m - n + j, s) - j L),
//
// a sliding maximum: O(M) for any number of steps. Without latency and for n >= M - 1 it is max(E(., s)) + n c: all end
// together. Where c differs (a network behind NVLink), the recurrence itself is run, a nanosecond per message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/sim_time.h"

namespace gpuplan {

struct RingTiming {
  std::vector<SimTime> moves;  // by place in the ring: how long a message moves
  SimTime latency, base;       // of every message; more of the first of a piece
  std::uint32_t steps_per_piece = 1, num_steps = 1;

  SimTime latency_of(std::uint32_t step) const { return step % steps_per_piece == 0 ? latency + base : latency; }
};

/// The end of the last message of each place. `joins`: by place. Throws AmountTooLarge where the clock ends before.
std::vector<SimTime> last_sends(const RingTiming& timing, const std::vector<SimTime>& joins);

/// A message whose content has come to a place of the ring.
struct RingMessage {
  std::uint32_t place{};
  SimTime ready, begin, end;  // its latency is over; it moves from begin to end
};

/// Calls `see` for every message that is prepared by `now`, step after step. Members whose join is kNeverTime have not
/// come: nobody sends to them, nor they.
template <class See>
void each_prepared(const RingTiming& timing, const std::vector<SimTime>& joins, SimTime now, See see) {
  const std::size_t size = joins.size();
  std::vector<SimTime> ends(size, kNeverTime), before;
  bool is_any = true;
  for (std::uint32_t step = 0; step < timing.num_steps && is_any; ++step) {
    is_any = false;
    before = ends;
    for (std::uint32_t p = 0; p < size; ++p) {
      const SimTime previous = before[(p + size - 1) % size];
      SimTime prepared = std::max(joins[p], joins[(p + 1) % size]);
      if (step > 0) prepared = std::max(prepared, previous);
      ends[p] = kNeverTime;
      if (prepared > now) continue;
      is_any = true;
      const SimTime ready = prepared + timing.latency_of(step), begin = step > 0 ? std::max(ready, before[p]) : ready;
      ends[p] = begin + timing.moves[p];
      see(RingMessage{p, ready, begin, ends[p]});
    }
  }
}

}  // namespace gpuplan

// Lanes: senders of messages over the shared links, one message at a time each. A message is a flow: its latency passes
// first and occupies nothing, then its bytes move at the rate that fair sharing gives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/event_queue.h"
#include "sim/fair_share.h"
#include "sim/network.h"

namespace gpuplan {

/// The transfer that a lane belongs to, and which of its lanes it is.
struct LaneOwner {
  std::uint32_t transfer{}, index{};
};

class Lanes {
 public:
  enum class Kind : std::uint8_t { Ready, Sent };

  Lanes(std::vector<BytesPerSec> capacities, EventQueue& queue)
      : shares_(std::move(capacities)),
        loads_(shares_.num_links()),
        queue_(queue) {}

  std::uint32_t add_route(std::span<const LinkUse> route) { return shares_.add_route(route); }
  /// How long the busiest link takes when a byte goes over each of the routes.
  double seconds_per_byte(std::span<const std::uint32_t> routes) const;
  /// Ids count from 0.
  std::uint32_t add(LaneOwner owner, std::uint32_t route);
  void set_route(std::uint32_t lane, std::uint32_t route) { lanes_[lane].route = route; }
  const LaneOwner& owner(std::uint32_t lane) const { return lanes_[lane].owner; }

  /// An event of kind Ready at `time`.
  void call_at(std::uint32_t lane, SimTime time) {
    queue_.push({.time = time, .target = EventTarget::Network, .kind = std::uint8_t(Kind::Ready), .index = lane});
  }
  /// Moves `bytes`, which may be a fraction; an event of kind Sent follows.
  void begin(std::uint32_t lane, double bytes, SimTime now);
  /// True when `event` (of kind Sent) is the true end of the lane's message, false when its rate changed since.
  bool finish(const SimEvent& event);
  void settle(SimTime now);

  std::span<const LinkLoad> loads() const { return loads_; }

 private:
  struct Lane {
    double bytes{}, left{};       // of the message
    SimTime updated;              // when `left` was true
    double rate{};                // since then, in bytes per second
    SimTime due;                  // its end at this rate
    SimTime queued = kNeverTime;  // its event's; not after `due`, so that slowing down costs no event
    std::uint32_t route{}, stamp{};
    LaneOwner owner;
  };

  void expect(std::uint32_t lane, SimTime end);

  FairShare shares_;
  std::vector<Lane> lanes_;
  std::vector<LinkLoad> loads_;
  EventQueue& queue_;
};

}  // namespace gpuplan

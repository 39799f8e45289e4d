// Channels: senders of messages over the shared links, one message at a time each. A message is a flow: its latency
// passes first and occupies nothing, then its bytes move at the rate that fair sharing gives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/event_queue.h"
#include "sim/fair_share.h"
#include "sim/network.h"

namespace gpuplan {

/// The transfer that a channel belongs to, and which of its channels it is.
struct ChannelOwner {
  std::uint32_t transfer{}, index{};
};

class Channels {
 public:
  enum class Kind : std::uint8_t { Ready, Sent };

  Channels(std::vector<BytesPerSec> capacities, EventQueue& queue)
      : shares_(std::move(capacities)),
        loads_(shares_.num_links()),
        queue_(queue) {}

  std::uint32_t add_route(std::span<const LinkUse> route) { return shares_.add_route(route); }
  /// How long the busiest link takes when a byte goes over each of the routes.
  double seconds_per_byte(std::span<const std::uint32_t> routes) const;
  /// Ids count from 0.
  std::uint32_t add(ChannelOwner owner, std::uint32_t route);
  void set_route(std::uint32_t channel, std::uint32_t route) { channels_[channel].route = route; }
  const ChannelOwner& owner(std::uint32_t channel) const { return channels_[channel].owner; }

  /// An event of kind Ready at `time`.
  void call_at(std::uint32_t channel, SimTime time) {
    queue_.push({.time = time, .target = EventTarget::Network, .kind = std::uint8_t(Kind::Ready), .index = channel});
  }
  /// Moves `bytes`, which may be a fraction; an event of kind Sent follows.
  void begin(std::uint32_t channel, double bytes, SimTime now);
  /// True when `event` (of kind Sent) is the true end of the channel's message, false when its rate changed since.
  bool finish(const SimEvent& event);
  void settle(SimTime now);

  std::span<const LinkLoad> loads() const { return loads_; }

 private:
  struct Channel {
    double bytes{}, left{};       // of the message
    SimTime updated;              // when `left` was true
    double rate{};                // since then, in bytes per second
    SimTime due;                  // its end at this rate
    SimTime queued = kNeverTime;  // its event's; not after `due`, so that slowing down costs no event
    std::uint32_t route{}, stamp{};
    ChannelOwner owner;
  };

  void expect(std::uint32_t channel, SimTime end);

  FairShare shares_;
  std::vector<Channel> channels_;
  std::vector<LinkLoad> loads_;
  EventQueue& queue_;
};

}  // namespace gpuplan

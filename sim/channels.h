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

/// The bytes that a channel moved without messages, and how long they took.
struct ChannelUse {
  std::uint32_t channel{};
  double bytes{};
  SimTime busy;
};

class Channels {
 public:
  enum class Kind : std::uint8_t { Ready, Sent, Over };

  Channels(std::vector<BytesPerSec> capacities, EventQueue& queue)
      : shares_(std::move(capacities)),
        loads_(shares_.num_links()),
        busiest_(shares_.num_links()),
        queue_(queue) {}

  std::uint32_t add_route(std::span<const LinkUse> route) { return shares_.add_route(route); }
  /// Says how long the busiest link takes when a byte goes over each of the routes.
  double seconds_per_byte(std::span<const std::uint32_t> routes) const;
  /// Ids count from 0.
  std::uint32_t add(ChannelOwner owner, std::uint32_t route);
  void set_route(std::uint32_t channel, std::uint32_t route) { channels_[channel].route = route; }
  const ChannelOwner& owner(std::uint32_t channel) const { return channels_[channel].owner; }

  /// An event of kind Ready at `time`.
  void call_at(std::uint32_t channel, SimTime time) {
    queue_.push({.time = time, .target = EventTarget::Network, .kind = std::uint8_t(Kind::Ready), .index = channel});
  }
  /// An event of kind Over at `time`, with the caller's stamp.
  void call_over(std::uint32_t channel, SimTime time, std::uint32_t stamp) {
    queue_.push({time, EventTarget::Network, std::uint8_t(Kind::Over), channel, stamp});
  }
  /// Moves `bytes`, which may be a fraction; an event of kind Sent follows.
  void begin(std::uint32_t channel, double bytes, SimTime now) { go_on(channel, bytes, now, now); }
  /// The same for a message that has been under way since `begun`, alone.
  void go_on(std::uint32_t channel, double bytes, SimTime begun, SimTime now);
  /// True when `event` (of kind Sent) is the true end of the channel's message, false when its rate changed since.
  bool finish(const SimEvent& event);
  void settle(SimTime now);

  const FairShare& shares() const { return shares_; }
  /// Duration of a message that has its links to itself.
  SimTime time_alone(std::uint32_t channel, double bytes) const;
  /// Keeps room for the channel's messages, which come and go unseen until `let_go`.
  void hold(std::uint32_t channel) { shares_.hold(channels_[channel].owner.transfer, channels_[channel].route); }
  void let_go(std::uint32_t channel) { shares_.let_go(channels_[channel].owner.transfer, channels_[channel].route); }
  /// Transfers whose room others need now: they must let go before `settle`.
  std::vector<std::uint32_t> crowded() { return shares_.crowded(); }
  /// Loads the links with what channels of one transfer moved unseen. They kept step, so that a link of several is busy
  /// as long as the busiest of them.
  void count_use(std::span<const ChannelUse> uses);

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
  std::vector<SimTime> busiest_;  // by link; while counting uses
  EventQueue& queue_;
};

}  // namespace gpuplan

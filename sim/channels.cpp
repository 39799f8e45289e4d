#include "sim/channels.h"
#include "base/narrow.h"

#include <algorithm>
#include <utility>

namespace gpuplan {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

/// Says how long `bytes` take; rounded up, so that no message arrives early. Exact for round rates.
SimTime time_to_move(double bytes, double rate) {
  const double exact = bytes * kPicosecondsPerSecond / rate;
  const auto whole = std::int64_t(exact);
  return {whole + (double(whole) < exact ? 1 : 0)};
}

}  // namespace

std::uint32_t Channels::add(ChannelOwner owner, std::uint32_t route) {
  channels_.push_back({.route = route, .owner = owner});
  return narrow<std::uint32_t>(channels_.size() - 1);
}

double Channels::seconds_per_byte(std::span<const std::uint32_t> routes) const {
  std::vector<double> load(shares_.num_links());
  double busiest = 0;
  for (const std::uint32_t route : routes)
    for (const LinkUse& use : shares_.route(route)) {
      load[use.link] += use.weight / shares_.capacity(use.link).value;
      busiest = std::max(busiest, load[use.link]);
    }
  return busiest;
}

void Channels::go_on(std::uint32_t channel, double bytes, SimTime begun, SimTime now) {
  Channel& l = channels_[channel];
  l.bytes = l.left = bytes;
  if (begun < now)
    l.left =
        std::max(0.0, bytes - shares_.free_rate(l.route).value * (double((now - begun).ps) / kPicosecondsPerSecond));
  l.updated = now;
  l.rate = 0;
  for (const LinkUse& use : shares_.route(l.route))
    if (shares_.num_flows(use.link) == 0) loads_[use.link].busy += SimTime{} - begun;
  shares_.begin(channel, l.route);
}

SimTime Channels::time_alone(std::uint32_t channel, double bytes) const {
  return time_to_move(bytes, shares_.free_rate(channels_[channel].route).value);
}

void Channels::count_use(std::span<const ChannelUse> uses) {
  for (const ChannelUse& u : uses)
    for (const LinkUse& use : shares_.route(channels_[u.channel].route)) {
      loads_[use.link].carried += use.weight * u.bytes;
      busiest_[use.link] = std::max(busiest_[use.link], u.busy);
    }
  for (const ChannelUse& u : uses)
    for (const LinkUse& use : shares_.route(channels_[u.channel].route))
      loads_[use.link].busy += std::exchange(busiest_[use.link], SimTime{});
}

bool Channels::finish(const SimEvent& event) {
  Channel& l = channels_[event.index];
  if (event.stamp != l.stamp) return false;
  if (l.due > event.time) {  // it slowed down since
    expect(event.index, l.due);
    return false;
  }
  ++l.stamp;
  l.queued = kNeverTime;
  shares_.end(event.index);
  for (const LinkUse& use : shares_.route(l.route)) {
    LinkLoad& load = loads_[use.link];
    load.carried += use.weight * l.bytes;
    if (shares_.num_flows(use.link) == 0) load.busy += event.time;
  }
  return true;
}

void Channels::settle(SimTime now) {
  for (const std::uint32_t channel : shares_.settle()) {
    Channel& l = channels_[channel];
    if (l.rate > 0) l.left = std::max(0.0, l.left - l.rate * (double((now - l.updated).ps) / kPicosecondsPerSecond));
    l.updated = now;
    l.rate = shares_.rate(channel).value;
    l.due = now + time_to_move(l.left, l.rate);
    if (l.due < l.queued) expect(channel, l.due);
  }
}

/// Makes what was expected before outdated.
void Channels::expect(std::uint32_t channel, SimTime end) {
  Channel& l = channels_[channel];
  l.queued = end;
  queue_.push({.time = end,
               .target = EventTarget::Network,
               .kind = std::uint8_t(Kind::Sent),
               .index = channel,
               .stamp = ++l.stamp});
}

}  // namespace gpuplan

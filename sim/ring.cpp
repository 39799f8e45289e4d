#include "sim/ring.h"

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

Ring::Ring(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
           std::span<const std::uint32_t> routes, bool may_be_closed)
    : CollectiveRun(context, transfer),
      communicator_(communicator),
      members_(communicator.ranks.size()) {
  std::vector<bool> has_previous(members_.size());
  for (std::uint32_t m = 0; m < members_.size(); ++m) {
    const std::uint32_t channel = context.channels.add({transfer, m}, routes[m]), next = communicator.next_member[m];
    if (m == 0) first_channel_ = channel;
    GPUPLAN_CHECK(next < members_.size() && !has_previous[next], "every member of a ring must have one predecessor");
    has_previous[next] = true;
    members_[m].next = next;
    members_[next].previous = m;
  }
  std::uint32_t at = 0;
  do {
    members_[at].place = narrow<std::uint32_t>(order_.size());
    order_.push_back(at);
    at = members_[at].next;
  } while (at != 0);
  may_be_closed_ = may_be_closed && order_.size() == members_.size();
  timing_.moves.resize(members_.size());
}

void Ring::open(const CollectiveCall& call, const Lowering& lowering) {
  call_ = call;
  timing_.steps_per_piece = narrow<std::uint32_t>(ring_steps(call.kind, communicator_.size));
  timing_.num_steps = timing_.steps_per_piece * narrow<std::uint32_t>(call.num_messages);
  timing_.latency = to_sim_time(lowering.all_steps / double(timing_.steps_per_piece));
  timing_.base = to_sim_time(lowering.base);
  chunk_ = lowering.wire_bytes / double(timing_.steps_per_piece);
  for (Member& m : members_) m = {.next = m.next, .previous = m.previous, .place = m.place};
  is_closed_ = may_be_closed_;
  if (!is_closed_) return;
  num_missing_ = narrow<std::uint32_t>(members_.size());
  joins_.assign(members_.size(), kNeverTime);
  for (std::size_t p = 0; p < order_.size(); ++p)
    timing_.moves[p] = context_.channels.time_alone(channel_of(p), chunk_);
}

void Ring::join(std::uint32_t member, SimTime now) {
  Member& m = members_[member];
  m.has_joined = true;
  if (is_closed_) {
    joins_[m.place] = now;
    context_.channels.hold(first_channel_ + member);
    if (--num_missing_ == 0) schedule_ends();
    return;
  }
  prepare(member, now);
  if (m.previous != member) prepare(m.previous, now);
}

/// A member is over when it has sent its last message and received that of its predecessor.
void Ring::schedule_ends() {
  const std::vector<SimTime> sent = last_sends(timing_, joins_);
  for (std::size_t p = 0; p < sent.size(); ++p)
    context_.channels.call_over(channel_of(p), std::max(sent[p], sent[(p + sent.size() - 1) % sent.size()]), stamp_);
  num_missing_ = narrow<std::uint32_t>(members_.size());
}

void Ring::over(std::uint32_t channel, std::uint32_t stamp) {
  if (stamp != stamp_) return;  // it has spread since
  Member& m = members_[channel];
  m.num_sent = timing_.num_steps;
  m.is_over = true;
  context_.channels.let_go(first_channel_ + channel);
  finish_member(channel);
  if (--num_missing_ > 0) return;
  std::vector<ChannelUse> uses;
  for (std::size_t p = 0; p < order_.size(); ++p)
    uses.push_back({channel_of(p), timing_.num_steps * chunk_, {timing_.moves[p].ps * timing_.num_steps}});
  context_.channels.count_use(uses);
}

void Ring::spread(SimTime now) {
  if (!is_closed_) return;
  is_closed_ = false;
  ++stamp_;
  for (std::uint32_t m = 0; m < members_.size(); ++m)
    if (members_[m].has_joined && !members_[m].is_over) context_.channels.let_go(first_channel_ + m);
  for (Member& m : members_) m.num_sent = 0;
  each_prepared(timing_, joins_, now, [&](const RingMessage& message) {
    Member& m = members_[order_[message.place]];
    const std::uint32_t channel = channel_of(message.place);
    ++m.num_prepared;
    m.last_ready = std::max(m.last_ready, message.ready);
    if (m.last_ready > now)
      context_.channels.call_at(channel, m.last_ready);
    else
      ++m.num_ready;
    if (message.end <= now) {
      ++m.num_sent;
      ++members_[m.next].num_received;
    } else if (message.begin <= now) {
      m.is_sending = true;
      context_.channels.go_on(channel, chunk_, message.begin, now);
    }
  });
  std::vector<ChannelUse> uses;
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const std::uint32_t num_sent = members_[order_[p]].num_sent;
    uses.push_back({channel_of(p), num_sent * chunk_, {timing_.moves[p].ps * num_sent}});
  }
  context_.channels.count_use(uses);
}

/// Lets the latency pass of every message whose content is there. None is ready before the one that it follows.
void Ring::prepare(std::uint32_t member, SimTime now) {
  Member& m = members_[member];
  if (!m.has_joined || !members_[m.next].has_joined) return;
  for (; m.num_prepared <= m.num_received && m.num_prepared < timing_.num_steps; ++m.num_prepared) {
    m.last_ready = std::max(m.last_ready, now + timing_.latency_of(m.num_prepared));
    context_.channels.call_at(first_channel_ + member, m.last_ready);
  }
}

void Ring::ready(std::uint32_t channel, SimTime now) {
  Member& m = members_[channel];
  ++m.num_ready;
  if (!m.is_sending) send_next(channel, now);
}

void Ring::send_next(std::uint32_t member, SimTime now) {
  members_[member].is_sending = true;
  context_.channels.begin(first_channel_ + member, chunk_, now);
}

void Ring::sent(std::uint32_t channel, SimTime now) {
  Member& from = members_[channel];
  Member& to = members_[from.next];
  from.is_sending = false;
  ++from.num_sent;
  ++to.num_received;
  prepare(from.next, now);
  if (from.num_ready > from.num_sent) send_next(channel, now);
  if (from.num_sent == timing_.num_steps) check_done(channel);
  if (to.num_received == timing_.num_steps && from.next != channel) check_done(from.next);
}

void Ring::check_done(std::uint32_t member) {
  const Member& m = members_[member];
  if (m.num_sent == timing_.num_steps && m.num_received == timing_.num_steps) finish_member(member);
}

void Ring::finish_member(std::uint32_t member) {
  const auto pieces = communicator_.size * call_.num_messages;
  context_.sent.add(communicator_.ranks[member],
                    {std::int64_t(__int128_t(call_.message.count) * timing_.num_steps / pieces)});
  finish(member);
}

}  // namespace gpuplan

#include "sim/ring.h"

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

Ring::Ring(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
           std::span<const std::uint32_t> routes)
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
}

void Ring::open(const CollectiveCall& call, const Lowering& lowering) {
  call_ = call;
  steps_per_piece_ = narrow<std::uint32_t>(ring_steps(call.kind, communicator_.size));
  num_steps_ = steps_per_piece_ * narrow<std::uint32_t>(call.num_messages);
  step_ = to_sim_time(lowering.all_steps / double(steps_per_piece_));
  base_ = to_sim_time(lowering.base);
  chunk_ = lowering.wire_bytes / double(steps_per_piece_);
  for (Member& m : members_) m = {.next = m.next, .previous = m.previous};
}

void Ring::join(std::uint32_t member, SimTime now) {
  Member& m = members_[member];
  m.has_joined = true;
  prepare(member, now);
  if (m.previous != member) prepare(m.previous, now);
}

/// Lets the latency pass of every message whose content is there.
void Ring::prepare(std::uint32_t member, SimTime now) {
  Member& m = members_[member];
  if (!m.has_joined || !members_[m.next].has_joined) return;
  for (; m.num_prepared <= m.num_received && m.num_prepared < num_steps_; ++m.num_prepared) {
    SimTime latency = step_;
    if (m.num_prepared == m.piece_begin) {
      latency += base_;
      m.piece_begin += steps_per_piece_;
    }
    context_.channels.call_at(first_channel_ + member, now + latency);
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
  if (from.num_sent == num_steps_) check_done(channel);
  if (to.num_received == num_steps_ && from.next != channel) check_done(from.next);
}

void Ring::check_done(std::uint32_t member) {
  const Member& m = members_[member];
  if (m.num_sent < num_steps_ || m.num_received < num_steps_) return;
  const auto pieces = communicator_.size * call_.num_messages;
  context_.sent.add(communicator_.ranks[member], {std::int64_t(__int128_t(call_.message.count) * m.num_sent / pieces)});
  finish(member);
}

}  // namespace gpuplan

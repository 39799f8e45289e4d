#include "sim/collective_run.h"
#include "base/narrow.h"

namespace gpuplan {

Nvls::Nvls(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
           std::span<const std::uint32_t> routes)
    : CollectiveRun(context, transfer),
      communicator_(communicator) {
  for (std::uint32_t m = 0; m < routes.size(); ++m) {
    const std::uint32_t channel = context.channels.add({transfer, m}, routes[m]);
    if (m == 0) first_channel_ = channel;
  }
}

void Nvls::open(const CollectiveCall& call, const Lowering& lowering) {
  num_missing_ = narrow<std::uint32_t>(communicator_.ranks.size());
  pieces_left_ = call.num_messages;
  latency_ = to_sim_time(lowering.base + lowering.all_steps);
  payload_ = lowering.payload;
  bytes_ = lowering.wire_bytes;
}

void Nvls::join(std::uint32_t, SimTime now) {
  if (--num_missing_ == 0) begin_piece(now);
}

void Nvls::begin_piece(SimTime now) {
  num_missing_ = narrow<std::uint32_t>(communicator_.ranks.size());
  --pieces_left_;
  for (std::uint32_t m = 0; m < num_missing_; ++m) context_.channels.call_at(first_channel_ + m, now + latency_);
}

void Nvls::ready(std::uint32_t channel, SimTime now) { context_.channels.begin(first_channel_ + channel, bytes_, now); }

void Nvls::sent(std::uint32_t, SimTime now) {
  if (--num_missing_ > 0) return;
  if (pieces_left_ > 0) return begin_piece(now);
  for (std::uint32_t m = 0; m < communicator_.ranks.size(); ++m) {
    context_.sent.add(communicator_.ranks[m], payload_);
    finish(m);
  }
}

}  // namespace gpuplan

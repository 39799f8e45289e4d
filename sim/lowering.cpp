#include "sim/lowering.h"

#include <algorithm>

namespace gpuplan {
namespace {

Seconds time_of(const CollectiveCall& call, Axis axis, const CommModel& comm) {
  const Bytes piece{call.message.count / call.num_messages};
  switch (call.kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter: return comm.gather_time(axis, call.message, call.num_messages);
    case CollectiveKind::AllReduce: return double(call.num_messages) * comm.all_reduce_time(axis, piece);
    case CollectiveKind::Broadcast:
      return double(call.num_messages) * comm.choose(CollectiveKind::Broadcast, axis, piece).time;
    case CollectiveKind::AllToAll: return comm.all_to_all_time(axis, call.message);
    case CollectiveKind::SendRecv: break;  // is sent, not opened
  }
  return {};
}

}  // namespace

Lowering lower(const CollectiveCall& call, const CommGroup& communicator, const CommModel& comm) {
  if (communicator.size <= 1) return {};
  const CollectiveChoice choice = comm.choose(call.kind, communicator.axis, {call.message.count / call.num_messages});
  const BytesPerSec bandwidth = comm.axes[std::size_t(communicator.axis)].link.bandwidth;
  Lowering out{.algorithm = choice.algorithm, .base = choice.base};
  out.all_steps = double(choice.intra_steps) * choice.intra_step + double(choice.inter_steps) * choice.inter_step;
  out.wire_bytes = double(choice.sent.count) * choice.wire_factor;
  out.wire_time = {out.wire_bytes / bandwidth.value};
  out.payload = bytes_sent_by_member(call.kind, call.message, communicator.size);
  if (out.algorithm == Algorithm::Nvls) out.payload = call.message + Bytes{call.message.count / communicator.size};
  out.time = time_of(call, communicator.axis, comm);
  return out;
}

const Lowering& Lowerings::of(const CollectiveCall& call) {
  auto& known = known_[call.communicator];
  const auto at = std::find_if(known.begin(), known.end(), [&](const Known& k) {
    return k.call.kind == call.kind && k.call.message == call.message && k.call.num_messages == call.num_messages;
  });
  if (at != known.end()) return at->lowering;
  return known.emplace_back(Known{call, lower(call, communicators_[call.communicator], comm_)}).lowering;
}

}  // namespace gpuplan

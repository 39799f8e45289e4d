#include "sim/lowering.h"

#include "sim/sent_bytes.h"

namespace gpuplan {
namespace {

Lowering lower_message(const CollectiveCall& call, const CommModel& comm) {
  const Bytes message{call.message.count / call.num_messages};
  const LinkCost link = comm.send_link(message);
  const double bytes = double(call.message.count) / double(call.num_messages);
  return {.all_steps = link.latency,
          .wire_bytes = bytes,
          .wire_time = {bytes / link.bandwidth.value},
          .payload = call.message};
}

}  // namespace

Lowering lower(const CollectiveCall& call, const CommGroup& communicator, const CommModel& comm) {
  if (call.kind == CollectiveKind::SendRecv) return lower_message(call, comm);
  const CollectiveChoice choice = comm.choose(call.kind, communicator.axis, {call.message.count / call.num_messages});
  const BytesPerSec bandwidth = comm.axes[std::size_t(communicator.axis)].link.bandwidth;
  Lowering out{.algorithm = choice.algorithm, .base = choice.base};
  out.all_steps = double(choice.intra_steps) * choice.intra_step + double(choice.inter_steps) * choice.inter_step;
  out.wire_bytes = double(choice.sent.count) * choice.wire_factor;
  out.wire_time = {out.wire_bytes / bandwidth.value};
  out.payload = bytes_sent_by_member(call.kind, call.message, communicator.size);
  if (out.algorithm == Algorithm::Nvls) out.payload = call.message + Bytes{call.message.count / communicator.size};
  return out;
}

}  // namespace gpuplan

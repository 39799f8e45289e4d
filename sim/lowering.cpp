#include "sim/lowering.h"

#include "sim/sent_bytes.h"

namespace gpuplan {

Lowering lower(const CollectiveCall& call, const CommGroup& communicator, const CommModel& comm) {
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

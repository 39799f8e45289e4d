#include "sim/lowering.h"

#include "sim/sent_bytes.h"

namespace gpuplan {

Lowering lower(const CollectiveCall& call, const Communicator& communicator, const CommModel& comm) {
  const bool is_message = call.kind == CollectiveKind::SendRecv;
  const LinkCost& link = comm.axes[std::size_t(is_message ? Axis::Pp : communicator.axis)].link;
  Lowering out{.algorithm = Algorithm::Ring, .intra_step = link.latency, .inter_step = link.latency};
  out.intra_steps = ring_steps(call.kind, communicator.size);
  // The links have the rate of gathers; where the switch reduces, an all-reduce gets by with fewer bytes.
  if (call.kind == CollectiveKind::AllReduce) out.wire_factor = link.bandwidth / link.all_reduce_bandwidth;
  return out;
}

}  // namespace gpuplan

// Collectives in which every member moves its share in one go once all have come: through the reducing switch (NVLS),
// and the stand-in for trees of which only some members are simulated.
#pragma once

#include "sim/collective_run.h"

namespace gpuplan {

/// After the last join, the latency of all steps; then one message per member over its ring route, which loads its way
/// to the switch and its neighbour's way from it: over all members each direction of each GPU once. Done when all are:
/// the switch needs everybody's part. What the switch saves is in the wire bytes.
class Nvls final : public CollectiveRun {
 public:
  Nvls(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
       std::span<const std::uint32_t> routes);

  void open(const CollectiveCall& call, const Lowering& lowering) override;
  void join(std::uint32_t member, SimTime now) override;
  void ready(std::uint32_t lane, SimTime now) override;
  void sent(std::uint32_t lane, SimTime now) override;

 private:
  void begin_piece(SimTime now);

  const CommGroup& communicator_;
  std::uint32_t first_lane_{}, num_missing_{};  // members that have not joined, or not sent
  std::int64_t pieces_left_{};
  SimTime latency_;
  double bytes_{};
  Bytes payload_;
};

}  // namespace gpuplan

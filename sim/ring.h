// All-gather, reduce-scatter and all-reduce over a ring. In step k every rank passes on what it got in step k - 1, so a
// rank that is late holds up the ring from its place on.
#pragma once

#include "sim/collective_run.h"

namespace gpuplan {

/// n - 1 steps (2 (n - 1) to all-reduce) of S / n bytes per rank, each with the mean latency of a step: so the whole
/// takes what the closed form says, and a ring of which only some members are simulated takes no more or less. A rank
/// sends one message after the other; the latency of the next passes while the bytes of this one move. Of a folded
/// ring, each simulated member takes all steps, from the member that stands for its predecessor. A message needs both
/// ends to have joined. Pieces of a cut collective follow each other without a gap, as a longer ring would.
class Ring final : public CollectiveRun {
 public:
  /// `routes`: per member, to its next.
  Ring(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
       std::span<const std::uint32_t> routes);

  void open(const CollectiveCall& call, const Lowering& lowering) override;
  void join(std::uint32_t member, SimTime now) override;
  void ready(std::uint32_t channel, SimTime now) override;
  void sent(std::uint32_t channel, SimTime now) override;

 private:
  struct Member {
    std::uint32_t next{}, previous{};
    std::uint32_t num_prepared{}, num_ready{}, num_sent{}, num_received{};
    std::uint32_t piece_begin{};  // the step with which its next piece begins
    bool has_joined{}, is_sending{};
  };
  void prepare(std::uint32_t member, SimTime now);
  void send_next(std::uint32_t member, SimTime now);
  void check_done(std::uint32_t member);

  const CommGroup& communicator_;
  std::vector<Member> members_;
  std::uint32_t first_channel_{};
  CollectiveCall call_;
  std::uint32_t num_steps_{}, steps_per_piece_{};
  SimTime step_, base_;
  double chunk_{};
};

}  // namespace gpuplan

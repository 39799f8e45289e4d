// All-gather, reduce-scatter and all-reduce over a ring. In step k every rank passes on what it got in step k - 1, so a
// rank that is late holds up the ring from its place on.
#pragma once

#include "sim/collective_run.h"
#include "sim/ring_timing.h"

namespace gpuplan {

/// n - 1 steps (2 (n - 1) to all-reduce) of S / n bytes per rank, each with the mean latency of a step: so the whole
/// takes what the closed form says, and a ring of which only some members are simulated takes no more or less. A rank
/// sends one message after the other; the latency of the next passes while the bytes of this one move. Of a folded
/// ring, each simulated member takes all steps, from the member that stands for its predecessor. A message needs both
/// ends to have joined. Pieces of a cut collective follow each other without a gap, as a longer ring would.
///
/// A call begins in closed form (sim/ring_timing): the members hold room on their links, and their ends follow from
/// their joins. Once somebody else needs that room the ring spreads: it goes on from its present state as messages.
class Ring final : public CollectiveRun {
 public:
  /// `routes`: per member, to its next. `may_be_closed`: messages of all members at once have their free rates.
  Ring(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
       std::span<const std::uint32_t> routes, bool may_be_closed = true);

  void open(const CollectiveCall& call, const Lowering& lowering) override;
  void join(std::uint32_t member, SimTime now) override;
  void ready(std::uint32_t channel, SimTime now) override;
  void sent(std::uint32_t channel, SimTime now) override;
  void over(std::uint32_t channel, std::uint32_t stamp) override;
  void spread(SimTime now) override;

 private:
  struct Member {
    std::uint32_t next{}, previous{}, place{};
    std::uint32_t num_prepared{}, num_ready{}, num_sent{}, num_received{};
    SimTime last_ready;
    bool has_joined{}, is_sending{}, is_over{};
  };
  void schedule_ends();
  void prepare(std::uint32_t member, SimTime now);
  void send_next(std::uint32_t member, SimTime now);
  void check_done(std::uint32_t member);
  void finish_member(std::uint32_t member);
  std::uint32_t channel_of(std::size_t place) const { return first_channel_ + order_[place]; }

  const CommGroup& communicator_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> order_;  // members by place in the ring
  std::uint32_t first_channel_{};
  bool may_be_closed_{};
  CollectiveCall call_;
  double chunk_{};
  RingTiming timing_;

  bool is_closed_{};
  std::vector<SimTime> joins_;   // by place
  std::uint32_t num_missing_{};  // members that have not joined, then those that are not over
  std::uint32_t stamp_{};        // of the ends that are true
};

}  // namespace gpuplan

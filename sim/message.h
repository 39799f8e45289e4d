// A single message: from one rank to another, or between a GPU, its host and NVMe.
#pragma once

#include "sim/collective_run.h"

namespace gpuplan {

class MessageRun final : public CollectiveRun {
 public:
  MessageRun(const RunContext& context, std::uint32_t transfer)
      : CollectiveRun(context, transfer),
        lane_(context.lanes.add({transfer, 0}, 0)) {}

  /// The bytes set out at `start`.
  void begin(std::uint32_t route, double bytes, SimTime start) {
    bytes_ = bytes;
    context_.lanes.set_route(lane_, route);
    context_.lanes.call_at(lane_, start);
  }
  void open(const CollectiveCall&, const Lowering&) override {}
  void join(std::uint32_t, SimTime) override {}
  void ready(std::uint32_t, SimTime now) override { context_.lanes.begin(lane_, bytes_, now); }
  void sent(std::uint32_t, SimTime) override { finish(0); }

 private:
  std::uint32_t lane_;
  double bytes_{};
};

}  // namespace gpuplan

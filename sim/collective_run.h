// A collective under way: the transfers of one algorithm and what each of them waits for. One object serves one call
// after the other; its lanes stay.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lanes.h"
#include "sim/lowering.h"
#include "sim/network.h"
#include "sim/sent_bytes.h"

namespace gpuplan {

/// What all runs work with.
struct RunContext {
  Lanes& lanes;
  SentBytes& sent;
  std::vector<Finished>& finished;  // of the event that is handled
};

class CollectiveRun {
 public:
  CollectiveRun(const RunContext& context, std::uint32_t transfer) : context_(context), transfer_(transfer) {}
  virtual ~CollectiveRun() = default;

  /// The next call begins; nobody has joined yet.
  virtual void open(const CollectiveCall& call, const Lowering& lowering) = 0;
  virtual void join(std::uint32_t member, SimTime now) = 0;
  /// The latency of a lane is over.
  virtual void ready(std::uint32_t lane, SimTime now) = 0;
  /// The last byte of a lane's message arrived.
  virtual void sent(std::uint32_t lane, SimTime now) = 0;

 protected:
  void finish(std::uint32_t member) { context_.finished.push_back({transfer_, member}); }

  RunContext context_;
  std::uint32_t transfer_{};
};

}  // namespace gpuplan

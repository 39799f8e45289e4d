// A collective under way: the transfers of one algorithm and what each of them waits for. One object serves one call
// after the other; its channels stay.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/channels.h"
#include "sim/lowering.h"
#include "sim/network.h"

namespace gpuplan {

/// Holds what all runs work with.
struct RunContext {
  Channels& channels;
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
  /// The latency of a channel is over.
  virtual void ready(std::uint32_t channel, SimTime now) = 0;
  /// The last byte of a channel's message arrived.
  virtual void sent(std::uint32_t channel, SimTime now) = 0;
  /// A channel is done with all that the run knew beforehand; `stamp` is the run's own.
  virtual void over(std::uint32_t, std::uint32_t) {}
  /// Others need the room that the run holds: it becomes messages.
  virtual void spread(SimTime) {}

 protected:
  void finish(std::uint32_t member) { context_.finished.push_back({transfer_, member}); }

  RunContext context_;
  std::uint32_t transfer_{};
};

/// A single message: from one rank to another, or between a GPU, its host and NVMe.
class MessageRun final : public CollectiveRun {
 public:
  MessageRun(const RunContext& context, std::uint32_t transfer)
      : CollectiveRun(context, transfer),
        channel_(context.channels.add({transfer, 0}, 0)) {}

  /// The bytes set out at `start`.
  void begin(std::uint32_t route, double bytes, SimTime start) {
    bytes_ = bytes;
    context_.channels.set_route(channel_, route);
    context_.channels.call_at(channel_, start);
  }
  void open(const CollectiveCall&, const Lowering&) override {}
  void join(std::uint32_t, SimTime) override {}
  void ready(std::uint32_t, SimTime now) override { context_.channels.begin(channel_, bytes_, now); }
  void sent(std::uint32_t, SimTime) override { finish(0); }

 private:
  std::uint32_t channel_;
  double bytes_{};
};

/// A collective in which every member moves its share in one go once all have come: through the reducing switch (NVLS),
/// and the stand-in for trees of which only some members are simulated.
///
/// After the last join, the latency of all steps; then one message per member over its ring route, which loads its way
/// to the switch and its neighbour's way from it: over all members each direction of each GPU once. Done when all are:
/// the switch needs everybody's part. What the switch saves is in the wire bytes.
class Nvls final : public CollectiveRun {
 public:
  Nvls(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator,
       std::span<const std::uint32_t> routes);

  void open(const CollectiveCall& call, const Lowering& lowering) override;
  void join(std::uint32_t member, SimTime now) override;
  void ready(std::uint32_t channel, SimTime now) override;
  void sent(std::uint32_t channel, SimTime now) override;

 private:
  void begin_piece(SimTime now);

  const CommGroup& communicator_;
  std::uint32_t first_channel_{}, num_missing_{};  // members that have not joined, or not sent
  std::int64_t pieces_left_{};
  SimTime latency_;
  double bytes_{};
  Bytes payload_;
};

}  // namespace gpuplan

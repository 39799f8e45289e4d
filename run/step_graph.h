// The part of a step that makes the same calls every time, as one graph of the device: the host launches it with one
// call instead of one per kernel. Adapters' kernels take about as long as their launch, so that a host that launches
// them one by one is what a GPU waits for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "run/rank_groups.h"

namespace gpuplan {

class StepGraph {
 public:
  /// Both outlive this; the device can capture.
  StepGraph(Device& device, const RankGroups& groups) : device_(device), groups_(groups) {}

  /// Runs what `enqueue` enqueues on `streams`, on which nothing is under way; the same calls every time, on every
  /// rank. The first time as it stands, which loads kernels, chooses algorithms and connects ranks; the second time it
  /// is recorded. Where that fails on any rank, all go on enqueuing: to NCCL a collective in a graph and one outside do
  /// not fit together.
  void run(std::span<Stream* const> streams, const std::function<void()>& enqueue);

  /// A sentence for people, "" before there is anything to say.
  std::string describe() const;

 private:
  enum class State : std::uint8_t { New, ToRecord, Recorded, GivenUp };
  void record(std::span<Stream* const> streams, const std::function<void()>& enqueue);

  Device& device_;
  const RankGroups& groups_;
  State state_ = State::New;
  std::unique_ptr<Graph> graph_;
  std::string obstacle_;
};

}  // namespace gpuplan

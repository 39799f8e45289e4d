// The groups a rank talks in: one communicator per axis of the mesh and stream, so that operations of different streams
// never meet.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "device/communicator.h"
#include "planner/step_program.h"
#include "run/native_job.h"

namespace gpuplan {

class RankGroups {
 public:
  /// `world` is of all ranks of the mesh, null for one rank alone; it outlives this. Collective. A group costs memory
  /// of the GPU: those that `program` talks in are made.
  RankGroups(Communicator* world, const StepProgram& program, const Mesh& mesh, const RankPlace& place);

  /// Communicator of a collective or a message of the program; null where the axis has one rank.
  Communicator* of(Axis axis, StreamId stream) const;
  Communicator* world() const { return world_; }
  /// Every rank's values, by rank. Collective; on the host, at once: nothing may be under way on a stream.
  template <std::size_t N>
  std::vector<std::array<double, N>> gather(const std::array<double, N>& own) const {
    if (!world_) return {own};
    std::vector<std::array<double, N>> all(std::size_t(world_->size()));
    world_->all_gather_host(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
    return all;
  }
  void barrier() const;
  /// This rank has failed: nothing of it waits for the others any more.
  void abort() noexcept;

 private:
  Communicator* world_;
  std::array<std::array<std::unique_ptr<Communicator>, kNumStreams>, kNumAxes> groups_;
};

}  // namespace gpuplan

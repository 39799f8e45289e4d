// The groups a rank talks in: one communicator per axis of the mesh and stream, so that operations of different streams never meet.
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
  /// `world` is of all ranks of the mesh, null for one rank alone; it outlives this. Collective.
  RankGroups(Communicator* world, const Mesh& mesh, const RankPlace& place);

  /// Of a collective or a message; null where the axis has one rank.
  Communicator* of(Axis axis, StreamId stream) const;
  Communicator* world() const { return world_; }
  /// Every rank's value, by rank. Collective; on the host, through `stream`.
  std::vector<double> gather(double value, Stream& stream) const;
  void barrier() const;

 private:
  Communicator* world_;
  std::array<std::array<std::unique_ptr<Communicator>, kNumStreams>, kNumAxes> groups_;
};

}  // namespace gpuplan

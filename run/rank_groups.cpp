#include "run/rank_groups.h"

namespace gpuplan {
namespace {

/// Ranks that differ along `axis` alone have one colour: the rank of the first of them.
int colour_of(Axis axis, const Mesh& mesh, std::int64_t rank) {
  const std::int64_t stride = mesh.stride(axis), place = rank / stride % mesh.ways(axis);
  return int(rank - place * stride);
}

/// Both directions of a pipeline's messages go through one group: a send and its receive must be of the same.
StreamId group_stream(Axis axis, StreamId stream) { return axis == Axis::Pp ? StreamId::Send : stream; }

}  // namespace

RankGroups::RankGroups(Communicator* world, const Mesh& mesh, const RankPlace& place) : world_(world) {
  for (const Axis axis : {Axis::DpShard, Axis::DpReplicate, Axis::Pp}) {
    if (mesh.ways(axis) == 1) continue;
    for (const StreamId stream : {StreamId::Gather, StreamId::Reduce, StreamId::Send})
      if ((axis == Axis::Pp) == (stream == StreamId::Send))
        groups_[std::size_t(axis)][std::size_t(stream)] = world_->split(colour_of(axis, mesh, place.rank));
  }
}

Communicator* RankGroups::of(Axis axis, StreamId stream) const {
  return groups_[std::size_t(axis)][std::size_t(group_stream(axis, stream))].get();
}

void RankGroups::barrier() const {
  if (world_) world_->barrier();
}

void RankGroups::abort() noexcept {
  for (const auto& of_axis : groups_)
    for (const auto& group : of_axis)
      if (group) group->abort();
  if (world_) world_->abort();
}

}  // namespace gpuplan

#include "run/rank_groups.h"

#include "base/narrow.h"

#include <set>
#include <utility>

namespace gpuplan {
namespace {

/// Ranks that differ along `axis` alone have one colour: the rank of the first of them.
int colour_of(Axis axis, const Mesh& mesh, std::int64_t rank) {
  return narrow<int>(rank - mesh.place(rank, axis) * mesh.stride(axis));
}

/// Both directions of messages go through one group: a send and its receive must be of the same.
StreamId group_stream(StreamId stream) { return stream == StreamId::Recv ? StreamId::Send : stream; }

/// Groups by axis and stream, of any rank: all must make the same groups in the same order.
std::set<std::pair<Axis, StreamId>> groups_in(const StepProgram& all) {
  std::set<std::pair<Axis, StreamId>> out;
  for (const RankProgram& program : all.programs)
    for (const Instruction& i : program.instructions)
      if (is_collective(i.op) || i.op == OpCode::Send || i.op == OpCode::Recv)
        out.emplace(i.axis, group_stream(i.stream));
  return out;
}

}  // namespace

RankGroups::RankGroups(Communicator* world, const StepProgram& program, const Mesh& mesh, const RankPlace& place)
    : world_(world) {
  for (const auto& [axis, stream] : groups_in(program))
    if (mesh.ways(axis) > 1)
      groups_[std::size_t(axis)][std::size_t(stream)] = world_->split(colour_of(axis, mesh, place.rank));
}

Communicator* RankGroups::of(Axis axis, StreamId stream) const {
  return groups_[std::size_t(axis)][std::size_t(group_stream(stream))].get();
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

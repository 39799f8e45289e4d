// The device mesh: where ranks stand along its axes, and the different counts that are made of its degrees.
#include "models/mesh.h"

#include <set>
#include <string_view>

#include <doctest/doctest.h>

namespace gpuplan {
namespace {

const Mesh kMesh{{Axis::Pp, 3}, {Axis::DpReplicate, 2}, {Axis::DpShard, 4}};

TEST_CASE("mesh: the axis that comes first is innermost, and strides are the product of those inside") {
  CHECK(kMesh.stride(Axis::DpShard) == 1);
  CHECK(kMesh.stride(Axis::DpReplicate) == 4);
  CHECK(kMesh.stride(Axis::Pp) == 8);
  // rank 21 = 2 x 8 + 1 x 4 + 1
  CHECK(kMesh.place(21, Axis::Pp) == 2);
  CHECK(kMesh.place(21, Axis::DpReplicate) == 1);
  CHECK(kMesh.place(21, Axis::DpShard) == 1);
  CHECK(kMesh.place(21, Axis::None) == 0);
}

TEST_CASE("mesh: stages share the batch, replicas and shards divide it") {
  CHECK(kMesh.world() == 24);
  CHECK(kMesh.num_stages() == 3);
  CHECK(kMesh.ranks_per_stage() == 8);
  CHECK(kMesh.batch_replicas() == 8);
  CHECK(kMesh.shard_ways() == 4);
  CHECK(kMesh.copies() == 2);
  CHECK(kMesh.shard_ways({.shard = Axis::Pp, .replicate = Axis::None}) == 3);
}

TEST_CASE("mesh: every stage has each replica of the batch once") {
  for (std::int64_t stage = 0; stage < kMesh.num_stages(); ++stage) {
    std::set<std::int64_t> seen;
    for (std::int64_t rank = 0; rank < kMesh.ranks_per_stage(); ++rank)
      seen.insert(kMesh.batch_replica(stage * kMesh.ranks_per_stage() + rank));
    CHECK(seen.size() == std::size_t(kMesh.batch_replicas()));
    CHECK(*seen.rbegin() == kMesh.batch_replicas() - 1);
  }
}

TEST_CASE("mesh: a rank is where its places along all axes say") {
  for (std::int64_t rank = 0; rank < kMesh.world(); ++rank) {
    std::int64_t sum = 0;
    for (const AxisRow& row : kAxes) sum += kMesh.place(rank, row.axis) * kMesh.stride(row.axis);
    CHECK(sum == rank);
  }
}

TEST_CASE("mesh: axes have their rows in rank order, and different names") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    CHECK(std::size_t(kAxes[i].axis) == i + 1);
    CHECK(axis_named(kAxes[i].name) == kAxes[i].axis);
    names.insert(kAxes[i].name);
  }
  CHECK(names.size() == kAxes.size());
  CHECK(axis_named("xp") == Axis::None);
}

}  // namespace
}  // namespace gpuplan

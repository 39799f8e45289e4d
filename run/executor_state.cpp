// What of an executor's memory outlives the run: state for checkpoints, trained tensors for files.
#include <algorithm>

#include <fmt/format.h>

#include "run/executor_parts.h"

namespace gpuplan {

std::vector<StateBlob> Executor::state() const {
  std::vector<StateBlob> out;
  const RankProgram& p = memory_.program();
  for (std::uint32_t id = 1; id < p.buffers.size(); ++id) {
    const ProgramBuffer& b = p.buffers[id];
    const bool is_kept = b.part == StatePart::Trained || b.role == BufferRole::State || b.role == BufferRole::Master;
    if (b.is_persistent && is_kept && b.bytes.count > 0)
      out.push_back({buffer_name(b, job_.model.num_layers()), {memory_.persistent(id), std::size_t(b.bytes.count)}});
  }
  return out;
}

/// One unit's trained array, whole, on every rank: gathered from its shards, then from the stage that has it.
std::vector<std::byte> Executor::whole_array(std::uint16_t unit) const {
  const UnitLayout& layout = job_.layout_of(unit);
  const Mesh& mesh = job_.strategy.mesh;
  const bool shards = job_.rules.layout.shards_weights && mesh.dp_shard > 1;
  const std::int64_t part = shards ? flat_part(layout.trained_elements, mesh.dp_shard) : layout.trained_elements;
  const std::int64_t count = shards ? part * mesh.dp_shard : part;
  std::vector<std::byte> array(std::size_t(bytes_of(count, layout.trained_dtype).count));
  const std::uint32_t id = memory_.find(unit, BufferRole::Trained);
  Stream& on = *streams_[std::size_t(StreamId::Compute)];
  std::vector<std::byte> own(std::size_t(bytes_of(part, layout.trained_dtype).count));
  if (id != 0) device_.copy(own.data(), memory_.persistent(id), Bytes{std::int64_t(own.size())}, CopyKind::DeviceToHost, on);
  on.synchronise();
  if (id != 0 && shards) {
    groups_.of(Axis::DpShard, StreamId::Gather)->all_gather(own.data(), array.data(), part, layout.trained_dtype, on);
    on.synchronise();
  } else {
    array = std::move(own);
  }
  if (mesh.pp > 1) groups_.world()->broadcast_host(array, int(stage_of(unit) * mesh.data_parallel()));
  return array;
}

std::int64_t Executor::stage_of(std::uint16_t unit) const {
  const StepProgram& all = job_.program();
  for (std::size_t c = 0; c < all.classes.size(); ++c) {
    const RankProgram& p = all.programs[all.classes[c].program];
    if (unit >= p.first_unit && unit <= p.last_unit) return place_of(all.classes[c].first_rank, job_.strategy.mesh).stage;
  }
  return 0;
}

std::vector<Executor::TrainedTensor> Executor::gather_trained() const {
  std::vector<TrainedTensor> out;
  for (std::uint16_t unit = 0; unit <= job_.head_unit(); ++unit) {
    const UnitLayout& layout = job_.layout_of(unit);
    if (layout.trained.empty()) continue;
    const std::vector<std::byte> array = whole_array(unit);
    if (place_.rank != 0) continue;
    for (const PlacedTensor& t : layout.trained) {
      const auto begin = array.begin() + bytes_of(t.begin, layout.trained_dtype).count;
      out.push_back({unit, t, {begin, begin + bytes_of(t.elements(), layout.trained_dtype).count}});
    }
  }
  return out;
}

}  // namespace gpuplan

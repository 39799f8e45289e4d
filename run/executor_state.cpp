// What of an executor's memory outlives the run: state for checkpoints, trained tensors for files.
#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "run/executor.h"
#include "run/staged_copy.h"
#include "run/tensor_cut.h"

namespace gpuplan {

std::vector<StateBlob> Executor::state() const {
  std::vector<StateBlob> out;
  const RankProgram& p = memory_.program();
  const auto copies = std::make_shared<StagedCopy>(device_, *streams_[std::size_t(StreamId::Compute)]);
  for (std::uint32_t id = 1; id < p.buffers.size(); ++id) {
    const ProgramBuffer& b = p.buffers[id];
    const bool is_kept = b.part == StatePart::Trained || b.role == BufferRole::State || b.role == BufferRole::Master;
    if (!b.is_persistent || !is_kept || b.bytes.count == 0) continue;
    std::byte* const at = memory_.persistent(id);
    const std::int64_t size = b.bytes.count;
    const bool is_on_host = memory_.is_on_host(id);
    out.push_back({.name = buffer_name(b, job_.model.num_layers()),
                   .size = size,
                   .read =
                       [=](const PieceSink& sink) {
                         if (is_on_host) return sink({at, std::size_t(size)});
                         copies->to_host(at, size,
                                         [&](std::int64_t, std::span<const std::byte> piece) { sink(piece); });
                       },
                   .write =
                       [=](std::int64_t begin, std::span<const std::byte> piece) {
                         if (is_on_host)
                           std::memcpy(at + begin, piece.data(), piece.size());
                         else
                           copies->to_device(at + begin, piece);
                       }});
  }
  return out;
}

/// One unit's trained array as it is stepped, whole, or the part of it that ranks which share its layer have, on rank 0
/// (empty on others): gathered from its shards, then from the stage that has it. The arena, where nothing lives between
/// steps, takes pieces on the way, of `room` together on every rank.
std::vector<std::byte> Executor::whole_array(std::uint16_t unit, std::int64_t layer_part, Bytes room) const {
  const UnitLayout& layout = job_.layout_of(unit);
  const LayerParts parts = job_.parts();
  const RankClass& owner = class_of(unit);
  const auto& buffers = job_.program().programs[owner.program].buffers;
  const auto find = [&](BufferRole role) {
    return std::find_if(buffers.begin(), buffers.end(),
                        [&](const ProgramBuffer& b) { return b.unit == unit && b.role == role; });
  };
  auto stepped = find(BufferRole::Master);
  if (stepped == buffers.end()) stepped = find(BufferRole::Trained);
  // 0: another stage's, or another part of the layer's
  const std::uint32_t id = layer_part == place_.layer_part ? memory_.find(unit, stepped->role) : 0;
  const bool is_shard = stepped->is_cut(job_.rules.domain);
  const std::int64_t ways = is_shard ? job_.rules.ways : 1, size = size_of(layout.trained_dtype);
  const std::int64_t part = flat_part(layout.trained_elements, ways), most = room.count / (ways * size);
  GPUPLAN_CHECK(most > 0, "the arena holds an element of every rank");
  const int root = narrow<int>(owner.first_rank + layer_part * parts.stride);
  Stream& on = *streams_[std::size_t(StreamId::Compute)];
  StagedCopy copies(device_, on);
  std::vector<std::byte> array(place_.rank == 0 ? std::size_t(part * ways * size) : 0);
  for (std::int64_t begin = 0; begin < part; begin += most) {
    const std::int64_t count = std::min(most, part - begin);
    std::byte* piece = memory_.arena();
    const std::byte* own = id != 0 ? memory_.persistent(id) + begin * size : nullptr;
    if (own && memory_.is_on_host(id)) {  // to this rank's place of what is gathered
      std::byte* const to = piece + (ways > 1 ? place_.shard * count * size : 0);
      device_.copy(to, own, Bytes{count * size}, CopyKind::HostToDevice, on);
      own = to;
    }
    if (own && ways > 1)
      groups_.of(job_.rules.domain.shard, StreamId::Gather)->all_gather(own, piece, count, layout.trained_dtype, on);
    else if (own && own != piece)
      device_.copy(piece, own, Bytes{count * size}, CopyKind::DeviceToDevice, on);
    if (job_.strategy.mesh.num_stages() > 1 || parts.ways > 1)
      groups_.world()->broadcast(piece, count * ways, layout.trained_dtype, root, on);
    for (std::int64_t w = 0; w < ways && place_.rank == 0; ++w)
      copies.to_host(piece + w * count * size, count * size, [&](std::int64_t at, std::span<const std::byte> bytes) {
        std::memcpy(array.data() + (w * part + begin) * size + at, bytes.data(), bytes.size());
      });
    on.synchronise();
  }
  return array;
}

/// Those that have the unit: all ranks, or a stage's.
const RankClass& Executor::class_of(std::uint16_t unit) const {
  const StepProgram& all = job_.program();
  return *std::find_if(all.classes.begin(), all.classes.end(), [&](const RankClass& c) {
    return std::ranges::any_of(all.programs[c.program].buffers, [&](const ProgramBuffer& b) {
      return b.unit == unit && b.is_persistent && b.part != StatePart::None;
    });
  });
}

/// Room that every rank's arena has at least, and no more than is of use.
Bytes Executor::gather_room() const {
  constexpr double kEnough = 64 << 20;
  const double own = std::min(kEnough, double(memory_.arena_bytes().count));
  return {std::int64_t(groups_.world() ? -groups_.world()->max_host(-own) : own)};
}

std::vector<Executor::TrainedTensor> Executor::gather_trained() const {
  std::vector<TrainedTensor> out;
  const Bytes room = gather_room();
  for (std::uint16_t unit = 0; unit <= job_.head_unit(); ++unit) {
    const UnitLayout& layout = job_.layout_of(unit);
    if (layout.trained.empty()) continue;
    const std::size_t first = out.size();
    for (std::int64_t part = 0; part < job_.parts().ways; ++part) {
      const std::vector<std::byte> array = whole_array(unit, part, room);
      if (place_.rank != 0) continue;
      for (std::size_t k = 0; k < layout.trained.size(); ++k) {
        const PlacedTensor& t = layout.trained[k];
        const TensorCut cut = cut_of(t, job_.weights_of(unit)[t.tensor]);
        const auto bytes = [&](std::int64_t elements) { return bytes_of(elements, layout.trained_dtype).count; };
        if (part == 0) {
          out.push_back({unit, t, {}});
          TrainedTensor& whole = out.back();
          whole.placed.rows *= cut.rows, whole.placed.cols *= cut.cols;
          whole.data.resize(std::size_t(bytes(whole.placed.elements())));
        }
        std::byte* const to = out[first + k].data.data();
        each_stretch(t, cut, part, 0, t.elements(), [&](std::int64_t own, std::int64_t at, std::int64_t count) {
          std::memcpy(to + bytes(at), array.data() + bytes(t.begin + own), std::size_t(bytes(count)));
        });
      }
    }
  }
  return out;
}

}  // namespace gpuplan

#include "run/initial_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/nf4_quantise.h"
#include "device/training_kernels.h"
#include "models/rope.h"

namespace gpuplan {
namespace {

class Loader {
 public:
  Loader(const NativeJob& job, const RankPlace& place, const RankMemory& memory, const WeightSource& source, Device& device)
      : job_(job), place_(place), memory_(memory), source_(source), device_(device), stream_(device.create_stream()) {}

  QuantOffsets run() {
    offsets_.resize(std::size_t(job_.head_unit()) + 1);
    const RankProgram& p = memory_.program();
    for (std::uint32_t id = 1; id < p.buffers.size(); ++id) {
      const ProgramBuffer& b = p.buffers[id];
      if (!b.is_persistent || b.bytes.count == 0) continue;
      staging_.assign(std::size_t(b.bytes.count), std::byte{});  // optimizer states and padding are zero
      if (b.part == StatePart::Trained) trained(b);
      if (b.part == StatePart::Frozen) frozen(b);
      if (b.role == BufferRole::Constants) constants();
      device_.copy(memory_.persistent(id), staging_.data(), b.bytes, CopyKind::HostToDevice, *stream_);
      stream_->synchronise();
    }
    return std::move(offsets_);
  }

 private:
  struct Window {
    std::int64_t begin{}, end{};
  };
  bool shards() const { return job_.rules.layout.shards_weights && job_.rules.ways > 1; }

  /// This rank's part of a flat array of `count`, in parts of `part`.
  Window window(std::int64_t count, std::int64_t part) const {
    if (!shards()) return {0, count};
    return {std::min(count, place_.shard * part), std::min(count, (place_.shard + 1) * part)};
  }

  TensorPart part_of(std::uint16_t unit, const PlacedTensor& t, std::int64_t begin, std::int64_t end) const {
    return {job_.tensor_name(unit, t.tensor), &job_.weights_of(unit)[t.tensor], t.use, t.rows, t.cols, begin, end};
  }

  void trained(const ProgramBuffer& b) {
    const UnitLayout& layout = job_.layout_of(b.unit);
    const Window w = window(layout.trained_elements, flat_part(layout.trained_elements, job_.rules.ways));
    for (const PlacedTensor& t : layout.trained) {
      const std::int64_t begin = std::max(w.begin, t.begin), end = std::min(w.end, t.begin + t.elements());
      if (begin >= end) continue;
      source_.read(part_of(b.unit, t, begin - t.begin, end - t.begin),
                   staging_.data() + bytes_of(begin - w.begin, layout.trained_dtype).count, layout.trained_dtype);
    }
  }

  void frozen(const ProgramBuffer& b) {
    const UnitLayout& layout = job_.layout_of(b.unit);
    offsets_[b.unit].assign(layout.frozen.size(), 0);
    const Window w = window(layout.frozen_bytes.count, flat_part_bytes(layout.frozen_bytes, job_.rules.ways));
    std::byte* const flat = staging_.data() + layout.scales_bytes.count;
    for (std::size_t i = 0; i < layout.frozen.size(); ++i) {
      const PlacedTensor& t = layout.frozen[i];
      if (t.is_quantised) quantised(b.unit, i, w, flat);
      else plain(b.unit, t, w, flat);
    }
  }

  void plain(std::uint16_t unit, const PlacedTensor& t, Window w, std::byte* flat) const {
    const std::int64_t size = size_of(t.dtype);
    const std::int64_t begin = std::max(w.begin, t.begin), end = std::min(w.end, t.begin + t.elements() * size);
    if (begin < end) source_.read(part_of(unit, t, (begin - t.begin) / size, (end - t.begin) / size), flat + begin - w.begin, t.dtype);
  }

  void quantised(std::uint16_t unit, std::size_t index, Window w, std::byte* flat) {
    const UnitLayout& layout = job_.layout_of(unit);
    const PlacedTensor& t = layout.frozen[index];
    std::vector<float> values(std::size_t(t.elements()));
    source_.read(part_of(unit, t, 0, t.elements()), values.data(), Dtype::F32);
    const Nf4Weights q = nf4_quantise(values);
    const std::int64_t begin = std::max(w.begin, t.begin), end = std::min(w.end, t.begin + std::int64_t(q.codes.size()));
    if (begin < end) std::memcpy(flat + begin - w.begin, q.codes.data() + (begin - t.begin), std::size_t(end - begin));
    const auto put = [&](std::int64_t at, const auto& list) { std::memcpy(staging_.data() + at, list.data(), list.size() * sizeof(list[0])); };
    if (!job_.recipe().quant.double_quant) return put(t.scales, q.absmax);
    const Nf4Absmax nested = nf4_quantise_absmax(q.absmax);
    put(t.scales, nested.scales);
    put(t.scale_codes, nested.codes);
    offsets_[unit][index] = nested.offset;
  }

  /// Cosines and sines; the sums are zeroed every step.
  void constants() {
    const ModelSpec& m = job_.model.spec;
    const std::int64_t seq = job_.recipe().seq_len;
    const ConstantsLayout layout = constants_layout(m, seq);
    if (layout.pairs == 0) return;
    const std::vector<double> angles = inverse_frequencies(m.rope, 2 * layout.pairs);
    auto* cosine = reinterpret_cast<float*>(staging_.data() + layout.cosine.count);
    auto* sine = reinterpret_cast<float*>(staging_.data() + layout.sine.count);
    for (std::int64_t s = 0; s < seq; ++s)
      for (const double frequency : angles) {
        const double angle = double(s) * double(float(frequency));  // transformers keeps the frequencies in fp32
        *cosine++ = float(std::cos(angle));
        *sine++ = float(std::sin(angle));
      }
  }

  const NativeJob& job_;
  const RankPlace& place_;
  const RankMemory& memory_;
  const WeightSource& source_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::byte> staging_;
  QuantOffsets offsets_;
};

}  // namespace

QuantOffsets load_state(const NativeJob& job, const RankPlace& place, const RankMemory& memory, const WeightSource& source, Device& device) {
  return Loader(job, place, memory, source, device).run();
}

}  // namespace gpuplan

#include "run/initial_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/in_parts.h"
#include "device/kernels.h"
#include "device/narrow_floats.h"
#include "device/quantisation.h"
#include "models/rope.h"
#include "run/files/adapter_files.h"
#include "run/staged_copy.h"
#include "run/tensor_cut.h"

namespace gpuplan {
namespace {

/// FNV-1a, so that tensors are told apart by name.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

template <class Value>
void fill(const TensorPart& part, void* to, Dtype dtype, Value value) {
  constexpr std::int64_t kWorthAThread = 1 << 18;  // elements: about a millisecond
  in_parts(part.end - part.begin, kWorthAThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float x = value(std::uint64_t(part.begin + i));
      if (dtype == Dtype::F32)
        static_cast<float*>(to)[i] = x;
      else
        static_cast<std::uint16_t*>(to)[i] = float_to_bf16(x);
    }
  });
}

class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(std::uint64_t seed) : seed_(seed) {}
  void read(const TensorPart& part, void* to, Dtype dtype) const override {
    const std::uint64_t seed = seed_ ^ hash_of(part.name);
    if (part.use == WeightUse::LowRankB || part.tensor->role == WeightRole::Bias)
      return fill(part, to, dtype, [](std::uint64_t) { return 0.0F; });
    if (part.use == WeightUse::Tensor && part.tensor->role == WeightRole::Norm)
      return fill(part, to, dtype, [](std::uint64_t) { return 1.0F; });
    constexpr double kDeviation = 0.02;
    const auto reach =
        float(part.use == WeightUse::LowRankA ? 1 / std::sqrt(double(part.cols)) : kDeviation * std::sqrt(3.0));
    fill(part, to, dtype, [=](std::uint64_t i) { return uniform(seed, i, -reach, reach); });
  }

 private:
  std::uint64_t seed_;
};

class FileWeights final : public WeightSource {
 public:
  FileWeights(std::shared_ptr<const TensorFiles> files, bool may_lack_head, std::unique_ptr<WeightSource> otherwise)
      : files_(std::move(files)),
        may_lack_head_(may_lack_head),
        otherwise_(std::move(otherwise)) {}
  void read(const TensorPart& part, void* to, Dtype dtype) const override {
    const bool is_new = may_lack_head_ && part.tensor->role == WeightRole::Head && !files_->find(part.name);
    if (part.use != WeightUse::Tensor || is_new) return otherwise_->read(part, to, dtype);
    read_weights(files_->get(part.name, part.tensor->shape), part.begin, part.end, to, dtype);
  }

 private:
  std::shared_ptr<const TensorFiles> files_;
  bool may_lack_head_;
  std::unique_ptr<WeightSource> otherwise_;
};

class AdapterWeights final : public WeightSource {
 public:
  AdapterWeights(std::shared_ptr<const TensorFiles> files, std::unique_ptr<WeightSource> base)
      : files_(std::move(files)),
        base_(std::move(base)) {}
  void read(const TensorPart& part, void* to, Dtype dtype) const override {
    if (part.use == WeightUse::Tensor) {
      if (!files_->find(saved_key(part.name))) return base_->read(part, to, dtype);
      return read_weights(files_->get(saved_key(part.name), part.tensor->shape), part.begin, part.end, to, dtype);
    }
    read_weights(files_->get(lora_key(part.name, part.use == WeightUse::LowRankA), {part.rows, part.cols}), part.begin,
                 part.end, to, dtype);
  }

 private:
  std::shared_ptr<const TensorFiles> files_;
  std::unique_ptr<WeightSource> base_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(std::uint64_t seed) { return std::make_unique<RandomWeights>(seed); }
std::unique_ptr<WeightSource> file_weights(std::shared_ptr<const TensorFiles> model, bool may_lack_head,
                                           std::unique_ptr<WeightSource> otherwise) {
  return std::make_unique<FileWeights>(std::move(model), may_lack_head, std::move(otherwise));
}
std::unique_ptr<WeightSource> adapter_weights(std::shared_ptr<const TensorFiles> adapter,
                                              std::unique_ptr<WeightSource> base) {
  return std::make_unique<AdapterWeights>(std::move(adapter), std::move(base));
}

namespace {

class Loader {
 public:
  Loader(const NativeJob& job, const RankPlace& place, const RankMemory& memory, const WeightSource& source,
         Device& device)
      : job_(job),
        place_(place),
        memory_(memory),
        source_(source),
        device_(device),
        stream_(device.create_stream()),
        copies_(device, *stream_) {}

  QuantOffsets run() {
    offsets_.resize(std::size_t(job_.head_unit()) + 1);
    const RankProgram& p = memory_.program();
    for (std::uint32_t id = 1; id < p.buffers.size(); ++id) {
      const ProgramBuffer& b = p.buffers[id];
      if (!b.is_persistent || b.bytes.count == 0) continue;
      std::byte* const to = memory_.persistent(id);
      is_on_host_ = memory_.is_on_host(id);
      if (is_on_host_)
        std::memset(to, 0, std::size_t(b.bytes.count));
      else
        device_.run(kernels::Zero{to, b.bytes}, *stream_);  // optimizer states and padding
      if (b.part == StatePart::Trained)
        trained(b.unit, to, is_on_host_ ? job_.dtypes_of(b.unit).stored : job_.dtypes_of(b.unit).kept, is_shard(b));
      if (b.role == BufferRole::Master) trained(b.unit, to, job_.dtypes_of(b.unit).stored, is_shard(b));
      if (b.part == StatePart::Frozen) frozen(b, to);
      if (b.role == BufferRole::Constants) constants(to);
    }
    stream_->synchronise();
    return std::move(offsets_);
  }

 private:
  struct Window {
    std::int64_t begin{}, end{};
  };
  bool is_shard(const ProgramBuffer& b) const { return b.is_cut(job_.rules.domain); }

  /// This rank's part of a flat array of `count`, in parts of `part`.
  Window window(std::int64_t count, std::int64_t part, bool is_cut) const {
    if (!is_cut) return {0, count};
    return {std::min(count, place_.shard * part), std::min(count, (place_.shard + 1) * part)};
  }

  /// Elements [begin, end) of this rank's part of a tensor, from the whole one.
  void read(std::uint16_t unit, const PlacedTensor& t, std::int64_t begin, std::int64_t end, Dtype dtype,
            std::byte* to) const {
    const WeightTensor& whole = job_.weights_of(unit)[t.tensor];
    const TensorCut cut = cut_of(t, whole);
    TensorPart part{job_.tensor_name(unit, t.tensor), &whole, t.use, t.rows * cut.rows, t.cols * cut.cols, 0, 0};
    each_stretch(t, cut, place_.layer_part, begin, end, [&](std::int64_t own, std::int64_t at, std::int64_t count) {
      part.begin = at, part.end = at + count;
      source_.read(part, to + bytes_of(own - begin, dtype).count, dtype);
    });
  }

  /// Elements [begin, end) of a tensor.
  void load(std::uint16_t unit, const PlacedTensor& t, std::int64_t begin, std::int64_t end, Dtype dtype,
            std::byte* to) {
    const std::int64_t size = size_of(dtype);
    if (is_on_host_) return read(unit, t, begin, end, dtype, to);
    copies_.to_device(to, (end - begin) * size, [&](std::int64_t at, std::span<std::byte> piece) {
      const std::int64_t first = begin + at / size;
      read(unit, t, first, first + std::ssize(piece) / size, dtype, piece.data());
    });
  }

  void trained(std::uint16_t unit, std::byte* to, Dtype dtype, bool is_cut) {
    const UnitLayout& layout = job_.layout_of(unit);
    const Window w = window(layout.trained_elements, flat_part(layout.trained_elements, job_.rules.ways), is_cut);
    for (const PlacedTensor& t : layout.trained) {
      const std::int64_t begin = std::max(w.begin, t.begin), end = std::min(w.end, t.begin + t.elements());
      if (begin < end)
        load(unit, t, begin - t.begin, end - t.begin, dtype, to + bytes_of(begin - w.begin, dtype).count);
    }
  }

  void frozen(const ProgramBuffer& b, std::byte* to) {
    const std::uint16_t unit = b.unit;
    const UnitLayout& layout = job_.layout_of(unit);
    offsets_[unit].assign(layout.frozen.size(), 0);
    const Window w =
        window(layout.frozen_bytes.count, flat_part_bytes(layout.frozen_bytes, job_.rules.ways), is_shard(b));
    for (std::size_t i = 0; i < layout.frozen.size(); ++i) {
      const PlacedTensor& t = layout.frozen[i];
      if (t.is_quantised)
        quantised(unit, i, w, to);
      else
        plain(unit, t, w, to + layout.scales_bytes.count);
    }
  }

  void plain(std::uint16_t unit, const PlacedTensor& t, Window w, std::byte* flat) {
    const std::int64_t size = size_of(t.dtype);
    const std::int64_t begin = std::max(w.begin, t.begin), end = std::min(w.end, t.begin + t.elements() * size);
    if (begin < end) load(unit, t, (begin - t.begin) / size, (end - t.begin) / size, t.dtype, flat + begin - w.begin);
  }

  /// Scales, whole, then this rank's part of the codes.
  void quantised(std::uint16_t unit, std::size_t index, Window w, std::byte* to) {
    const UnitLayout& layout = job_.layout_of(unit);
    const PlacedTensor& t = layout.frozen[index];
    std::vector<float> values(std::size_t(t.elements()));
    read(unit, t, 0, t.elements(), Dtype::F32, reinterpret_cast<std::byte*>(values.data()));
    const Nf4Weights q = nf4_quantise(values);
    const std::int64_t begin = std::max(w.begin, t.begin),
                       end = std::min(w.end, t.begin + std::int64_t(q.codes.size()));
    if (begin < end)
      copies_.to_device(
          to + layout.scales_bytes.count + begin - w.begin,
          std::as_bytes(std::span(q.codes)).subspan(std::size_t(begin - t.begin), std::size_t(end - begin)));
    const auto put = [&](std::int64_t at, const auto& list) {
      copies_.to_device(to + at, std::as_bytes(std::span(list)));
    };
    if (!job_.recipe().quant.double_quant) return put(t.scales, q.absmax);
    const Nf4Absmax nested = nf4_quantise_absmax(q.absmax);
    put(t.scales, nested.scales);
    put(t.scale_codes, nested.codes);
    offsets_[unit][index] = nested.offset;
  }

  /// Cosines and sines; the sums are zeroed every step.
  void constants(std::byte* to) {
    const ModelSpec& m = job_.model.spec;
    const std::int64_t seq = job_.recipe().seq_len;
    const ConstantsLayout layout = constants_layout(m, seq);
    if (layout.pairs == 0) return;
    const std::vector<double> angles = inverse_frequencies(m.rope, 2 * layout.pairs);
    std::vector<float> cosine, sine;
    for (std::int64_t s = 0; s < seq; ++s)
      for (const double frequency : angles) {
        const double angle = double(s) * double(float(frequency));  // transformers keeps the frequencies in fp32
        cosine.push_back(float(std::cos(angle)));
        sine.push_back(float(std::sin(angle)));
      }
    copies_.to_device(to + layout.cosine.count, std::as_bytes(std::span(cosine)));
    copies_.to_device(to + layout.sine.count, std::as_bytes(std::span(sine)));
  }

  const NativeJob& job_;
  const RankPlace& place_;
  const RankMemory& memory_;
  const WeightSource& source_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  StagedCopy copies_;
  bool is_on_host_ = false;  // the buffer that is being filled
  QuantOffsets offsets_;
};

}  // namespace

QuantOffsets load_state(const NativeJob& job, const RankPlace& place, const RankMemory& memory,
                        const WeightSource& source, Device& device) {
  return Loader(job, place, memory, source, device).run();
}

}  // namespace gpuplan

#include "run/weight_source.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "device/kernels.h"
#include "device/narrow_floats.h"
#include "run/files/adapter_files.h"

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
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const float x = value(std::uint64_t(i));
    if (dtype == Dtype::F32)
      static_cast<float*>(to)[i - part.begin] = x;
    else
      static_cast<std::uint16_t*>(to)[i - part.begin] = float_to_bf16(x);
  }
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
  FileWeights(std::shared_ptr<const TensorFiles> files, std::unique_ptr<WeightSource> otherwise)
      : files_(std::move(files)),
        otherwise_(std::move(otherwise)) {}
  void read(const TensorPart& part, void* to, Dtype dtype) const override {
    if (part.use != WeightUse::Tensor) return otherwise_->read(part, to, dtype);
    read_elements(files_->get(part.name, part.tensor->shape), part.begin, part.end, to, dtype);
  }

 private:
  std::shared_ptr<const TensorFiles> files_;
  std::unique_ptr<WeightSource> otherwise_;
};

class AdapterWeights final : public WeightSource {
 public:
  AdapterWeights(std::shared_ptr<const TensorFiles> files, std::unique_ptr<WeightSource> base)
      : files_(std::move(files)),
        base_(std::move(base)) {}
  void read(const TensorPart& part, void* to, Dtype dtype) const override {
    if (part.use == WeightUse::Tensor) return base_->read(part, to, dtype);
    read_elements(files_->get(lora_key(part.name, part.use == WeightUse::LowRankA), {part.rows, part.cols}), part.begin,
                  part.end, to, dtype);
  }

 private:
  std::shared_ptr<const TensorFiles> files_;
  std::unique_ptr<WeightSource> base_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(std::uint64_t seed) { return std::make_unique<RandomWeights>(seed); }
std::unique_ptr<WeightSource> file_weights(std::shared_ptr<const TensorFiles> model,
                                           std::unique_ptr<WeightSource> otherwise) {
  return std::make_unique<FileWeights>(std::move(model), std::move(otherwise));
}
std::unique_ptr<WeightSource> adapter_weights(std::shared_ptr<const TensorFiles> adapter,
                                              std::unique_ptr<WeightSource> base) {
  return std::make_unique<AdapterWeights>(std::move(adapter), std::move(base));
}

}  // namespace gpuplan

// First values of a rank's persistent buffers: weights cut as the strategy cuts them, adapters, quantised codes,
// position tables; optimizer states are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "models/layer_graph.h"
#include "models/weights.h"
#include "run/files/tensor_files.h"
#include "run/native_job.h"
#include "run/rank_memory.h"

namespace gpuplan {

/// Range of values of a tensor.
struct TensorPart {
  std::string name;  // full, in the checkpoint
  const WeightTensor* tensor{};
  WeightUse use = WeightUse::Tensor;
  std::int64_t rows{}, cols{};  // of the tensor, or of the adapter's matrix
  std::int64_t begin{}, end{};  // elements, row-major
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Writes the part as `dtype` (F32 or BF16) to `to`. Throws InputError for a tensor that is missing or of another
  /// shape.
  virtual void read(const TensorPart& part, void* to, Dtype dtype) const = 0;
};

/// Uniform with standard deviation 0.02 (Hugging Face's initializer_range); norms 1, biases 0; LoRA A uniform in 1 /
/// sqrt(in), B 0 (peft).
std::unique_ptr<WeightSource> random_weights(std::uint64_t seed);
/// Base tensors from the model's files; adapters from `otherwise`.
/// `may_lack_head`: a head that the files do not have is new.
std::unique_ptr<WeightSource> file_weights(std::shared_ptr<const TensorFiles> model, bool may_lack_head,
                                           std::unique_ptr<WeightSource> otherwise);
/// Adapter matrices from a PEFT folder's file, everything else from `base`.
std::unique_ptr<WeightSource> adapter_weights(std::shared_ptr<const TensorFiles> adapter,
                                              std::unique_ptr<WeightSource> base);

/// Offsets of double quantisation by unit, and in each by index of UnitLayout::frozen: scalars that kernels get by
/// value.
using QuantOffsets = std::vector<std::vector<float>>;

/// Reads only what this rank keeps (a quantised tensor is read whole, and cut after it is quantised).
QuantOffsets load_state(const NativeJob& job, const RankPlace& place, const RankMemory& memory,
                        const WeightSource& source, Device& device);

}  // namespace gpuplan

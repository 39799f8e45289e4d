// Tensors in safetensors files: mapped for reading, so that a rank touches only what it keeps, and written whole or not
// at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "rows/file_access.h"

namespace gpuplan {

/// A tensor of a mapped file.
struct MappedTensor {
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::string name, file;  // for messages
  FileMapping mapping;     // that data lies in: its pages are given back once they were read; empty for other memory
};

/// Every tensor of model.safetensors, or of the shards that model.safetensors.index.json names, in a folder (or of one
/// file).
class TensorFiles {
 public:
  /// Throws InputError naming the file for what is missing, cut off or not safetensors.
  explicit TensorFiles(const std::filesystem::path& folder_or_file);
  ~TensorFiles();
  TensorFiles(const TensorFiles&) = delete;
  TensorFiles& operator=(const TensorFiles&) = delete;
  const MappedTensor* find(const std::string& name) const;  // null: not there
  /// Throws InputError naming tensor, file and both shapes when it is missing or differs.
  const MappedTensor& get(const std::string& name, const std::vector<std::int64_t>& shape) const;
  const std::map<std::string, MappedTensor>& all() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Copies elements [begin, end) of a tensor (counted in row-major order) to `to`, converted: F32, F16, BF16 to F32 or
/// BF16, and any dtype to itself. Throws InputError naming tensor and file for other dtypes.
void read_elements(const MappedTensor& tensor, std::int64_t begin, std::int64_t end, void* to, Dtype to_dtype);

/// The same for weights that a model is trained from, to F32 or BF16. Throws InputError naming file, tensor and the
/// place of the first one that is infinite or no number.
void read_weights(const MappedTensor& tensor, std::int64_t begin, std::int64_t end, void* to, Dtype to_dtype);

/// Takes bytes in order, a piece at a time.
using PieceSink = std::function<void(std::span<const std::byte>)>;

/// The header of what write_tensors writes begins so, behind its length: a file without it is somebody else's work.
inline constexpr std::string_view kMadeByGpuplan = R"({"__metadata__":{"format":"pt","made_by":"gpuplan"})";
inline constexpr std::int64_t kHeaderAt = 8;

/// One tensor to write; its bytes stay where they lie, in host memory, or are handed out when they are written.
struct TensorToWrite {
  std::string name;
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::function<void(const PieceSink&)> read = {};  // instead of data

  std::int64_t bytes() const;
};

/// Writes `folder`/`stem`.safetensors, or shards of at most `shard_bytes` with `stem`.safetensors.index.json, as
/// transformers does. Into temporary files, synced, then renamed, the index last; shards of an earlier model that would
/// be taken for this one's are removed. Tensors go as safetensors has them: by dtype, wide ones first, then name.
/// metadata {"format": "pt", "made_by": "gpuplan"}. Throws EnvError (full disk: what was needed and what is free), and
/// leaves nothing behind then.
void write_tensors(const std::filesystem::path& folder, const std::string& stem,
                   const std::vector<TensorToWrite>& tensors, std::int64_t shard_bytes = std::int64_t(5) << 30);

}  // namespace gpuplan

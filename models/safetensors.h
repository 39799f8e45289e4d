// The header of a safetensors file: names, dtypes, shapes and places of its tensors. The data itself is not read.
// Source: https://github.com/huggingface/safetensors (README, "Format", and the checks of its reader).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as the file says it: "BF16", "F8_E4M3"
  std::vector<std::int64_t> shape;
  std::int64_t begin{}, end{};  // bytes of the file, from its start
  std::int64_t elements{};
};

/// The tensors of `file`, in the order of their data. Throws InputError naming the file and the byte for a file that is
/// cut off, is not safetensors, or whose offsets overlap, leave holes or disagree with dtype and shape.
std::vector<SafetensorsTensor> read_safetensors_header(const std::filesystem::path& file);

}  // namespace gpuplan

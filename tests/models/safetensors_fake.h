// Safetensors files for tests: headers as real ones, data of zeros (a hole in the file, whatever the size).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/weights.h"

namespace gpuplan::test {

struct FakeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype = "BF16";
  std::int64_t bytes_each = 2;
};

inline std::string length_prefix(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += char((length >> (8 * i)) & 0xff);
  return bytes;
}

/// The file's bytes for any header text and `data_bytes` of zeros.
inline std::string safetensors_text(const std::string& header, std::size_t data_bytes = 0) {
  return length_prefix(header.size()) + header + std::string(data_bytes, '\0');
}

inline void write_safetensors(const std::filesystem::path& file, const std::vector<FakeTensor>& tensors) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::int64_t end = 0;
  for (const FakeTensor& tensor : tensors) {
    std::int64_t bytes = tensor.bytes_each;
    for (const std::int64_t extent : tensor.shape) bytes *= extent;
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream(file, std::ios::binary) << length_prefix(text.size()) << text;
  std::filesystem::resize_file(file, 8 + text.size() + std::uintmax_t(end));
}

/// Every tensor that list_weights names, in full.
inline std::vector<FakeTensor> fake_tensors(const ModelWeights& weights) {
  std::vector<FakeTensor> tensors;
  for (const WeightTensor& tensor : weights.before) tensors.push_back({tensor.name, tensor.shape});
  const auto numbered = [](std::string text, std::int64_t number) {
    const auto at = text.find("{}");
    return at == std::string::npos ? text : text.replace(at, 2, std::to_string(number));
  };
  for (std::int64_t i = 0; i < weights.num_layers(); ++i) {
    const LayerKind& kind = weights.layer(i);
    for (const WeightTensor& tensor : kind.tensors)
      for (std::int64_t copy = 0; copy < tensor.copies; ++copy)
        tensors.push_back({numbered(kind.prefix, i - kind.offset) + numbered(tensor.name, copy), tensor.shape});
  }
  for (const WeightTensor& tensor : weights.after) tensors.push_back({tensor.name, tensor.shape});
  return tensors;
}

}  // namespace gpuplan::test

// Token ids in a binary file, mapped: .bin as llm.c writes it or headerless, and .npy of NumPy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "rows/data_options.h"
#include "rows/file_access.h"

namespace gpuplan {

/// Storage of one token, little-endian.
struct TokenFormat {
  std::string_view npy;   // NumPy's name: "u2"
  std::string_view name;  // "uint16"
  std::int64_t bytes{};
  std::int64_t (*read)(const std::byte* at){};
};

/// The format that NumPy calls `npy`; null when it is none of ours.
const TokenFormat* find_token_format(std::string_view npy);

struct TokenArray {
  std::string file;
  FileMapping mapping;
  std::int64_t start{};  // bytes before the first token
  std::int64_t num_tokens{};
  const TokenFormat* format{};
  std::int64_t row_tokens{};  // of a 2-D .npy: its second extent; else 0

  /// Copies tokens from `first` on. Throws InputError naming the position of one that is outside the vocabulary.
  void read(std::int64_t first, std::span<std::int32_t> to, std::int64_t vocab_size) const;
};

/// Each throws InputError for a header that is damaged, of another version, or disagrees with the size of the file.
TokenArray open_bin(const DataOptions& options);
TokenArray open_npy(const DataOptions& options);

}  // namespace gpuplan

// Which training data is read, and how it becomes examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/dtype.h"
#include "models/recipe.h"

namespace gpuplan {

struct DataOptions {
  std::filesystem::path file;
  std::filesystem::path
      tokenizer_folder;              // the model's: tokenizer.model, or tokenizer.json which needs the shipped script
  std::optional<Dtype> token_dtype;  // of a headerless .bin: U16 as I16, or I32; unset: by the vocabulary
  std::int64_t vocab_size{}, seq_len{};
  Packing packing = Packing::Packed;  // Dynamic: as Padded
};

}  // namespace gpuplan

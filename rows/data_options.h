// Which training data is read, and how it becomes examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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
  /// Keys of a row's answers to its prompt, each of which is a sequence of its own; empty: a row is one text.
  std::vector<std::string> answers{};
  bool labels_end_alone = false;     // of an answer only the last token has a label: its score counts
  bool has_advantages = false;       // a row says how much better than others its answer is
  bool has_reference = false;        // and what log-probs the reference gives it
  bool has_token_log_probs = false;  // of each token, where they are given; false: their sum will do
};

}  // namespace gpuplan

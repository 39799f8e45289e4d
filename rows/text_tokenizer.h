// Text to token ids, through the SentencePiece model of a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace gpuplan {

class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;
  /// One document: beginning-of-sequence where the model has it, the text, end-of-sequence. Several threads may ask at
  /// once.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
};

/// Command that tokenises in the user's stead, for messages: "scripts/tokenise.py <model folder> <in> <out>".
extern const char* const kTokeniseHint;

/// Opens `folder`/tokenizer.model. Throws InputError when there is none (naming what tokenises a tokenizer.json),
/// EnvError naming the package when gpuplan was built without SentencePiece.
std::unique_ptr<TextTokenizer> open_tokenizer(const std::filesystem::path& folder);

}  // namespace gpuplan

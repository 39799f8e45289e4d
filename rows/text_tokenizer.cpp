#include "rows/text_tokenizer.h"

#include <exception>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"

#ifdef GPUPLAN_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace gpuplan {

const char* const kTokeniseHint =
    "tokenise it with transformers first: python3 scripts/tokenise.py <model folder> <text.jsonl> <tokens.jsonl>";

namespace {

namespace fs = std::filesystem;

#ifdef GPUPLAN_SENTENCEPIECE

/// Source: transformers, LlamaTokenizer: add_bos_token is true unless tokenizer_config.json says otherwise.
bool adds_bos(const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return true;
  const InputFile input(file);
  require_size(std::size_t(input.size()), file.string(), kFileLimit);
  const nlohmann::json config = parse_json(input.read(0, input.size()), file.string());
  Fields fields(config, file.string());
  const bool adds = fields.optional_flag("add_bos_token").value_or(true);
  fields.finish();
  return adds;
}

class SentencePiece : public TextTokenizer {
 public:
  explicit SentencePiece(const fs::path& folder) : adds_bos_(adds_bos(folder)) {
    const std::string file = (folder / "tokenizer.model").string();
    if (const std::string problem = load(file); !problem.empty())
      throw InputError(file, fmt::format("is not a SentencePiece model: {}", problem), "download it again");
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<int> pieces;
    // Not a std::string_view in every version of the library.
    const auto status = model_.Encode({text.data(), text.size()}, &pieces);
    if (!status.ok()) throw InputError("text", status.ToString());
    std::vector<std::int32_t> ids;
    if (adds_bos_ && model_.bos_id() >= 0) ids.push_back(model_.bos_id());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
    if (model_.eos_id() >= 0) ids.push_back(model_.eos_id());
    return ids;
  }

 private:
  /// Loads the file and returns its mistake; empty where it was read. Damaged ones end in a status or an exception of
  /// the library.
  std::string load(const std::string& file) {
    const InputFile input(file);
    require_size(std::size_t(input.size()), file, kFileLimit);
    const std::string content = input.read(0, input.size());
    try {
      const auto status = model_.LoadFromSerializedProto(content);
      return status.ok() ? "" : std::string(status.message());
    } catch (const std::exception& error) { return error.what(); }
  }

  sentencepiece::SentencePieceProcessor model_;
  bool adds_bos_;
};

std::unique_ptr<TextTokenizer> open_sentence_piece(const fs::path& folder) {
  return std::make_unique<SentencePiece>(folder);
}

#else

std::unique_ptr<TextTokenizer> open_sentence_piece(const fs::path& folder) {
  throw EnvError(
      fmt::format("{}: gpuplan was built without SentencePiece, which reads it\n"
                  "install libsentencepiece-dev (Debian, Ubuntu) and build again, or {}",
                  (folder / "tokenizer.model").string(), kTokeniseHint));
}

#endif

}  // namespace

std::unique_ptr<TextTokenizer> open_tokenizer(const fs::path& folder) {
  if (is_there(folder / "tokenizer.model")) return open_sentence_piece(folder);
  if (is_there(folder / "tokenizer.json"))
    throw InputError(folder.string(),
                     "the tokenizer is a tokenizer.json, which gpuplan does not read; text needs a tokenizer.model",
                     kTokeniseHint);
  throw InputError(folder.string(), "tokenizer.model not found; it is required for text data",
                   fmt::format("give the model's folder, or {}", kTokeniseHint));
}

}  // namespace gpuplan

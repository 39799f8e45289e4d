// Examples as JSON lines: {"input_ids": [...], "labels": [...]?} or {"text": "..."}; of a method that compares answers
// {"prompt": ..., "chosen": ..., "rejected": ...}, each a list of token ids or a text. Lines are found once and parsed
// when asked for.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "rows/data_options.h"
#include "rows/file_access.h"
#include "rows/text_tokenizer.h"

namespace gpuplan {

/// One document. labels[i] belongs to ids[i], as Hugging Face has them: not shifted.
struct TokenRow {
  std::vector<std::int32_t> ids, labels;
  std::vector<float> old, reference;  // log-probs of ids, 0 before the answer; empty: not given
  double advantage = 0;
};

class JsonRows {
 public:
  /// Finds the lines that are not blank; 8 bytes of memory for each. Throws InputError when there is none, and for one
  /// that is longer than kRowLimit.
  explicit JsonRows(const DataOptions& options);
  std::int64_t size() const { return std::int64_t(starts_.size()); }
  /// Throws InputError, where = "file:line", for what is no example or has tokens outside the vocabulary. Several
  /// threads may ask at once.
  TokenRow read(std::int64_t row) const;
  /// The answers of a row (DataOptions::answers), each behind the prompt, whose labels are kIgnoredLabel.
  std::vector<TokenRow> read_answers(std::int64_t row) const;
  /// Says whether a row that was read is text.
  bool has_text() const { return tokenizer_ != nullptr; }
  std::string file_name() const { return options_.file.filename().string(); }
  std::string path() const { return options_.file.string(); }

 private:
  std::string_view line(std::int64_t row) const;
  void forget(std::string_view row) const;
  std::string place(std::int64_t row) const;  // "file:line"
  template <class Parse>
  auto parsed(std::int64_t row, Parse parse) const;
  TokenRow parse(const nlohmann::json& example) const;
  std::vector<TokenRow> parse_answers(const nlohmann::json& example) const;
  TokenRow answer(const nlohmann::json* prompt, const nlohmann::json& text, const char* key) const;
  std::vector<float> log_probs(const nlohmann::json& example, const std::string& key, const TokenRow& answer) const;
  bool reads_text(const nlohmann::json& example) const;
  void open_tokenizer_once() const;
  std::vector<std::int32_t> encode(const nlohmann::json& text, const char* key) const;
  std::vector<std::int32_t> encode(const std::string& text) const;
  std::vector<std::int32_t> integers(const nlohmann::json& list, const char* key, std::int64_t also_allowed) const;

  DataOptions options_;
  FileMapping mapping_;
  std::vector<std::int64_t> starts_;
  mutable std::mutex reading_large_, touching_;
  mutable std::string_view touched_;  // of the file, since it was last given back
  mutable std::size_t num_touched_ = 0;
  mutable std::once_flag opens_tokenizer_;
  mutable std::unique_ptr<TextTokenizer> tokenizer_;
};

}  // namespace gpuplan

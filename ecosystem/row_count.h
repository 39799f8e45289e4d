// Rows of data files of other programs and, about, their tokens: JSON lines, a JSON list or CSV, whatever the keys of
// a row are called. Files are read in pieces, and no tokenizer is asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "models/recipe.h"

namespace gpuplan {

/// Rows that have so many tokens, by their tokens.
using RowsOf = std::map<std::int64_t, std::int64_t>;

/// Lengths of the rows of a data set, as files on this machine have them; of pairs the longer answer with its prompt.
struct RowLengths {
  RowsOf rows_of;         // empty: they are not known
  bool is_about = false;  // they are counted by words and signs

  std::int64_t longest() const { return rows_of.empty() ? 0 : rows_of.rbegin()->first; }
  /// Tokens to which a batch with the longest row may be padded, in whole kPaddedTo. Where rows are counted by words
  /// and signs, which come within 7 % of a tokenizer over whole sets, a tenth more and kTemplateTokens for what a
  /// template of conversations adds: assumptions of ours.
  std::int64_t at_most() const;
  std::int64_t num_longer_than(std::int64_t tokens) const;
};
inline constexpr std::int64_t kTemplateTokens = 64, kPaddedTo = 64;

struct CountedRows {
  std::int64_t rows{};
  double tokens{};
  double tokens_per_answer{};  // of all rows, a prompt with one of its two answers, where keys tell them apart; else 0
  /// Rows that have so many tokens: all of the row; its prompt with the longer of two answers, to which both are
  /// padded; and its prompt with each of them. Empty: no row has two.
  RowsOf rows_of, longer_of, answers_of;
};

/// Rows as a trainer reads them.
struct RowsRead {
  std::int64_t rows_per_pair = 1;
  bool are_pairs = false;  // two answers are read at once
  double tokens{};         // of a row of the file, on average over its answers where these are read apart or at once
  const RowsOf* lengths = nullptr;  // of `counted`
};
/// Pairs are read at once by methods of pairs; other methods have trainers that make two rows of each. Requires: rows.
RowsRead rows_read(const CountedRows& counted, const Recipe& recipe);

/// nullopt for other formats. Throws InputError where the file cannot be read.
std::optional<CountedRows> count_rows(const std::filesystem::path& file);

}  // namespace gpuplan

// Rows of data files of other programs and, about, their tokens: JSON lines, a JSON list or CSV, whatever the keys of
// a row are called. Files are read in pieces, and no tokenizer is asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "models/recipe.h"

namespace gpuplan {

struct CountedRows {
  std::int64_t rows{};
  double tokens{};
  double tokens_per_answer{};  // of all rows, a prompt with one of its two answers, where keys tell them apart; else 0
  /// Rows that have so many tokens: all of the row; its prompt with the longer of two answers, to which both are
  /// padded; and its prompt with each of them. Empty: no row has two.
  std::map<std::int64_t, std::int64_t> rows_of, longer_of, answers_of;
};

/// Rows as a trainer reads them.
struct RowsRead {
  std::int64_t rows_per_pair = 1;
  bool are_pairs = false;  // two answers are read at once
  double tokens{};         // of a row of the file, on average over its answers where these are read apart or at once
  const std::map<std::int64_t, std::int64_t>* lengths = nullptr;  // of `counted`
};
/// Pairs are read at once by methods of pairs; other methods have trainers that make two rows of each. Requires: rows.
RowsRead rows_read(const CountedRows& counted, const Recipe& recipe);

/// nullopt for other formats. Throws InputError where the file cannot be read.
std::optional<CountedRows> count_rows(const std::filesystem::path& file);

}  // namespace gpuplan

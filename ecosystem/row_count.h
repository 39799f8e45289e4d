// Rows of data files of other programs and, about, their tokens: JSON lines, a JSON list or CSV, whatever the keys of
// a row are called. Files are read in pieces, and no tokenizer is asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

namespace gpuplan {

struct CountedRows {
  std::int64_t rows{};
  double tokens{};
  double tokens_per_answer{};  // of all rows, a prompt with one of its two answers, where keys tell them apart; else 0
  /// Rows that have so many tokens: all of the row, and its prompt with the longer of two answers (empty: no row
  /// has two), to which both are padded.
  std::map<std::int64_t, std::int64_t> rows_of, longer_of;
};

/// nullopt for other formats. Throws InputError where the file cannot be read.
std::optional<CountedRows> count_rows(const std::filesystem::path& file);

}  // namespace gpuplan

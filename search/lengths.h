// The lengths of the rows of a data set, from a file: one number of tokens a line, JSON lines with `input_ids`, or a
// histogram (length and count on each line).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpuplan {

struct Lengths {
  std::map<std::int64_t, std::int64_t> rows_of;  // by length in tokens
  std::int64_t num_rows = 0;
  double mean = 0;
  std::int64_t longest = 0;
  std::int64_t at_most = 0;  // tokens for which the memory of the longest is counted; make_lengths: its own

  /// The mean of the longest of `batch` rows drawn at random: what `dynamic` pads a micro batch to.
  double mean_longest_of(std::int64_t batch) const;
  /// The length that so many of the rows do not exceed.
  std::int64_t quantile(double share) const;
  double num_tokens() const { return mean * double(num_rows); }
};

/// Requires: at least one row, every length at least 1.
Lengths make_lengths(std::map<std::int64_t, std::int64_t> rows_of);

/// The rows when each is cut at `most` tokens.
Lengths cut_at(const Lengths& lengths, std::int64_t most);

/// Throws InputError naming file and line.
Lengths read_lengths(const std::string& file);
Lengths parse_lengths(const std::string& text, const std::string& where);

}  // namespace gpuplan

// The rows of a data set in the sequences of a plan: what is cut, how much is padding, and what each way to fill the
// sequences costs and gives.
#pragma once

#include <string>
#include <vector>

#include "planner/strategy_estimate.h"
#include "search/lengths.h"

namespace gpuplan {

/// Rows of `from` to `to` tokens.
struct LengthBin {
  std::int64_t from{}, to{}, num_rows{};
};

/// One way to fill sequences.
struct FilledRows {
  Packing packing{};
  double padding = 0;            // share of the computed tokens
  double tokens_per_second = 0;  // of the data, padding left out
  Seconds epoch;
  Bytes process;  // at the peak, on the fullest GPU: where rows are not packed, the peak of the longest row
  Fit fit{};
};

struct RowFit {
  std::string source;  // the file, and what made tokens of its text
  Lengths lengths;
  double num_tokens = 0;  // that are read of them: of pairs each answer with its prompt
  std::int64_t seq_len{};
  Packing asked{};
  std::vector<LengthBin> histogram;
  std::int64_t num_cut = 0;         // rows longer than a sequence
  double share_lost = 0;            // of the tokens, where rows are cut and not packed
  std::vector<FilledRows> ways;     // packed, dynamic, padded
  std::optional<FilledRows> uncut;  // sequences as long as the longest row, where it is cut
};

/// Bins whose ends are powers of two, from the shortest row to the longest.
std::vector<LengthBin> histogram_of(const Lengths& lengths);

/// `request`, with sequences as long as they may be, on its cluster under the strategy of `shown`, with the rates of
/// `profile`. Packed sequences are full but for the last one. Micro batches of `dynamic` are padded to the longest of
/// their rows, whose mean over random micro batches follows from the lengths exactly. The way that is asked for has the
/// figures of `shown`, the answer beside which it stands.
RowFit fit_rows(const Lengths& lengths, const EstimateRequest& request, const Profile& profile,
                const StrategyEstimate& shown);

}  // namespace gpuplan

// --lengths and --data: how long the rows of the data set are, from lengths or from the data itself.
#pragma once

#include <optional>
#include <string>

#include "cli/plan_question.h"
#include "search/lengths.h"

namespace CLI {
class App;
}

namespace gpuplan {

void add_row_flags(CLI::App& app);

struct GivenRows {
  Lengths lengths;
  std::string source;     // the file, and what made tokens of its text
  bool is_about = false;  // they are counted by words and signs
  bool sets_seq_len = false;
};

/// The rows of --lengths or --data; sets the data set of the request, and its sequence length to that of the longest
/// row where neither a flag nor a file (`says_seq_len`) states one, or where batches are padded and no row is as long.
/// Empty when neither flag is given. Throws InputError.
std::optional<GivenRows> take_rows(const CLI::App& app, PlanQuestion& question, bool says_seq_len);

}  // namespace gpuplan

// The question that flags, a plan file and trainers' files ask together.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/row_count.h"
#include "planner/estimate.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct CarriedSettings;
struct ConfigReading;

/// Lets the settings that nobody gave be chosen, unless --as-given pins them. Throws InputError for a quality that the
/// question is below.
void set_choice(const CLI::App& app, EstimateRequest& request);

/// The question, and what has to be said about how it was understood.
struct PlanQuestion {
  EstimateRequest request;
  std::vector<std::string> notes;
  std::shared_ptr<const CarriedSettings> carried{};  // of a trainer's file, for a plan that is saved; null: none
  Seconds set_up{};                                  // that a saved plan counts before training
  std::string caveat{};                              // of the notes, the one that can turn the answer; empty: none
  bool has_rows = true;                              // false: by no flag, plan or file; Dataset's default is assumed
  std::string data_words{};                          // "500 steps of 32 sequences", where files count those
  RowLengths rows{};                                 // of the data that files name
  std::int64_t stated_seq_len = 0;  // tokens that a sequence may have, where the longest row sets fewer; 0: it does not
};

/// Lets the longest of the rows decide how long padded sequences are (bound_sequences).
void bound_by(RowLengths rows, PlanQuestion& question);

/// Reads the plan file, if one is given ("-" is `in`), then the flags over it. Without a plan, what no flag says is
/// what the trainer of --framework does, or Recipe's default. `usual_framework`: without a plan and --framework. Throws
/// InputError.
PlanQuestion read_plan_question(const CLI::App& app, std::istream& in,
                                std::string_view usual_framework = kUsualFramework);

/// The same with the files of --from (cli/config_files.h), which stand in for what no flag says.
PlanQuestion read_config_question(const CLI::App& app, std::istream& in, const std::optional<ConfigReading>& configs);

/// The same where the search chooses what no flag says: without --gpus the request has no cluster and no profile,
/// without --model (if `needs_model` is off) no model.
PlanQuestion read_open_question(const CLI::App& app, std::istream& in, bool needs_model,
                                const std::optional<ConfigReading>& configs);

}  // namespace gpuplan

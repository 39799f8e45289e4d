// What `gpuplan run` measured beside what was predicted, kept next to the calibrated profile that predicted it; and how
// far the next prediction with that profile is corrected by it. Two numbers, no more: they hold for every model and
// strategy on the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace gpuplan {

/// Steps that runs took over those of the profile alone, and bytes that the process held outside tensors beyond them.
/// The factor goes to kernels, which are most of a step; by phase it would not do: ranks that share cores wait in one
/// phase for what another one used.
struct RunCorrection {
  double time = 1;
  Bytes outside_tensors;
  std::int64_t num_runs = 0;  // that say so; 0: nothing is corrected
};

/// One finished run.
struct RunRecord {
  std::string profile;  // sha256 of the profile it was predicted with
  std::string date, model, strategy, method;
  std::string framework = "native";  // that trained; each learns from its own runs
  std::int64_t num_ranks = 1, num_steps = 0;
  struct Figures {
    double step{};          // s
    Bytes outside_tensors;  // of rank 0
  };
  Figures predicted, measured;
  RunCorrection applied;  // that `predicted` has in it
};

/// The file beside a profile: "local.yaml" has "local.yaml.runs.jsonl".
std::filesystem::path run_history_file(const std::filesystem::path& profile);

/// Adds a line. Throws EnvError.
void add_run(const std::filesystem::path& profile, const RunRecord& run);

/// The runs that were predicted with the profile as it is now; none where there is no file. A line that a crash cut
/// off, or that is no run, is passed over.
std::vector<RunRecord> read_runs(const std::filesystem::path& profile, const std::string& sha256);

/// Correction for plans of this framework with as many ranks: the median of the latest runs, drawn towards no
/// correction by one run's weight, so that one run corrects half of what it was off, nine runs nine tenths; never by
/// more than a factor of 2.
RunCorrection correction_for(const std::vector<RunRecord>& runs, std::int64_t num_ranks,
                             std::string_view framework = "native");

}  // namespace gpuplan

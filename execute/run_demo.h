// `gpuplan run --demo`, and what else `gpuplan run` fills in: it runs the command again with more flags.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace gpuplan {

/// Fine-tunes the model in data/demo with the demo's flags where the user gave none, reads the adapter back, says what
/// it is worth.
int run_demo(const CLI::App& given_flags, Console& console);

/// Runs with more arguments, as if they had been typed; says which.
int run_with(const std::vector<std::string>& arguments, Console& console);

/// Ranks of this host that train fastest as predicted: one that has all cores, or one per core.
std::string fastest_cpu_ranks(const std::vector<std::string>& arguments);

}  // namespace gpuplan

// The commands that use this machine's devices, and what they share.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "planner/estimate.h"
#include "run/training.h"

namespace CLI {
class App;
}

namespace gpuplan {

void setup_run(CLI::App& app);
int run_run(const CLI::App& app, Console& console);

void setup_calibrate(CLI::App& app);
int run_calibrate(const CLI::App& app, Console& console);

void setup_serve(CLI::App& app);
int run_serve(const CLI::App& app, Console& console);

/// Command with which `serve` starts this program for one question: JSON on standard input and output
/// (cli/json_question.h). Not meant for people.
inline constexpr const char* kAnswerCommand = "answer-question";
int answer_one_question(Console& console);

// The flags of `gpuplan run` beside those of a plan.

void add_run_flags(CLI::App& app);

/// Throws InputError naming the flag.
TrainingOptions read_training_options(const CLI::App& app, const EstimateRequest& request);

// `gpuplan run --engine`: a plan trained by accelerate, torchrun, DeepSpeed or Slurm, and compared with its prediction.

void add_engine_flags(CLI::App& app);

/// Says whether another engine than gpuplan's own is asked for. Throws InputError for an unknown one, and for flags
/// that need one.
bool wants_other_engine(const CLI::App& app, const Console& console);

int run_with_engine(const CLI::App& app, Console& console);

// `gpuplan run --demo`, and what else `gpuplan run` fills in: it runs the command again with more flags.

/// Fine-tunes the model in data/demo with the demo's flags where the user gave none, reads the adapter back, says what
/// it is worth.
int run_demo(const CLI::App& given_flags, Console& console);

/// Runs with more arguments, as if they had been typed; says which.
int run_with(const std::vector<std::string>& arguments, Console& console);

/// Ranks of this host that train fastest as predicted: one that has all cores, or one per core.
std::string fastest_cpu_ranks(const std::vector<std::string>& arguments);

}  // namespace gpuplan

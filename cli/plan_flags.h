// The flags that describe a plan: model, recipe, data, GPUs, strategy. One table declares them, applies them to a
// request, and tells help and completion about them; every command that takes a plan shares it.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct ConfigReading;

struct PlanFlag {
  const char* name;
  const char* value;  // as the help shows it; "[X]" may be left out, "" is a switch
  const char* group;
  const char* help;
  /// Throws InputError naming the flag. nullptr: read_plan_question() reads it, together with others. The ranges of
  /// numbers are in cli/flag_ranges.h, and were looked at before.
  void (*apply)(EstimateRequest& request, const std::string& value);
};

/// Every flag of a plan, in the order in which they are applied.
std::span<const PlanFlag> plan_flags();

void add_plan_flags(CLI::App& app);
/// The flags alone, of commands whose first words are files.
void add_question_flags(CLI::App& app);

/// The value of --method: "dpo", "qlora" or "dpo,any". Searched words (any, full, lora, qlora) are for `plan`. Throws
/// InputError for two of a kind.
struct MethodWords {
  std::optional<std::string> trained_for, searched;
};
MethodWords words_of_method(std::string_view text);
/// Those alone that say what no trainer's file does: where the model is, the data, the machine.
void add_surrounding_flags(CLI::App& app);

/// --as-given and --quality, of commands that choose what is not given.
void add_choice_flags(CLI::App& app);
/// Lets the settings that nobody gave be chosen, unless --as-given pins them. Throws InputError for a quality that the
/// question is below.
void set_choice(const CLI::App& app, EstimateRequest& request);

/// The question, and what has to be said about how it was understood.
struct PlanQuestion {
  EstimateRequest request;
  std::vector<std::string> notes;
  bool has_rows = true;  // false: of a trainer's file, by nothing; Dataset's default is assumed
};

/// Names the conventions of the usual framework without its trainer's defaults.
inline constexpr const char* kPlainFramework = "plain";

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

// The flags that describe a plan: model, recipe, data, GPUs, strategy. One table declares them, applies them to a
// request, and tells help and completion about them; every command that takes a plan shares it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "planner/estimate.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct PlanFlag {
  const char* name;
  const char* value;  // as the help shows it; "[X]" may be left out, "" is a switch
  const char* group;
  const char* help;  // {methods} and {usual}: names of what a model is trained for, and the usual one
  /// Throws InputError naming the flag. nullptr: read_plan_question() reads it, together with others. The ranges of
  /// numbers are in cli/flag_ranges.h, and were looked at before.
  void (*apply)(EstimateRequest& request, const std::string& value);
  Declared declared = Declared::IfNamed;
};

/// Every flag of a plan, in the order in which they are applied.
std::span<const PlanFlag> plan_flags();

void add_plan_flags(CLI::App& app);
/// The flags alone, of commands whose first words are files.
void add_question_flags(CLI::App& app);

/// Names the conventions of the usual framework without its trainer's defaults.
inline constexpr const char* kPlainFramework = "plain";
/// The value of --framework. Throws InputError for a name that is no framework.
const FrameworkConvention& framework_named(std::string_view text);

/// The value of --method: "dpo", "qlora" or "dpo,any". Searched words (any, full, lora, qlora) are for `plan`. Throws
/// InputError for two of a kind.
struct MethodWords {
  std::optional<std::string> trained_for, searched;
};
MethodWords words_of_method(std::string_view text);
/// Those alone that say what a trainer's file may leave open: where the model is, the data, the machine, and what a
/// script of one's own trains.
void add_surrounding_flags(CLI::App& app);

/// --global-batch, of commands about one plan; `plan` has one of its own.
void add_global_batch_flag(CLI::App& app);
/// --as-given and --quality, of commands that choose what is not given.
void add_choice_flags(CLI::App& app);

}  // namespace gpuplan

// The one table of what a plan can be changed in: its recipe, its strategy, its machine. Each row says how a value is
// applied to a request, when a value is worth suggesting, and how the change is worded. The recommendation, the advice
// of `--explain`, the simulator's remedies, `--what-if` and the search of `gpuplan plan` all change, estimate and word
// plans with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/machine_changes.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {

/// A request with changes applied, and the profile that answers it.
struct Variant {
  EstimateRequest request;
  Profile profile;
};

/// Names what a suggested change is good for.
enum class Purpose : std::uint8_t {
  SaveMemory,   // a saver that is not in use yet
  LeaveOut,     // a saver in use that costs time
  Quality,      // training more of the model
  MoreGpus,     // of the same kind
  ShortenStep,  // what the step waits for becomes faster
  RunBetter,    // another way to run the same training
  Resolve,      // what was asked for excludes what else was asked for
};

struct Suggestion {
  Purpose purpose{};
  std::string (*value)(const EstimateRequest& r) = nullptr;  // empty: not useful for this request
  std::string_view title{};                                  // what is switched on or left out: "fused loss"
  std::string_view note{};                                   // what else changes: "full logits never exist"
};

struct Setting;

/// Holds what a setting that nobody gave may be chosen to be, beside what it is: within what the trainer can be told
/// and the cards have.
struct FreeValues {
  std::vector<std::string> values;
  std::vector<std::string> from_host;  // that rest on the host's memory, and are tried where nothing else does
};

/// One row, spelt like the flag of the same name unless it is of the machine.
struct Change {
  std::string_view name;
  void (*apply)(Variant& variant, const Setting& setting);
  std::vector<Suggestion> suggestions{};
  std::string_view wording{};              // with a place for the value; empty: the flag
  const MachineChange* machine = nullptr;  // the figure that is set; nullptr: the row is of the request
  /// Values that a search tries on this request, the one that needs nothing special first; nullptr: not searched.
  std::vector<std::string_view> (*tried)(const EstimateRequest& r) = nullptr;
  bool needs_lengths = false;                              // tried only where the lengths of the data's rows are known
  FreeValues (*free)(const EstimateRequest& r) = nullptr;  // nullptr: an estimate takes it as it is
};

/// A row with a value, as text and for rows of the machine as a number.
struct Setting {
  const Change* change{};
  std::string value;
  double number{};
};

/// A setting that is useful for a request, and why.
struct Suggested {
  Setting setting;
  const Suggestion* why{};
};

/// Says where settings are given.
inline constexpr const char* kWhatIf = "--what-if";

/// The value of the change "lora" or "qlora" for this recipe: its rank, and that the base is loaded in 16 bit where the
/// trainer would load it in fp32 and nobody said another.
std::string adapters_of(const Recipe& recipe, Method method);

/// The rows (planner/change_rows.cpp); the mildest savers of memory come first.
std::span<const Change> changes();

/// `name` set to `value`. Throws InputError for an unknown name (with the nearest) or a number out of range.
Setting set_to(std::string_view name, std::string_view value);

/// The value of `--what-if`: "nvlink=900,checkpointing=none". Throws as `set_to` does.
std::vector<Setting> parse_settings(std::string_view text);

/// Every suggestion for this purpose that is useful for the request, in the order of the table.
std::vector<Suggested> suggest(const EstimateRequest& request, Purpose purpose);

/// The suggestion of one row; nothing when it is not useful.
std::optional<Suggested> suggest(const EstimateRequest& request, Purpose purpose, std::string_view name);

/// Says why a setting of the machine means nothing on the machine of `request`; empty: it does.
std::string why_not(const Setting& setting, const EstimateRequest& request);

/// Says whether the rows of a micro batch are compared with each other, so that another one is another loss: the
/// negatives of a text are the other texts beside it.
bool compares_rows(const Recipe& recipe);

/// Micro batches and micro-batches per step that train on as many sequences per step, at most 64 times more or fewer;
/// none where rows are compared.
std::vector<std::vector<Setting>> rebatchings(const Recipe& recipe);

/// Applies the settings in order. Throws InputError for a value that the row does not know or that makes no sense here.
Variant changed(Variant variant, std::span<const Setting> settings);

/// As `changed`; nothing where a setting makes no sense for the variant. Whoever tries settings asks this.
std::optional<Variant> changed_if_possible(Variant variant, std::span<const Setting> settings);

/// The variant under `strategy`, without its limits; nothing when its recipe makes no sense or does not allow the
/// strategy. The one place where a changed plan is estimated; its peak is not taken apart (Parts::None).
std::optional<StrategyEstimate> estimate_variant(const Variant& variant, std::string_view strategy);

/// The variant under every strategy that it asks for and that is possible, without limits; nothing when its recipe
/// makes no sense; with IfFits those of which one is the best. `cache`: of variants of one model and method.
std::vector<StrategyEstimate> estimate_strategies(const Variant& variant, Parts parts = Parts::None,
                                                  BlockCache* cache = nullptr);

/// The variant under the strategy that would be recommended for it; nothing where none fits.
std::optional<StrategyEstimate> best_fitting(const Variant& variant, BlockCache* cache = nullptr);

/// "--checkpointing full", "NVLink (600 GB/s)".
std::string describe(const Setting& setting);

/// "33 % more time per token", "5.2 times the time per token", "27 % less time per token"; empty below 5 %.
std::string describe_time(const StrategyEstimate& before, const StrategyEstimate& after);

/// "--checkpointing full + --loss fused (full logits never exist; 12 % more time per token)".
std::string describe_suggested(std::span<const Suggested> all, std::string_view joined_by, const std::string& time);

/// Gives what is trained now the reference that its trainer has beside it, where the files or the plan hold a model;
/// --ref says another.
void settle_reference(Recipe& recipe);

}  // namespace gpuplan

#include "planner/changes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "planner/job.h"
#include "planner/machine_changes.h"
#include "planner/peaks.h"
#include "planner/recommend.h"
#include "planner/step_batch.h"

namespace gpuplan {
namespace {

using Request = const EstimateRequest&;

constexpr double kVisible = 0.05;  // a change of time that is worth a word

const Change& find_change(std::string_view name) {
  std::vector<std::string> names;
  for (const Change& change : changes()) {
    if (name == change.name) return change;
    names.emplace_back(change.name);
  }
  throw InputError(kWhatIf, fmt::format("unknown lever '{}'", name),
                   did_you_mean(name, names, fmt::format("use one of {}", fmt::join(names, ", "))));
}

/// Calls `use` with the framework and the model as the variant trains it; nothing for a recipe that makes no sense.
template <class Use>
std::optional<StrategyEstimate> with_model(const Variant& variant, Use use) {
  const EstimateRequest& r = variant.request;
  if (recipe_mistake(r.recipe, r.model, r.cluster)) return std::nullopt;
  if (eval_batch(r) * r.recipe.seq_len > kMostBatchTokens) return std::nullopt;  // flags do not take it either
  const FrameworkConvention& framework = *r.recipe.framework;
  const auto prepared = try_prepare(r.model, r.recipe, framework);
  const auto* const model = std::get_if<TrainedModel>(&prepared);
  try {
    return model ? use(framework, *model) : std::nullopt;
  } catch (const AmountTooLarge&) { return std::nullopt; }  // of this variant: others are smaller
}

/// `name` as this request has it; nothing when the strategy is not possible.
std::optional<Strategy> applicable(Request r, std::string_view name) {
  const StrategyOptions options = options_for(r);
  if (strategy_mistake(name, r.cluster, options)) return std::nullopt;
  Strategy strategy = make_strategy(name, r.cluster, options);
  if (!why_not_applicable(strategy, r.cluster, r.recipe, r.model).empty()) return std::nullopt;
  return strategy;
}

}  // namespace

Setting set_to(std::string_view name, std::string_view value) {
  const Change& change = find_change(name);
  Setting setting{&change, std::string(value)};
  if (change.machine) setting.number = machine_value(*change.machine, value);
  return setting;
}

std::vector<Setting> parse_settings(std::string_view text) {
  std::vector<Setting> out;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view name = trim(std::string_view(part).substr(0, equals));
    const Change& change = find_change(name);
    if (equals == std::string::npos)
      throw InputError(kWhatIf, fmt::format("'{}' has no value", name),
                       change.machine
                           ? fmt::format("for example {}=900", name)
                           : fmt::format("{}=VALUE, as --{} takes it; {}=on where that takes none", name, name, name));
    out.push_back(set_to(name, trim(std::string_view(part).substr(equals + 1))));
  }
  return out;
}

std::vector<Suggested> suggest(Request r, Purpose purpose) {
  std::vector<Suggested> out;
  for (const Change& change : changes())
    for (const Suggestion& suggestion : change.suggestions) {
      if (suggestion.purpose != purpose) continue;
      if (const std::string value = suggestion.value(r); !value.empty())
        out.push_back({set_to(change.name, value), &suggestion});
    }
  return out;
}

std::optional<Suggested> suggest(Request r, Purpose purpose, std::string_view name) {
  for (Suggested& suggested : suggest(r, purpose))
    if (suggested.setting.change->name == name) return std::move(suggested);
  return std::nullopt;
}

std::string why_not(const Setting& setting, Request r) {
  const MachineChange* const machine = setting.change->machine;
  return machine && machine->why_not ? machine->why_not(r.cluster) : "";
}

bool compares_rows(const Recipe& recipe) {
  // with a pass before it, the loss is of all the step's rows
  return head_of(recipe) == MethodHead::Pooled && recipe.objective.method->passes.empty();
}

std::vector<std::vector<Setting>> rebatchings(const Recipe& recipe) {
  constexpr std::int64_t kMost = 64;
  std::vector<std::vector<Setting>> out;
  const auto add = [&](std::int64_t micro_batch, std::int64_t grad_accum) {
    out.push_back(
        {set_to("micro-batch", std::to_string(micro_batch)), set_to("grad-accum", std::to_string(grad_accum))});
  };
  if (recipe.optimizer_in_backward || compares_rows(recipe)) return out;  // the former cannot accumulate
  for (std::int64_t factor = 2; factor <= kMost; factor *= 2) {
    if (recipe.grad_accum % factor == 0) add(recipe.micro_batch * factor, recipe.grad_accum / factor);
    if (recipe.micro_batch % factor == 0) add(recipe.micro_batch / factor, recipe.grad_accum * factor);
  }
  return out;
}

Variant changed(Variant variant, std::span<const Setting> settings) {
  for (const Setting& setting : settings) setting.change->apply(variant, setting);
  return variant;
}

std::optional<Variant> changed_if_possible(Variant variant, std::span<const Setting> settings) {
  try {
    return changed(std::move(variant), settings);
  } catch (const InputError&) { return std::nullopt; }
}

static EstimateRequest with_passes(EstimateRequest r, const Strategy& strategy) {
  r.recipe.grad_accum = passes_under(r, strategy);
  return r;
}

std::optional<StrategyEstimate> estimate_variant(const Variant& variant, std::string_view name) {
  const EstimateRequest& r = variant.request;
  return with_model(variant, [&](const FrameworkConvention& framework, const TrainedModel& model) {
    std::optional<StrategyEstimate> out;
    StepProgram program;
    if (const auto strategy = applicable(r, name))
      out = estimate_strategy(Job(with_passes(r, *strategy), model, framework, variant.profile, *strategy), program,
                              Parts::None);
    return out;
  });
}

std::vector<StrategyEstimate> estimate_strategies(const Variant& variant, Parts parts, BlockCache* cache) {
  const EstimateRequest& r = variant.request;
  std::vector<StrategyEstimate> out;
  with_model(variant, [&](const FrameworkConvention& framework, const TrainedModel& model) {
    StepProgram program;
    BlockCache own;
    BlockCache& blocks = cache ? *cache : own;
    std::optional<Job> job;
    std::vector<Strategy> strategies;
    for (const std::string_view name : strategy_names()) {
      if (r.strategy != "auto" && r.strategy != name) continue;
      const auto strategy = applicable(r, name);
      if (strategy && (r.strategy != "auto" || why_not_chosen(*strategy, framework).empty()))
        strategies.push_back(*strategy);
    }
    const bool is_for_best = parts == Parts::IfFits;
    if (is_for_best) std::ranges::stable_partition(strategies, [](const Strategy& s) { return !s.takes_turns(); });
    bool is_decided = false;
    for (const Strategy& strategy : strategies) {
      if (is_for_best && is_decided && strategy.takes_turns()) continue;  // the best is another
      if (!job) job.emplace(r, model, framework, variant.profile, strategy);
      job->use(strategy);
      job->request.recipe.grad_accum = passes_under(r, strategy);
      const StrategyEstimate& e = out.emplace_back(estimate_strategy(*job, program, parts, &blocks));
      // one that every optimizer allows (planner/free_choice.cpp)
      is_decided |= rank_of(e) == kWorksTogether && !strategy.layout.shards_optimizer;
    }
    return std::optional<StrategyEstimate>{};
  });
  return out;
}

std::optional<StrategyEstimate> best_fitting(const Variant& variant, BlockCache* cache) {
  const std::vector<StrategyEstimate> all = estimate_strategies(variant, Parts::IfFits, cache);
  const StrategyEstimate* best = best_of(all, variant.request.preference, variant.profile.time_error);
  return best ? std::optional(*best) : std::nullopt;
}

std::string describe(const Setting& s) {
  if (!s.change->wording.empty()) return fmt::format(fmt::runtime(s.change->wording), s.value);
  if (s.value == "on" || s.value == "off")
    return fmt::format("{}--{}", s.value == "on" ? "" : "without ", s.change->name);
  return fmt::format("--{} {}", s.change->name, s.value);
}

std::string describe_time(const StrategyEstimate& before, const StrategyEstimate& after) {
  if (before.tokens_per_second <= 0 || after.tokens_per_second <= 0) return {};
  const double ratio = before.tokens_per_second / after.tokens_per_second;  // of the time per token
  if (std::abs(ratio - 1) < kVisible) return {};
  if (ratio >= 2) return fmt::format("{:.1f} times the time per token", ratio);
  return fmt::format("{:.0f} % {} time per token", 100 * std::abs(ratio - 1), ratio > 1 ? "more" : "less");
}

std::string describe_suggested(std::span<const Suggested> all, std::string_view joined_by, const std::string& time) {
  std::string text, notes;
  for (const Suggested& one : all) {
    text += (text.empty() ? "" : std::string(joined_by)) + describe(one.setting);
    if (!one.why->note.empty()) notes += (notes.empty() ? "" : "; ") + std::string(one.why->note);
  }
  if (!time.empty()) notes += (notes.empty() ? "" : "; ") + time;
  return notes.empty() ? text : fmt::format("{} ({})", text, notes);
}

}  // namespace gpuplan

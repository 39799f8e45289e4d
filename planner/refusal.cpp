#include "planner/refusal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/name_table.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "planner/recommend.h"
#include "planner/strategy.h"

namespace gpuplan {
namespace {

/// One flag given otherwise. What costs least is tried first: a factor of two of a degree costs 1.
struct FlagChange {
  std::string_view flag;
  std::string words;  // "give --tp 4"
  double cost{};
  std::function<void(EstimateRequest&)> apply;
};

/// A degree of the flags that split a model, and the trainers' facts about it.
struct SplitDegree {
  std::string_view flag;
  std::int64_t StrategyOptions::*ways;
  bool (*is_had)(const FrameworkConvention&);
};
constexpr std::array kSplitDegrees{
    SplitDegree{"--ep", &StrategyOptions::ep, [](const auto& f) { return !f.expert_parallel.strategies.empty(); }},
    SplitDegree{"--etp", &StrategyOptions::etp, [](const auto& f) { return f.expert_parallel.cuts_experts; }},
    SplitDegree{"--tp", &StrategyOptions::tp, [](const auto& f) { return !f.tensor_parallel.strategies.empty(); }},
    SplitDegree{"--pp", &StrategyOptions::pp, [](const auto& f) { return !f.pipeline.strategies.empty(); }},
    SplitDegree{"--cp", &StrategyOptions::cp, [](const auto& f) { return !f.context_parallel.strategies.empty(); }}};

/// Costs of what keeps all degrees: a switch, a strategy of another kind, a flag that goes.
constexpr double kSwitch = 0.1, kLeftOut = 0.2, kOtherStrategy = 0.5;

std::string left_out(std::string_view flag) { return fmt::format("leave {} out", flag); }

double factor_cost(std::int64_t from, std::int64_t to) { return std::abs(std::log2(double(to) / double(from))); }

/// A refusal: its words, and of wrong numbers of GPUs the flag and the rule.
struct Refusal {
  std::string why, flag, rule;
};

/// Says why a strategy is not possible; nothing where it is.
std::optional<Refusal> why_refused(const EstimateRequest& r, std::string_view name) {
  const StrategyOptions options = options_for(r);
  if (const auto mistake = strategy_mistake(name, r.cluster, options))
    return Refusal{mistake->problem(), mistake->where(), mistake->hint()};
  const Strategy strategy = make_strategy(name, r.cluster, options);
  std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model);
  if (why.empty() && r.strategy == "auto") why = why_not_chosen(strategy, *r.recipe.framework);
  if (why.empty()) return std::nullopt;
  return Refusal{std::move(why), {}, {}};
}

/// The strategies that a request asks for and that are possible, or the first of them alone.
std::vector<std::string_view> possible_strategies(const EstimateRequest& r, bool first_alone = false) {
  std::vector<std::string_view> out;
  if (recipe_mistake(r.recipe, r.model, r.cluster)) return out;
  for (const std::string_view name : strategy_names()) {
    if ((r.strategy != "auto" && r.strategy != name) || why_refused(r, name)) continue;
    out.push_back(name);
    if (first_alone) break;
  }
  return out;
}

/// Finds the refusal that most of some strategies share.
std::optional<Refusal> usual_refusal(const EstimateRequest& r, std::span<const std::string_view> strategies) {
  std::vector<Refusal> all;
  for (const std::string_view name : strategies)
    if (auto one = why_refused(r, name)) all.push_back(*std::move(one));
  const auto shared_by = [&](const Refusal& one) { return std::ranges::count(all, one.why, &Refusal::why); };
  const auto most = std::ranges::max_element(all, {}, shared_by);
  return most == all.end() ? std::nullopt : std::optional(*most);
}

/// "leave --tp out", and where the trainer does not have it, trainers that do.
std::string without(const SplitDegree& degree, const FrameworkConvention& asked) {
  if (degree.is_had(asked)) return left_out(degree.flag);
  std::vector<std::string> names;
  for (const FrameworkConvention& record : list_frameworks())
    if (degree.is_had(record)) names.push_back(record.name);
  return fmt::format("leave {} out, or take a trainer that has it: --framework {}", degree.flag,
                     fmt::join(names, ", "));
}

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d * d <= of; ++d) {
    if (of % d != 0) continue;
    out.push_back(d);
    if (d * d != of) out.push_back(of / d);
  }
  return out;
}

void add_degrees(std::vector<FlagChange>& out, const EstimateRequest& r) {
  const FrameworkConvention& framework = *r.recipe.framework;
  for (const SplitDegree& degree : kSplitDegrees) {
    const std::int64_t given = r.options.*degree.ways;
    if (given <= 1) continue;
    const auto add = [&](std::int64_t ways, std::string words) {
      out.push_back({degree.flag, std::move(words), factor_cost(given, ways),
                     [&degree, ways](EstimateRequest& other) { other.options.*degree.ways = ways; }});
    };
    add(1, without(degree, framework));
    if (!degree.is_had(framework)) continue;
    for (const std::int64_t ways : divisors(r.cluster.num_gpus()))
      if (ways > 1 && ways != given) add(ways, fmt::format("give {} {}", degree.flag, ways));
  }
}

/// Adds the flags that tell experts, exchanges and schedules from the usual ones.
void add_switches(std::vector<FlagChange>& out, const EstimateRequest& r) {
  const StrategyOptions& options = r.options;
  const Routing& routing = r.recipe.routing;
  const auto leave = [&](std::string_view flag, bool is_given, std::function<void(EstimateRequest&)> apply) {
    if (is_given) out.push_back({flag, left_out(flag), kLeftOut, std::move(apply)});
  };
  leave("--dispatcher", routing.dispatcher != Routing{}.dispatcher,
        [](EstimateRequest& o) { o.recipe.routing.dispatcher = {}; });
  leave("--pad-experts", routing.pads_to_capacity,
        [](EstimateRequest& o) { o.recipe.routing.pads_to_capacity = false; });
  if (routing.capacity)
    out.push_back(
        {"--expert-capacity",
         left_out(routing.pads_to_capacity ? "--expert-capacity and --pad-experts" : "--expert-capacity"), kLeftOut,
         [](EstimateRequest& o) { o.recipe.routing.capacity.reset(), o.recipe.routing.pads_to_capacity = false; }});
  leave("--expert-imbalance", routing.imbalance != 1, [](EstimateRequest& o) { o.recipe.routing.imbalance = 1; });
  leave("--tp-overlap", options.overlaps_tensor_parallel.value_or(false),
        [](EstimateRequest& o) { o.options.overlaps_tensor_parallel.reset(); });
  leave("--pp-schedule", options.schedule.has_value(), [](EstimateRequest& o) { o.options.schedule.reset(); });
  leave("--cp-exchange", options.context_exchange.has_value(),
        [](EstimateRequest& o) { o.options.context_exchange.reset(); });
  leave("--shard-size", options.shard_size.has_value(), [](EstimateRequest& o) { o.options.shard_size.reset(); });
  if (!options.stage_layers.empty())
    out.push_back({"--stage-layers",
                   fmt::format("one number for each of {} stages, {} layers in all; 0 is an even share of the rest; "
                               "or leave it out",
                               options.pp, r.model.num_layers()),
                   kSwitch, [](EstimateRequest& o) { o.options.stage_layers.clear(); }});
  if (options.cp > 1)
    for (const std::string& kernel : r.recipe.framework->context_parallel.attention)
      out.push_back({"--attention", fmt::format("give --attention {}", kernel), kSwitch, [&kernel](EstimateRequest& o) {
                       o.recipe.attention = parse_name<AttentionKernel>(kernel, "attention");
                     }});
  if (options.tp > 1 && r.recipe.framework->tensor_parallel.sequence != SequenceSplit::Always)
    out.push_back({"--sp", options.splits_sequence ? left_out("--sp") : "add --sp", kSwitch,
                   [](EstimateRequest& o) { o.options.splits_sequence = !o.options.splits_sequence; }});
  if (options.overlaps_tensor_parallel.value_or(false) && !r.recipe.torch_compile)
    out.push_back(
        {"--tp-overlap", "add --compile", kSwitch, [](EstimateRequest& o) { o.recipe.torch_compile = true; }});
  const std::string& usual = r.recipe.framework->default_optimizer;
  if (r.recipe.optimizer->name != usual)
    out.push_back({"--optimizer", fmt::format("give --optimizer {}", usual), kLeftOut,
                   [usual](EstimateRequest& o) { o.recipe.optimizer = usual; }});
  const bool may_be_fsdp = std::ranges::any_of(strategy_rows(), [&](const StrategyRow& row) {
    return is_fsdp(row.engine) && (r.strategy == "auto" || r.strategy == row.name);
  });
  const int other_version = options_for(r).fsdp_version.value_or(2) == 1 ? 2 : 1;
  if (may_be_fsdp)
    out.push_back({"--fsdp-version", fmt::format("give --fsdp-version {}", other_version), kLeftOut,
                   [other_version](EstimateRequest& o) { o.options.fsdp_version = other_version; }});
  if (r.recipe.offload.any())
    out.push_back({"--offload", left_out("--offload"), kLeftOut, [](EstimateRequest& o) { o.recipe.offload = {}; }});
  if (r.strategy != "auto")
    out.push_back({"--strategy", "leave --strategy out to let gpuplan choose", kOtherStrategy,
                   [](EstimateRequest& o) { o.strategy = "auto"; }});
}

/// Numbers of which degrees want multiples.
void add_numbers(std::vector<FlagChange>& out, const EstimateRequest& r) {
  const StrategyOptions& options = r.options;
  const auto nearest = [&](std::string_view flag, std::int64_t given, std::int64_t multiple, auto set) {
    if (multiple <= 1 || given % multiple == 0) return;
    for (const std::int64_t value : {given / multiple * multiple, (given / multiple + 1) * multiple})
      if (value > 0)
        out.push_back({flag, fmt::format("give {} {}", flag, value), factor_cost(given, value),
                       [set, value](EstimateRequest& o) { set(o, value); }});
  };
  nearest("--seq-len", r.recipe.seq_len, options.cp > 1 ? std::lcm(2 * options.cp, options.tp) : options.tp,
          [](EstimateRequest& o, std::int64_t value) { o.recipe.seq_len = value; });
  if (options.virtual_stages > 1 || options.schedule)
    nearest("--grad-accum", r.recipe.grad_accum, options.pp,
            [](EstimateRequest& o, std::int64_t value) { o.recipe.grad_accum = value; });
  if (options.pp == 1 || (options.virtual_stages == 1 && options.schedule != Schedule::Interleaved)) return;
  for (std::int64_t v = 1; v <= std::max(std::int64_t{2}, r.model.num_layers() / options.pp); ++v)
    if (v != options.virtual_stages)
      out.push_back({"--virtual-stages",
                     v == 1 ? left_out("--virtual-stages") : fmt::format("give --virtual-stages {}", v),
                     v == 1 ? kOtherStrategy : factor_cost(options.virtual_stages, v),
                     [v](EstimateRequest& o) { o.options.virtual_stages = v; }});
}

std::vector<FlagChange> changes_of(const EstimateRequest& r) {
  std::vector<FlagChange> out;
  add_switches(out, r);
  add_numbers(out, r);
  add_degrees(out, r);
  std::ranges::stable_sort(out, {}, &FlagChange::cost);
  return out;
}

EstimateRequest with(const EstimateRequest& r, std::span<const FlagChange* const> changes) {
  EstimateRequest other = r;
  for (const FlagChange* change : changes) change->apply(other);
  return other;
}

/// Flags that are left out together, as few as it takes; empty where that makes nothing possible.
std::vector<const FlagChange*> fewest_left_out(const EstimateRequest& r, const std::vector<FlagChange>& all) {
  const auto is_enough = [&](const std::vector<const FlagChange*>& changes) {
    return !possible_strategies(with(r, changes), true).empty();
  };
  std::vector<const FlagChange*> changes;
  for (const FlagChange& change : all)
    if (change.words.starts_with("leave ")) changes.push_back(&change);
  if (!is_enough(changes)) return {};
  for (std::size_t i = 0; i < changes.size();) {
    std::vector<const FlagChange*> fewer = changes;
    fewer.erase(fewer.begin() + std::ptrdiff_t(i));
    if (is_enough(fewer))
      changes = std::move(fewer);
    else
      ++i;
  }
  return changes;
}

/// The cheapest change, or else pair of changes, that makes a strategy possible; empty where none does.
std::vector<const FlagChange*> least_changes(const EstimateRequest& r, const std::vector<FlagChange>& all) {
  const auto is_enough = [&](std::initializer_list<const FlagChange*> changes) {
    return !possible_strategies(with(r, std::span(changes.begin(), changes.size())), true).empty();
  };
  for (const FlagChange& one : all)
    if (is_enough({&one})) return {&one};
  constexpr std::size_t kMostPairs = 24;  // of so many changes, the cheapest
  const std::size_t end = std::min(all.size(), kMostPairs);
  for (std::size_t second = 1; second < end; ++second)
    for (std::size_t first = 0; first < second; ++first)
      if (all[first].flag != all[second].flag && is_enough({&all[first], &all[second]}))
        return {&all[first], &all[second]};
  return fewest_left_out(r, all);
}

}  // namespace

std::optional<InputError> refusal_of(const EstimateRequest& request) {
  if (!possible_strategies(request, true).empty()) return std::nullopt;
  const std::vector<FlagChange> all = changes_of(request);
  std::vector<const FlagChange*> changes = least_changes(request, all);
  if (changes.empty()) return std::nullopt;
  const std::vector<std::string_view> possible = possible_strategies(with(request, changes));
  const std::vector<std::string_view> asked =
      request.strategy == "auto" ? possible : std::vector<std::string_view>{request.strategy};
  const auto was = usual_refusal(request, asked);
  if (!was) return std::nullopt;
  const auto decides = [&](const FlagChange* change) {  // without it there is another reason, or none
    const auto then = usual_refusal(with(request, std::span(&change, 1)), asked);
    return !then || then->why != was->why;
  };
  const bool is_of_strategy = std::ranges::none_of(changes, decides);
  std::ranges::stable_partition(
      changes, [&](const FlagChange* c) { return is_of_strategy ? c->flag == "--strategy" : decides(c); });
  std::string instead;
  for (const FlagChange* change : changes) instead += (instead.empty() ? "" : " and ") + change->words;
  if (was->why.ends_with(instead)) instead.clear();
  if (!was->rule.empty()) instead += fmt::format(" ({})", was->rule);
  return InputError(was->flag.empty() ? std::string(changes.front()->flag) : was->flag, was->why, instead);
}

}  // namespace gpuplan

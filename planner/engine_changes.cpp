#include "planner/engine_changes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/names.h"
#include "models/training_method.h"
#include "models/weights.h"
#include "planner/engine_gpus.h"
#include "planner/generation.h"

namespace gpuplan {
namespace {

/// Shares of a card that a search tries for an engine beside training: what trainers have as defaults, and more.
constexpr std::array kTriedShares{0.3, 0.5, 0.7};

std::string value_if(bool is_useful, std::string value) { return is_useful ? std::move(value) : std::string(); }

/// The engine of a method that generates; nullptr: nothing is generated.
const GenerationEngine* engine_of_question(const EstimateRequest& r) {
  if (!generates(r.recipe)) return nullptr;
  const RolloutConvention* const convention = rollout_convention(r.recipe.framework->name);
  if (!convention) return nullptr;
  return r.rollout.engine.engine ? &**r.rollout.engine.engine : &*convention->engine;
}

/// The engine as it is asked for, which then is named.
EngineChoice named_engine(const EstimateRequest& r, const GenerationEngine& engine) {
  EngineChoice choice = r.rollout.engine;
  choice.engine = engine;
  return choice;
}

bool is_beside_training(const EstimateRequest& r, const GenerationEngine* engine) {
  return engine && !engine->in_trainer && engine_place(r) != EnginePlace::Server;
}

bool has_server(const EstimateRequest& r, const GenerationEngine* engine) {
  return engine && !engine->in_trainer && engine_place(r) == EnginePlace::Server;
}

}  // namespace

std::string sleeping_engine(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!is_beside_training(r, engine) || !engine->can_sleep) return "";
  EngineChoice choice = named_engine(r, *engine);
  if (choice.sleeps.value_or(rollout_convention(r.recipe.framework->name)->sleeps)) return "";
  choice.sleeps = true;
  return to_text(choice);
}

std::string engine_with_less(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!is_beside_training(r, engine)) return "";
  EngineChoice choice = named_engine(r, *engine);
  const double now = choice.utilisation.value_or(rollout_convention(r.recipe.framework->name)->utilisation);
  constexpr double kLeast = 0.2;
  choice.utilisation = now / 2;
  return value_if(now / 2 >= kLeast / 2 && now > kLeast, to_text(choice));
}

namespace {

/// A larger share helps where the weights leave no room for a sequence's cache in what is reserved.
std::string engine_with_more(const EstimateRequest& r, double factor) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!is_beside_training(r, engine)) return "";
  EngineChoice choice = named_engine(r, *engine);
  const double now = choice.utilisation.value_or(rollout_convention(r.recipe.framework->name)->utilisation);
  constexpr double kMost = 0.9;
  choice.utilisation = std::round(100 * now * factor) / 100;
  return value_if(*choice.utilisation <= kMost, to_text(choice));
}

}  // namespace

namespace {

/// More GPUs share the layers of an engine, inside a machine: each holds less of them.
std::string engine_over(const EstimateRequest& r, std::int64_t factor) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!engine || engine->in_trainer) return "";
  EngineChoice choice = named_engine(r, *engine);
  const bool is_server = engine_place(r) == EnginePlace::Server;
  const std::int64_t usual = is_server ? 1 : rollout_convention(r.recipe.framework->name)->tp;
  EngineSetup setup{.engine = engine};
  setup.num_gpus = is_server && choice.gpus > 0 ? choice.gpus : r.cluster.num_gpus();
  setup.tp = choice.tp = factor * (choice.tp > 0 ? choice.tp : usual);
  return value_if(setup.tp <= r.cluster.gpus_per_node && why_no_engine(r.model, setup).empty(), to_text(choice));
}

}  // namespace

std::string engine_over_twice(const EstimateRequest& r) { return engine_over(r, 2); }
std::string engine_over_four_times(const EstimateRequest& r) { return engine_over(r, 4); }
std::string engine_with_half_more(const EstimateRequest& r) { return engine_with_more(r, 1.5); }
std::string engine_with_twice(const EstimateRequest& r) { return engine_with_more(r, 2); }

std::string synced_adapter(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!engine || engine->in_trainer || !r.recipe.is_adapter() || r.rollout.engine.syncs_adapter) return "";
  EngineChoice choice = named_engine(r, *engine);
  choice.syncs_adapter = true;
  return to_text(choice);
}

/// An engine with graphs and a pool in the place of the trainer's own module.
std::string own_engine(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!engine || !engine->in_trainer) return "";
  for (const GenerationEngine& other : generation_engines())
    if (!other.in_trainer && other.can_sleep)
      return value_if(
          why_not_started(*rollout_convention(r.recipe.framework->name), other, r.recipe.objective.method->name)
              .empty(),
          other.name + ":sleep=yes");
  return "";
}

FreeValues free_engine(const EstimateRequest& r) {
  FreeValues out;
  const std::string own = own_engine(r);
  if (own.empty() || r.cluster.gpus.empty()) return out;
  const RolloutConvention& trainer = *rollout_convention(r.recipe.framework->name);
  EngineChoice choice = parse_engine(own);
  EngineSetup setup{.engine = &**choice.engine};
  const std::int64_t in_all = r.cluster.num_gpus(), most = std::min(r.cluster.gpus_per_node, in_all);
  const auto each_group = [&](std::int64_t gpus, auto use) {
    setup.num_gpus = gpus;
    for (std::int64_t tp = 1; tp <= std::min(most, gpus); tp *= 2) {
      setup.tp = tp, choice.tp = tp > 1 ? tp : 0;
      if (gpus % tp == 0 && why_no_engine(r.model, setup).empty()) use();
    }
  };
  const auto has = [&](EnginePlace place) { return std::ranges::count(trainer.places, place) > 0; };
  if (has(EnginePlace::Colocate))
    each_group(in_all, [&] {
      for (const double share : kTriedShares) choice.utilisation = share, out.values.push_back(to_text(choice));
    });
  choice = parse_engine(setup.engine->name + ":server");
  if (!has(EnginePlace::Server) || r.cluster.is_mixed()) return out;
  for (const std::int64_t gpus : {in_all / 4, in_all / 2, in_all - in_all / 4})
    if (gpus > 0 && gpus < in_all && choice.gpus != gpus) {
      choice.gpus = gpus;
      each_group(gpus, [&] { out.values.push_back(to_text(choice)); });
    }
  return out;
}

std::vector<std::string_view> tried_engine(const EstimateRequest& r) {
  static const auto colocated = [](std::string_view words) {
    const auto row = std::ranges::find_if(generation_engines(), [](const GenerationEngine& e) { return e.can_sleep; });
    return row == generation_engines().end() ? "" : fmt::format("{}:colocate,{},sleep=yes", row->name, words);
  };
  static const std::string kSmallShare = colocated("util=0.3"), kDivided = colocated("util=0.4,tp=4");
  const GenerationEngine* const engine = engine_of_question(r);
  if (!engine || !engine->in_trainer || kSmallShare.empty()) return {};
  const std::vector<EnginePlace>& places = rollout_convention(r.recipe.framework->name)->places;
  if (std::ranges::count(places, EnginePlace::Colocate) == 0) return {};
  const GenerationEngine& other = **parse_engine(kSmallShare).engine;
  if (!why_not_started(*rollout_convention(r.recipe.framework->name), other, r.recipe.objective.method->name).empty())
    return {};
  return {engine->name, kSmallShare, kDivided};
}

/// The next answers are written while these train: they are of the weights one step before.
std::string lagging_engine(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!has_server(r, engine) || writes_ahead(r)) return "";
  EngineChoice choice = named_engine(r, *engine);
  choice.is_async = true;
  return to_text(choice);
}

std::string wider_engine(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!has_server(r, engine)) return "";
  EngineChoice choice = named_engine(r, *engine);
  const std::int64_t that_train = r.cluster.num_gpus(), own = engine_gpus(r, that_train);
  choice.gpus = own + that_train / 2;  // of as many in all
  return value_if(that_train % 2 == 0 && choice.gpus % std::max<std::int64_t>(1, choice.tp) == 0, to_text(choice));
}

std::string narrower_engine(const EstimateRequest& r) {
  const GenerationEngine* const engine = engine_of_question(r);
  if (!has_server(r, engine)) return "";
  EngineChoice choice = named_engine(r, *engine);
  const std::int64_t own = engine_gpus(r, r.cluster.num_gpus());
  choice.gpus = own / 2;
  return value_if(own % 2 == 0 && choice.gpus % std::max<std::int64_t>(1, choice.tp) == 0, to_text(choice));
}

/// Answers cut at twice their mean, where few are longer: the last ones keep a step waiting.
std::string shorter_tail(const EstimateRequest& r) {
  const std::int64_t mean = r.rollout.mean_completion, cut = 2 * mean;
  return value_if(generates(r.recipe) && mean > 0 && cut < r.rollout.max_completion, fmt::format("{},{}", mean, cut));
}

void set_answers(Variant& v, const Setting& s) {
  EstimateRequest& r = v.request;
  const std::string_view value = s.value;
  const std::size_t comma = value.find(',');
  if (comma != std::string_view::npos)
    r.rollout.mean_completion = parse_integer(value.substr(0, comma), "--completion-len", 1, kMostSeqLen);
  const std::string_view most = comma == std::string_view::npos ? value : value.substr(comma + 1);
  r.rollout.max_completion = parse_integer(most, "--completion-len", 1, kMostSeqLen);
  r.recipe.objective.completion_len = r.rollout.max_completion;
  r.recipe.seq_len = r.rollout.prompt_len + r.rollout.max_completion;
}

}  // namespace gpuplan

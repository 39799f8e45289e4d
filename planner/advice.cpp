#include "planner/advice.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

/// The question under the strategy that the advice is about.
Variant variant_with(const AdviceCase& c, std::initializer_list<NamedSetting> named) {
  std::vector<Setting> settings;
  for (const NamedSetting& one : named) settings.push_back(set_to(one.name, one.value));
  Variant variant{c.request, c.result.profile};
  variant.request.strategy = c.chosen.strategy.name;
  return changed(std::move(variant), settings);
}

}  // namespace

std::optional<StrategyEstimate> estimate_with(const AdviceCase& c, std::initializer_list<NamedSetting> settings) {
  const Variant variant = variant_with(c, settings);
  return estimate_variant(variant, variant.request.strategy);
}

Recipe recipe_with(const AdviceCase& c, std::initializer_list<NamedSetting> settings) {
  return variant_with(c, settings).request.recipe;
}

StateSizes rank_state(const AdviceCase& c, const Recipe& recipe) {
  return model_state(c.result.model, resolve_numerics(recipe, c.result.framework, c.chosen.strategy.engine), recipe,
                     size_rules(c.chosen.strategy, c.result.framework, c.result.model.spec, recipe));
}

StateSizes whole_state(const AdviceCase& c, const Recipe& recipe) {
  return model_state(c.result.model, resolve_numerics(recipe, c.result.framework, c.chosen.strategy.engine), recipe,
                     {});
}

Bytes trained_state(const StateSizes& s) { return s.trained + s.gradient + s.master + s.state + s.paged_state; }

double per_parameter(Bytes bytes, std::int64_t parameters) { return double(bytes.count) / double(parameters); }

std::string peak_and_step(const StrategyEstimate& e) {
  return fmt::format("{}, {}", format_bytes(peak_of(e)), format_duration(e.time.step));
}

namespace {

constexpr std::array kAdviceRows{&kSaversNotNeeded, &kCombinedSavers,    &kLargerBatch,   &kKeepGathered,
                                 &kEffectiveBatch,  &kGenerationCache,   &kQuantiseAlone, &kMixedPrecision,
                                 &kBf16Weights,     &kOptimizerVariants, &kZeroOrFsdp};

}  // namespace

std::span<const AdviceRow* const> advice_rows() { return kAdviceRows; }

std::vector<Advice> advise(const AdviceCase& c) {
  std::vector<Advice> out;
  for (const AdviceRow* row : kAdviceRows)
    if (row->applies(c)) out.push_back({row->name, row->title, row->lines(c)});
  return out;
}

}  // namespace gpuplan

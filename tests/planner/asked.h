// Questions as users ask them, of the catalogue, and the rows of their answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "cluster/gpu_list.h"
#include "models/catalogue.h"
#include "planner/changes.h"
#include "planner/estimate.h"

namespace gpuplan::test {

/// A model on cards; all else as without flags.
inline EstimateRequest asked(const char* model, const char* gpus, Method method = Method::Lora, std::int64_t rank = 8) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.method = method;
  r.recipe.lora.rank = rank, r.recipe.lora.alpha = 2 * double(rank);
  if (method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
  return r;
}

/// The same where nobody gave what planner/free_choice may choose, but for the rows of `given`.
inline EstimateRequest freely(EstimateRequest r, std::initializer_list<std::string_view> given = {}) {
  for (const Change& change : changes())
    if (std::ranges::find(given, change.name) == given.end()) r.not_given.rows.insert(std::string(change.name));
  r.not_given.are_chosen = true;
  return r;
}

inline const StrategyEstimate& row(const EstimateResult& result, std::string_view name) {
  return *std::find_if(result.strategies.begin(), result.strategies.end(),
                       [&](const auto& e) { return e.strategy.name == name; });
}

}  // namespace gpuplan::test

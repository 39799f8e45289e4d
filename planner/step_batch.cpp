#include "planner/step_batch.h"

#include <algorithm>
#include <cmath>

#include "models/training_method.h"

namespace gpuplan {
namespace {

std::int64_t passes_of(const EstimateRequest& r, std::int64_t before, std::int64_t now) {
  // a strategy of fewer ranks than share a sequence has no replica, and is refused elsewhere
  if (!generates(r.recipe) || before == now || now == 0) return r.recipe.grad_accum;
  return std::max<std::int64_t>(1, (r.recipe.grad_accum * before + now - 1) / now);
}

}  // namespace

std::int64_t passes_under(const EstimateRequest& r, const Strategy& strategy) {
  return generates(r.recipe) ? passes_of(r, batch_replicas(r), strategy.mesh.batch_replicas()) : r.recipe.grad_accum;
}

void set_strategy_of_batch(EstimateRequest& r, const std::string& strategy) {
  const std::int64_t before = generates(r.recipe) ? batch_replicas(r) : 1;
  r.strategy = strategy;
  if (generates(r.recipe)) r.recipe.grad_accum = passes_of(r, before, batch_replicas(r));
}

std::int64_t steps_of_generation(std::int64_t answers, std::int64_t of_step) {
  return std::max<std::int64_t>(1, std::llround(double(answers) / double(of_step)));
}

}  // namespace gpuplan

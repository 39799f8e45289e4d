#include "planner/job_metrics.h"

#include <algorithm>
#include <cmath>

#include "planner/limits.h"

namespace gpuplan {
namespace {

/// Packing fills sequences; otherwise every row takes one.
double sequences_of(const Dataset& data, const Recipe& recipe) {
  if (recipe.packing != Packing::Packed) return double(data.rows);
  const std::int64_t per_row = data.tokens_per_row > 0 ? data.tokens_per_row : recipe.seq_len;
  return std::ceil(double(data.rows) * double(per_row) / double(recipe.seq_len));
}

}  // namespace

RunFigures job_metrics(const EstimateRequest& r, const TrainedModel& model, const Strategy& strategy, Seconds step,
                       FlopsPerSec peak) {
  RunFigures f;
  f.global_batch = r.recipe.micro_batch * r.recipe.grad_accum * strategy.mesh.data_parallel();
  f.tokens_per_second = double(f.global_batch) * double(r.recipe.seq_len) / step.value;
  f.mfu = model_flops(r, model, f.global_batch) / (step.value * peak.value);
  f.steps_per_epoch = std::int64_t(std::ceil(sequences_of(r.dataset, r.recipe) / double(f.global_batch)));
  f.epoch = double(f.steps_per_epoch) * step;
  f.total = r.dataset.epochs * f.epoch;
  const auto price = r.price_per_gpu_hour ? r.price_per_gpu_hour : r.cluster.price_per_gpu_hour;
  if (price) f.cost_usd = *price * double(strategy.mesh.world()) * f.total.value / 3600.0;
  return f;
}

}  // namespace gpuplan

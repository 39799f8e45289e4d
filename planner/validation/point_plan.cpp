#include "planner/validation/point_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/limits.h"

namespace gpuplan {
namespace {

constexpr double kUnknownCapacityGib = 1 << 14;  // of a GPU that the point does not name: nothing is refused

Bytes gib(double amount) { return {std::int64_t(amount * 0x1p30)}; }

bool is_known_framework(const std::string& name) {
  try {
    find_framework(name);
    return true;
  } catch (const InputError&) { return false; }
}

}  // namespace

std::string strategy_of(const Point& point) {
  for (const auto& [axis, degree] : point.degrees)
    if (degree > 1) throw InputError("", fmt::format("{} of degree {}", axis, degree));
  if (point.strategy.empty()) throw InputError("", "the strategy is not stated");
  try {
    return canonical_strategy(point.strategy);
  } catch (const InputError&) { throw InputError("", fmt::format("strategy '{}'", point.strategy)); }
}

/// One machine or nodes with this GPU; the capacity that the point states wins.
ClusterSpec PointPlanner::cluster_of(const Point& point) {
  ClusterSpec cluster;
  GpuSpec gpu;
  if (point.gpu.empty()) {
    gpu.id = gpu.name = "unnamed";
    gpu.framework_memory = gib(kUnknownCapacityGib);
  } else {
    const auto alias = aliases_.gpus.find(point.gpu);
    const std::string& id = alias == aliases_.gpus.end() ? point.gpu : alias->second.gpu;
    if (!gpus_.contains(id)) gpus_.emplace(id, find_gpu(id, nullptr));
    gpu = gpus_.at(id);
    if (alias != aliases_.gpus.end() && alias->second.memory_gib) gpu.framework_memory = gib(*alias->second.memory_gib);
  }
  if (point.memory.capacity_gib) gpu.framework_memory = gib(*point.memory.capacity_gib);
  cluster.name = gpu.name;
  cluster.gpus.assign(std::size_t(point.num_gpus), gpu);
  cluster.gpus_per_node = std::min<std::int64_t>(8, point.num_gpus);
  return cluster;
}

PointPlan PointPlanner::plan(const Point& point) {
  PointPlan out;
  EstimateRequest& r = out.request;
  try {
    r.strategy = strategy_of(point);
    r.model = model_of(point);
    const FrameworkAlias& framework = framework_of(point, aliases_);
    r.recipe = recipe_of(point, r.model, framework, aliases_);
    if (!framework.until_then.empty() && !is_known_framework(framework.record)) r.recipe.framework = framework.until_then;
    r.options.fsdp_version = framework.fsdp_version;
    r.cluster = cluster_of(point);
    const Strategy strategy = make_strategy(r.strategy, r.cluster, r.options);
    if (!strategy.layout.shards_weights) r.recipe.offload.params = OffloadTarget::None;  // whole weights stay on the GPU
    validate_recipe(r.recipe, r.model, r.cluster);
    out.unsupported = why_not_applicable(strategy, r.cluster, r.recipe, r.model);
  } catch (const InputError& error) {
    out.unsupported = error.where().empty() ? error.problem() : fmt::format("{}: {}", error.where(), error.problem());
  }
  return out;
}

}  // namespace gpuplan

#include "planner/engine_gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "models/training_method.h"

namespace gpuplan {

EnginePlace engine_place(const EstimateRequest& request) {
  const RolloutConvention* const trainer = rollout_convention(request.recipe.framework->name);
  const EngineChoice& engine = request.rollout.engine;
  const bool gives_way =  // to what trains beside it
      engine.sleeps.value_or(false) || engine.offloads.value_or(TrainerOffload::No) != TrainerOffload::No;
  const EnginePlace usual = trainer && !gives_way ? trainer->places.front() : EnginePlace::Colocate;
  return engine.place.value_or(usual);
}

bool writes_ahead(const EstimateRequest& request) {
  if (request.rollout.engine.is_async || !has_engine_apart(request)) return request.rollout.engine.is_async;
  const RolloutConvention* const trainer = rollout_convention(request.recipe.framework->name);
  return trainer && trainer->lags;
}

bool has_engine_apart(const EstimateRequest& request) {
  return generates(request.recipe) && engine_place(request) == EnginePlace::Server;
}

std::int64_t engine_gpus(const EstimateRequest& request, std::int64_t that_train) {
  if (!has_engine_apart(request)) return 0;
  return request.rollout.engine.gpus > 0 ? request.rollout.engine.gpus : that_train;
}

std::int64_t engine_gpus(const EstimateRequest& request, const Mesh& mesh) {
  return engine_gpus(request, mesh.world());
}

std::int64_t num_gpus_in_all(const EstimateRequest& request) {
  const std::int64_t that_train = request.cluster.num_gpus();
  return that_train + engine_gpus(request, that_train);
}

ClusterSpec whole_cluster(const EstimateRequest& request) {
  ClusterSpec whole = resized(request.cluster, num_gpus_in_all(request));
  whole.price_per_gpu_hour = request.cluster.price_per_gpu_hour;
  return whole;
}

std::vector<std::int64_t> divisions_of(const EstimateRequest& request, std::int64_t in_all) {
  const EngineChoice& engine = request.rollout.engine;
  if (engine.gpus > 0) return engine.gpus < in_all ? std::vector{engine.gpus} : std::vector<std::int64_t>{};
  const std::int64_t tp = std::max<std::int64_t>(1, engine.tp);
  std::vector<std::int64_t> out;
  for (const std::int64_t gpus : {in_all / 2, in_all / 4, in_all - in_all / 4, in_all / 8}) {
    const std::int64_t own = std::max(tp, gpus / tp * tp);
    if (own < in_all && std::ranges::count(out, own) == 0) out.push_back(own);
  }
  return out;
}

void divide_gpus(EstimateRequest& request, std::int64_t in_all) {
  EngineChoice& engine = request.rollout.engine;
  std::int64_t that_train = in_all;
  if (has_engine_apart(request)) {
    const std::int64_t tp = std::max<std::int64_t>(1, engine.tp);
    const std::int64_t own = engine.gpus > 0 ? engine.gpus : std::max(tp, in_all / 2 / tp * tp);
    if (own >= in_all)
      throw InputError("--gpus",
                       fmt::format("{} GPU{} in all, {} of which the engine has for itself, leave{} none that trains",
                                   in_all, in_all == 1 ? "" : "s", std::min(own, in_all), in_all == 1 ? "s" : ""),
                       fmt::format("--gpus with {} or more, or fewer for the engine: --rollout-engine "
                                   "vllm:server,gpus=N",
                                   own + 1));
    that_train = in_all - own;
    if (own != that_train) engine.gpus = own;
  }
  if (that_train == request.cluster.num_gpus()) return;
  const auto price = request.cluster.price_per_gpu_hour;
  request.cluster = resized(request.cluster, that_train);
  if (that_train < in_all) request.cluster.price_per_gpu_hour = price;
}

}  // namespace gpuplan

#include "search/engine_division.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/engine_gpus.h"

namespace gpuplan {
namespace {

/// "--rollout-engine vllm:server,gpus=4 "; empty where nobody needs to say it.
std::string flag_of(const EstimateRequest& r) {
  EngineChoice engine = r.rollout.engine;
  if (engine == EngineChoice{}) return {};
  if (!engine.engine) engine.engine = *rollout_convention(r.recipe.framework->name)->engine;
  return fmt::format("--rollout-engine {} ", to_text(engine));
}

}  // namespace

bool divides_gpus(const EstimateRequest& request) {
  return has_engine_apart(request) && request.rollout.engine.gpus == 0;
}

std::vector<Hardware> divided(const SearchQuestion& question) {
  if (!has_engine_apart(question.base)) return question.machines;
  const bool is_open = divides_gpus(question.base);
  std::vector<Hardware> out;
  for (const Hardware& whole : question.machines)
    for (const std::int64_t own : divisions_of(question.base, whole.cluster.num_gpus())) {
      EstimateRequest r = question.base;
      r.cluster = whole.cluster;
      r.rollout.engine.gpus = own;
      divide_gpus(r, whole.cluster.num_gpus());
      Hardware& machine = out.emplace_back(whole);
      machine.cluster = std::move(r.cluster);
      machine.engine_gpus = own;
      if (!is_open) continue;
      if (own == machine.cluster.num_gpus()) r.rollout.engine.gpus = 0;
      machine.flags = flag_of(r) + machine.flags;
    }
  if (out.empty())
    throw InputError("--gpus", "the engine has GPUs of its own, and no machine has enough for it and the trainer",
                     "more GPUs, or --rollout-engine vllm:colocate where the trainer has it");
  return out;
}

}  // namespace gpuplan

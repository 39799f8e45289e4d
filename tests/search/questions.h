// Small questions for the tests of the search.
#pragma once

#include "cluster/profile/profile.h"
#include "models/catalogue.h"
#include "search/space.h"

namespace gpuplan::test {

inline Hardware machine(const std::string& gpus, std::optional<double> usd_per_gpu_hour = {}) {
  const ClusterSpec cluster = parse_gpus(gpus);
  return own_machine(cluster, default_profile(cluster.gpus.front()), "--gpus " + gpus, usd_per_gpu_hour);
}

/// LoRA on the given machines, with the knobs that are not `pinned` free.
inline SearchQuestion question(const std::string& model, const std::vector<std::string>& machines,
                               std::set<std::string> pinned = {"packing", "attention", "compile"}) {
  SearchQuestion q;
  q.base.model = load_model(model).spec;
  q.base.recipe.method = Method::Lora;
  q.base.dataset = {.rows = 20'000, .tokens_per_row = 1024, .epochs = 1};
  q.methods = {Method::Lora};
  q.pinned = std::move(pinned);
  q.global_batch = 16;
  for (const std::string& gpus : machines) q.machines.push_back(machine(gpus));
  return q;
}

}  // namespace gpuplan::test

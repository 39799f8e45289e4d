#include "planner/step_inputs.h"

#include <algorithm>

namespace gpuplan {

StepColumns make_columns(const EstimateRequest& r, const Strategy& strategy, const FrameworkConvention& framework,
                         const Profile& profile, const DtypePolicy& numerics) {
  StepColumns out;
  std::vector<std::string> seen;
  const auto profile_of_kind = [&](const GpuSpec& gpu) {
    if (gpu.id == r.cluster.gpus.front().id) return profile;
    Profile other = default_profile(gpu);
    other.pace = profile.pace;
    return other;
  };
  const auto column = [&](const GpuSpec& gpu) {
    const auto at = std::find(seen.begin(), seen.end(), gpu.id);
    if (at != seen.end()) return std::size_t(at - seen.begin());
    seen.push_back(gpu.id);
    out.models.push_back(make_cost_model(gpu, profile_of_kind(gpu),
                                         {.dtype = numerics.compute,
                                          .is_fp8 = r.recipe.fp8_matmul,
                                          .launches_few = framework.is_handwritten || r.recipe.torch_compile,
                                          .kernel_times = framework.kernel_times,
                                          .learns_from_runs = framework.learns_from_runs,
                                          .num_ranks = strategy.mesh.world(),
                                          .ranks_per_node = r.cluster.ranks_per_node(strategy.mesh.world()),
                                          .host_cores = r.cluster.host_cores,
                                          .ranks_at_once = r.cluster.ranks_per_node(strategy.mesh.data_parallel())}));
    return out.models.size() - 1;
  };
  const std::int64_t n = strategy.mesh.world();
  for (std::int64_t i = 0; i < n; ++i) out.own_of_rank.push_back(column(r.cluster.gpus[std::size_t(i)]));
  out.of_rank = out.own_of_rank;
  if (strategy.mesh.pp > 1) return out;  // a pipeline: every stage at its own speed
  std::size_t slowest = 0;
  for (std::size_t c = 0; c < out.models.size(); ++c)
    if (out.models[c].gemm < out.models[slowest].gemm) slowest = c;
  out.of_rank.assign(std::size_t(n), slowest);
  return out;
}

CommModel make_step_comm(const EstimateRequest& r, const Strategy& strategy, const FrameworkConvention& framework,
                         const Profile& profile) {
  CommModel comm = make_comm_model(r.cluster, profile, strategy.mesh);
  comm.cpu_optimizer = host_optimizer_rate(profile, framework, strategy.engine);
  return comm;
}

FlopsPerSec total_peak(const StepColumns& columns) {
  FlopsPerSec sum;
  for (const std::size_t c : columns.own_of_rank) sum += columns.models[c].peak;
  return sum;
}

}  // namespace gpuplan

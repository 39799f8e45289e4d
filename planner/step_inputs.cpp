#include "planner/step_inputs.h"

#include <algorithm>

namespace gpuplan {

StepColumns make_columns(const Job& job) {
  const ClusterSpec& cluster = job.cluster();
  const Mesh& mesh = job.strategy.mesh;
  StepColumns out;
  std::vector<std::string> seen;
  const auto column = [&](const GpuSpec& gpu) {
    const auto at = std::find(seen.begin(), seen.end(), gpu.id);
    if (at != seen.end()) return std::size_t(at - seen.begin());
    seen.push_back(gpu.id);
    const ComputeKind compute{.dtype = job.numerics.compute,
                              .is_fp8 = job.recipe().fp8_matmul,
                              .is_compiled = job.recipe().torch_compile,
                              .is_handwritten = job.framework.layers.is_handwritten,
                              .kernel_times = job.framework.layers.kernel_times,
                              .framework = job.framework.name,
                              .num_ranks = mesh.world(),
                              .ranks_per_node = cluster.ranks_per_node(mesh.world()),
                              .host_cores = cluster.host_cores,
                              .ranks_at_once = cluster.ranks_per_node(mesh.ranks_per_stage()),
                              .ranks_in_step = job.rules.gathers() ? mesh.ranks_per_stage() : 1};
    const bool is_first = gpu.id == cluster.gpus.front().id;
    out.models.push_back(is_first ? make_cost_model(gpu, job.profile, compute)
                                  : make_cost_model(gpu, default_profile(gpu), compute));
    return out.models.size() - 1;
  };
  const std::int64_t n = mesh.world();
  while (std::ssize(out.own_of_rank) < n) {
    const std::size_t rank = out.own_of_rank.size(), end = std::min(std::size_t(n), cluster.gpus.behind(rank));
    out.own_of_rank.resize(end, column(cluster.gpus[rank]));
  }
  out.of_rank = out.own_of_rank;
  if (mesh.num_stages() > 1) return out;  // a pipeline: every stage at its own speed
  std::size_t slowest = 0;
  for (std::size_t c = 0; c < out.models.size(); ++c)
    if (out.models[c].gemm < out.models[slowest].gemm) slowest = c;
  out.of_rank.assign(std::size_t(n), slowest);
  return out;
}

CommModel make_step_comm(const Job& job) {
  CommModel comm = make_comm_model(job.cluster(), job.profile, job.strategy.mesh);
  const ClusterSpec& cluster = job.cluster();
  const bool is_cpu = cluster.gpus.front().is_cpu;  // rates of CPU ranks are those of a rank beside the others
  comm.cpu_optimizer = host_optimizer_rate(job.profile, job.framework, job.strategy.engine, cluster.host,
                                           is_cpu ? 1 : cluster.ranks_per_node(job.strategy.mesh.ranks_per_stage()));
  return comm;
}

FlopsPerSec total_peak(const StepColumns& columns) {
  FlopsPerSec sum;
  for (const std::size_t c : columns.own_of_rank) sum += columns.models[c].peak;
  return sum;
}

}  // namespace gpuplan

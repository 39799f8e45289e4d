#include "sim/folding.h"

#include <algorithm>
#include <numeric>

#include "base/narrow.h"
#include "cluster/topology_builder.h"
#include "sim/activity.h"

namespace gpuplan {
namespace {

/// After how many ranks everything repeats; 0: never.
std::int64_t period_of(const SimInput& input, const SimOptions& options) {
  const Mesh& mesh = input.program.mesh;
  const ClusterSpec& cluster = input.job.request.cluster;
  const std::int64_t ranks = mesh.ranks_per_stage(), per_node = cluster.gpus_per_node;
  const bool is_disturbed = options.jitter > 0 || !options.stragglers.empty() || cluster.is_mixed();
  if (!options.folds || is_disturbed || ranks <= 1) return 0;
  if (options.network == NetworkFidelity::Analytic) return 1;
  const bool fills_nodes = ranks % per_node == 0;
  if (ranks > per_node && !fills_nodes) return 0;
  // a group and those inside it fill machines, or a machine holds several of them
  const auto fits = [&](const AxisRow& row) {
    const std::int64_t span = mesh.stride(row.axis) * mesh.ways(row.axis);
    return row.is_pipeline || mesh.ways(row.axis) == 1 || per_node % span == 0 || span % per_node == 0;
  };
  if (!std::all_of(kAxes.begin(), kAxes.end(), fits) || (mesh.num_stages() > 1 && !fills_nodes)) return 0;
  // Copies of all GPUs of a machine share its memory, so none of them may be left out.
  const auto copies = [&](const RankProgram& p) {
    return std::any_of(p.instructions.begin(), p.instructions.end(),
                       [](const Instruction& i) { return i.op == OpCode::CopyIn || i.op == OpCode::CopyOut; });
  };
  const bool uses_host =
      std::any_of(input.program.programs.begin(),
                  input.program.programs.begin() + std::ptrdiff_t(input.program.num_programs), copies);
  const Topology machine = build_topology(
      cluster, input.job.profile, {.node_stands_for = std::vector<std::int32_t>(std::size_t(cluster.num_nodes()), 0)});
  if (!machine.are_machines_alike && ranks > per_node) return 0;
  if (machine.is_rank_symmetric && !uses_host) return 1;
  return ranks > per_node ? per_node : 0;
}

/// Members of the group of `rank` along `axis`, in the order of their numbers.
std::vector<std::int64_t> group_of(const Mesh& mesh, Axis axis, std::int64_t rank) {
  const std::int64_t stride = mesh.stride(axis), ways = mesh.ways(axis);
  const std::int64_t first = rank - mesh.place(rank, axis) * stride;
  std::vector<std::int64_t> out(std::size_t(ways), first);
  for (std::int64_t i = 0; i < ways; ++i) out[std::size_t(i)] += i * stride;
  return out;
}

}  // namespace

Folding fold_ranks(const SimInput& input, const SimOptions& options) {
  const Mesh& mesh = input.program.mesh;
  const ClusterSpec& cluster = input.job.request.cluster;
  const std::int64_t world = mesh.world(), per_stage = mesh.ranks_per_stage();
  const std::int64_t period = period_of(input, options);
  Folding out;
  out.representative.resize(std::size_t(world));
  for (std::int64_t r = 0; r < world; ++r) {
    const std::int64_t within = r % per_stage;
    if (period > 0 && within >= period) {
      const std::int64_t kept = r - within + within % period;
      out.representative[std::size_t(r)] = out.representative[std::size_t(kept)];
      ++out.stands_for[out.representative[std::size_t(r)]];
      continue;
    }
    out.representative[std::size_t(r)] = narrow<std::uint32_t>(out.ranks.size());
    out.ranks.push_back(r);
    out.stands_for.push_back(1);
  }
  if (period == 0) return out;
  out.topology.one_gpu_per_node = period == 1;
  const std::int64_t nodes = cluster.num_nodes(),
                     nodes_per_stage = std::max<std::int64_t>(1, per_stage / cluster.gpus_per_node);
  for (std::int64_t node = 0; node < nodes; ++node)
    out.topology.node_stands_for.push_back(
        narrow<std::int32_t>(std::min(node / nodes_per_stage, mesh.num_stages() - 1)));
  return out;
}

Communicators make_communicators(const SimInput& input, const Folding& folding, const Topology* topology) {
  const Mesh& mesh = input.program.mesh;
  Communicators out;
  out.of_rank.resize(folding.ranks.size());
  for (const AxisRow& row : kAxes) {
    const Axis axis = row.axis;
    if (row.is_pipeline || mesh.ways(axis) <= 1) continue;
    std::vector<bool> is_placed(folding.ranks.size());
    for (std::size_t k = 0; k < folding.ranks.size(); ++k) {
      if (is_placed[k]) continue;
      std::vector<std::int64_t> group = group_of(mesh, axis, folding.ranks[k]);
      CommGroup c{.axis = axis,
                  .size = std::int64_t(group.size()),
                  .ranks = {},
                  .next = {},
                  .next_member = {},
                  .shape = input.comm.axes[std::size_t(axis)].group.shape};
      if (topology) group = topology->ring_order(group);
      std::vector<std::uint32_t> member_of(folding.ranks.size(), 0);
      for (std::size_t i = 0; i < group.size(); ++i) {
        const std::uint32_t at = folding.representative[std::size_t(group[i])];
        if (folding.ranks[at] != group[i] || is_placed[at]) continue;
        is_placed[at] = true;
        member_of[at] = narrow<std::uint32_t>(c.ranks.size());
        out.of_rank[at][std::size_t(axis)] = {narrow<std::uint32_t>(out.all.size()), member_of[at]};
        c.ranks.push_back(group[i]);
        c.next.push_back(group[(i + 1) % group.size()]);
      }
      for (const std::int64_t next : c.next)
        c.next_member.push_back(member_of[folding.representative[std::size_t(next)]]);
      out.all.push_back(std::move(c));
    }
  }
  return out;
}

}  // namespace gpuplan

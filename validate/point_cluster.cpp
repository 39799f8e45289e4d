// The machines of a point: GPUs of the catalogue, links and network as the point states them or as such GPUs usually
// have.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_file.h"
#include "cluster/machine.h"
#include "validate/point_plan.h"

namespace gpuplan {
namespace {

Bytes gib(double amount) { return {std::int64_t(amount * 0x1p30)}; }
BytesPerSec gbit(double rate) { return {rate * 1e9 / 8}; }

struct LinkRow {
  std::string_view kind;
  FabricKind with_p2p, without;
};
constexpr std::array kLinks{LinkRow{"nvswitch", FabricKind::NvSwitch, FabricKind::NvSwitch},
                            LinkRow{"nvlink", FabricKind::NvLinkMesh, FabricKind::NvLinkMesh},
                            LinkRow{"nvlink_bridge", FabricKind::NvLinkBridge, FabricKind::NvLinkBridge},
                            LinkRow{"pcie", FabricKind::Pcie, FabricKind::PcieHostStaged}};

FabricKind fabric_of(const PointLink& link, const GpuSpec& gpu) {
  for (const LinkRow& row : kLinks)
    if (row.kind == link.kind) return link.has_p2p.value_or(gpu.has_p2p_over_pcie) ? row.with_p2p : row.without;
  throw InputError("", fmt::format("link '{}'", link.kind));
}

/// Everything that makes two points' machines different.
std::string key_of(const std::string& gpu, const Point& p) {
  const PointLink link = p.link.value_or(PointLink{});
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", gpu, p.num_gpus, p.gpus_per_node.value_or(0), link.kind,
                     link.generation.value_or(0), link.has_p2p ? (*link.has_p2p ? 1 : 0) : -1, p.network, p.slots);
}

Machine machine_of(const Point& p, const GpuFile& gpu, const AliasTable& aliases) {
  Machine m{.kinds = {gpu}, .kind_of_rank = std::vector<std::size_t>(std::size_t(p.num_gpus), 0)};
  // sources count the GPUs of a host, also where the fabric goes on to others
  const std::int64_t stated =
      gpu.machine.spans_hosts ? gpu.machine.gpus_per_node : p.gpus_per_node.value_or(gpu.machine.gpus_per_node);
  m.gpus_per_node = std::min(stated, p.num_gpus);
  m.fabric = gpu.machine.fabric;
  m.nic_per_gpu = gpu.machine.nic_per_gpu;
  if (p.link) {
    m.fabric = fabric_of(*p.link, gpu.spec);
    if (m.fabric == FabricKind::Pcie || m.fabric == FabricKind::PcieHostStaged) m.pcie_generation = p.link->generation;
  }
  for (const auto& [text, slots] : aliases.slots)
    if (p.slots.find(text) != std::string::npos) {
      m.pcie_generation = std::max<std::int64_t>(1, gpu.spec.pcie_generation - slots.generations_back);
      m.pcie_lanes = std::llround(double(gpu.spec.pcie_lanes) * slots.share_of_lanes);
    }
  if (const auto network = aliases.networks.find(p.network); network != aliases.networks.end())
    m.nic_per_gpu = gbit(network->second.gbit_per_gpu > 0
                             ? network->second.gbit_per_gpu
                             : network->second.gbit_per_node /
                                   double(std::min(p.gpus_per_node.value_or(m.gpus_per_node), m.gpus_per_node)));
  return m;
}

}  // namespace

/// A point that names no GPU has an alias too: memory does not depend on the product, time does.
ClusterSpec PointPlanner::cluster_of(const Point& point) {
  if (point.gpu.empty() && point.kind == PointKind::Speed) throw InputError("", "the GPU is not stated");
  const auto alias = aliases_.gpus.find(point.gpu);
  const std::string id = alias == aliases_.gpus.end() ? resolve_gpu(point.gpu).id : alias->second.gpu;
  const std::string key = key_of(id, point);
  if (!clusters_.contains(key)) {
    if (!gpus_.contains(id)) gpus_.emplace(id, read_gpu_file(gpu_path(resolve_gpu(id).id)));
    clusters_.emplace(key, build_cluster(machine_of(point, gpus_.at(id), aliases_)));
  }
  ClusterSpec cluster = clusters_.at(key);
  cluster.name = id;
  auto capacity = point.memory.capacity_gib;
  if (!capacity && alias != aliases_.gpus.end()) capacity = alias->second.memory_gib;
  if (capacity) cluster.gpus.change_each([&](GpuSpec& gpu) { gpu.framework_memory = gib(*capacity); });
  return cluster;
}

}  // namespace gpuplan

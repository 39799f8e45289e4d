#include "cluster/cluster_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/yaml_file.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {
namespace {

/// The kinds of GPUs by the names the file calls them: the id, and "id #2" for a card that differs from the first of
/// its id.
struct NamedKinds {
  std::vector<std::pair<std::string, const GpuSpec*>> kinds;
  std::vector<std::string> of_rank;
};

std::string name_for(const NamedKinds& named, const GpuSpec& gpu) {
  const auto same = std::count_if(named.kinds.begin(), named.kinds.end(),
                                  [&](const auto& kind) { return kind.second->id == gpu.id; });
  return same == 0 ? gpu.id : fmt::format("{} #{}", gpu.id, same + 1);
}

NamedKinds name_kinds(const ClusterSpec& cluster) {
  NamedKinds named;
  for (std::size_t k = 0; k < cluster.gpus.kinds().size(); ++k) {
    const GpuSpec& gpu = cluster.gpus.kinds()[k];
    auto known =
        std::find_if(named.kinds.begin(), named.kinds.end(), [&](const auto& kind) { return *kind.second == gpu; });
    if (known == named.kinds.end()) known = named.kinds.insert(known, {name_for(named, gpu), &gpu});
    named.of_rank.insert(named.of_rank.end(), cluster.gpus.count_of(k), known->first);
  }
  return named;
}

/// Names of the GPUs of one machine, or of all where machines differ.
std::vector<std::string> listed(const NamedKinds& named, const ClusterSpec& cluster) {
  const auto per_node = std::size_t(cluster.gpus_per_node);
  bool are_alike = true;
  for (std::size_t rank = per_node; rank < named.of_rank.size(); ++rank)
    are_alike &= named.of_rank[rank] == named.of_rank[rank % per_node];
  std::vector<std::string> out = named.of_rank;
  if (are_alike) out.resize(std::min(per_node, out.size()));
  for (std::string& name : out) name = in_quotes(name);
  return out;
}

std::string gpus_text(const ClusterSpec& cluster) {
  const NamedKinds named = name_kinds(cluster);
  const auto names = listed(named, cluster);
  std::string out = named.kinds.size() == 1 ? fmt::format("gpu: {}\n", names.front())
                                            : fmt::format("gpus: [{}]\n", fmt::join(names, ", "));
  out += fmt::format("gpus_per_node: {}\n", cluster.gpus_per_node);
  if (cluster.num_gpus() != cluster.gpus_per_node) out += fmt::format("num_gpus: {}\n", cluster.num_gpus());
  std::string rows;
  for (const auto& kind : named.kinds) rows += gpu_spec_row(kind.first, *kind.second);
  return rows.empty() ? out : out + "gpu_specs:\n" + rows;
}

std::string link_text(const LinkCost& link) {
  return fmt::format("  busbw_gb_s: {}\n  all_reduce_busbw_gb_s: {}\n  latency_us: {}\n  source: {}\n",
                     in_gb_s(link.bandwidth), in_gb_s(link.all_reduce_bandwidth), in_us(link.latency),
                     in_quotes(link.source));
}

std::string intra_text(const ClusterSpec& cluster) {
  std::string out = fmt::format("intra:\n  fabric: {}\n  fabric_text: {}\n", to_string(cluster.fabric),
                                in_quotes(cluster.fabric_text));
  return cluster.intra.bandwidth.value > 0 ? out + link_text(cluster.intra) : out;
}

std::string host_text(const ClusterSpec& cluster) {
  std::string out = fmt::format("host:\n  link_gb_s: {}\n", in_gb_s(cluster.host_link));
  if (cluster.host_memory.count > 0) out += fmt::format("  memory_gib: {}\n", in_gib(cluster.host_memory));
  if (cluster.host_cores > 0) out += fmt::format("  cores: {}\n", cluster.host_cores);
  const HostSpec& host = cluster.host;
  if (!host.kind.empty()) return out + fmt::format("  kind: {}\n", host.kind);  // the rest stands in data/hosts.yaml
  if (host.memory_bandwidth.value > 0) out += fmt::format("  memory_gb_s: {}\n", in_gb_s(host.memory_bandwidth));
  if (host.cores > 0) out += fmt::format("  cpu_cores: {}\n", host.cores);
  if (host.usual_memory.count > 0) out += fmt::format("  usual_memory_gib: {}\n", in_gib(host.usual_memory));
  if (host.sockets > 0) out += fmt::format("  sockets: {}\n", host.sockets);
  if (host.numa_nodes > 0) out += fmt::format("  numa_nodes: {}\n", host.numa_nodes);
  if (!host.source.empty()) out += fmt::format("  source: {}\n", in_quotes(host.source));
  return out;
}

std::string inter_text(const ClusterSpec& cluster) {
  std::string out;
  if (cluster.inter.bandwidth.value > 0) out += link_text(cluster.inter);
  if (cluster.layout.leaf_nodes > 0) out += fmt::format("  leaf_nodes: {}\n", cluster.layout.leaf_nodes);
  if (cluster.layout.oversubscription != 1)
    out += fmt::format("  oversubscription: {}\n", decimal(cluster.layout.oversubscription));
  return out.empty() ? out : "inter:\n" + out;
}

std::string price_text(const ClusterSpec& cluster) {
  if (!cluster.price_per_gpu_hour) return "price_usd_h: null\n";
  return fmt::format("price_usd_gpu_h: {}\nprice_source: {}\n", decimal(*cluster.price_per_gpu_hour),
                     in_quotes(cluster.price_source));
}

std::string assumptions_text(const ClusterSpec& cluster) {
  std::string out;
  for (const std::string& text : cluster.assumptions) out += fmt::format("- {}\n", in_quotes(text));
  return out.empty() ? out : "assumptions:\n" + out;
}

std::string place_text(const DevicePlace& place) {
  std::vector<std::string> keys;
  if (!place.name.empty()) keys.push_back(fmt::format("name: {}", in_quotes(place.name)));
  if (place.bridge >= 0) keys.push_back(fmt::format("bridge: {}", place.bridge));
  if (place.pcie_switch >= 0) keys.push_back(fmt::format("switch: {}", place.pcie_switch));
  if (place.rate.value > 0) keys.push_back(fmt::format("gbit_s: {}", in_gbit_s(place.rate)));
  return fmt::format("  - {{{}}}\n", fmt::join(keys, ", "));
}

std::string places_text(const char* key, const std::vector<DevicePlace>& places) {
  std::string out;
  for (const DevicePlace& place : places) out += place_text(place);
  return out.empty() ? out : fmt::format("  {}:\n{}", key, out);
}

std::string switches_text(const NodeLayout& layout) {
  std::string out;
  for (const PcieSwitchPlace& place : layout.switches) {
    out += fmt::format("  - {{bridge: {}", place.bridge);
    if (place.parent >= 0) out += fmt::format(", above: {}", place.parent);
    if (place.uplink.value > 0) out += fmt::format(", uplink_gb_s: {}", in_gb_s(place.uplink));
    out += "}\n";
  }
  return out.empty() ? out : "  switches:\n" + out;
}

std::string nvlinks_text(const NodeLayout& layout) {
  std::string out;
  for (const DirectLink& link : layout.direct_links) {
    out += fmt::format("  - {{gpus: [{}, {}], links: {}", link.a, link.b, link.num_links);
    if (link.rate.value > 0) out += fmt::format(", busbw_gb_s: {}", in_gb_s(link.rate));
    out += "}\n";
  }
  return out.empty() ? out : "  nvlinks:\n" + out;
}

/// The lines of `layout:`, each indented by two; empty when nothing is stated and no socket of the host would place it.
std::string layout_keys_text(const ClusterSpec& cluster) {
  const NodeLayout& layout = cluster.layout;
  if (!layout.is_stated() && (!cluster.host.kind.empty() || cluster.host.sockets == 0)) return {};
  std::string out = fmt::format("  sockets: {}\n", layout.sockets);
  if (!layout.bridges.empty()) out += fmt::format("  host_bridges: [{}]\n", fmt::join(layout.bridges, ", "));
  out += switches_text(layout) + places_text("gpus", layout.gpus) + places_text("nics", layout.nics) +
         nvlinks_text(layout);
  if (layout.memory_bandwidth.value > 0) out += fmt::format("  memory_gb_s: {}\n", in_gb_s(layout.memory_bandwidth));
  if (layout.socket_link.value > 0) out += fmt::format("  socket_link_gb_s: {}\n", in_gb_s(layout.socket_link));
  if (layout.num_nvme > 0) out += fmt::format("  nvme: {}\n", layout.num_nvme);
  return out + fmt::format("  source: {}\n", in_quotes(layout.source));
}

}  // namespace

std::string cluster_file_text(const ClusterSpec& cluster) {
  const std::string layout = layout_keys_text(cluster);
  return fmt::format(
             "# Written by gpuplan, for --cluster. The keys are explained in data/clusters/README.md.\nname: {}\n",
             in_quotes(cluster.name)) +
         gpus_text(cluster) + intra_text(cluster) + host_text(cluster) + inter_text(cluster) +
         (layout.empty() ? "" : "layout:\n" + layout) + price_text(cluster) + assumptions_text(cluster);
}

}  // namespace gpuplan

// The cluster section of a plan file: every field, taken apart by name so that a new one does not compile without a
// key.
#include <algorithm>

#include <fmt/format.h>

#include "cluster/machine.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

using Json = FieldWriter::Json;

template <class Archive, class Gpu>
void list_gpu(Archive& f, Gpu& gpu) {
  auto& [id, name, vendor, architecture, compute_capability, form_factor, device_memory, framework_memory,
         memory_bandwidth, memory_share, fp32, tf32, fp16, bf16, fp8, gemm_fp32, gemm_fp16, gemm_bf16, sm_count,
         nvlink_per_direction, nvlink_kind, pcie_generation, pcie_lanes, has_p2p_over_pcie, is_plan_only, own_memory,
         collectives_memory, is_cpu, source] = gpu;
  f("id", id);
  f("name", name);
  f("vendor", vendor);
  f("architecture", architecture);
  f("compute_capability", compute_capability);
  f("form_factor", form_factor);
  f("device_memory_bytes", device_memory);
  f("framework_memory_bytes", framework_memory);
  f("memory_bandwidth_bytes_per_second", memory_bandwidth);
  std::optional<double> reached = memory_share > 0 ? std::optional(memory_share) : std::nullopt;
  f.optional("memory_share", reached, NumberRange{1e-6, 1});
  if constexpr (Archive::kReads) memory_share = reached.value_or(0);
  f("fp32_flops_per_second", fp32);
  f("tf32_flops_per_second", tf32);
  f("fp16_flops_per_second", fp16);
  f("bf16_flops_per_second", bf16);
  f("fp8_flops_per_second", fp8);
  f("gemm_fp32_flops_per_second", gemm_fp32);
  f("gemm_fp16_flops_per_second", gemm_fp16);
  f("gemm_bf16_flops_per_second", gemm_bf16);
  f("sm_count", sm_count, kCount);
  f("nvlink_per_direction_bytes_per_second", nvlink_per_direction);
  f("nvlink_kind", nvlink_kind);
  f("pcie_generation", pcie_generation, kCount);
  f("pcie_lanes", pcie_lanes, kCount);
  f("has_p2p_over_pcie", has_p2p_over_pcie);
  f("is_plan_only", is_plan_only);
  f("own_memory_bytes", own_memory);
  f("collectives_memory_bytes", collectives_memory);
  f("is_cpu", is_cpu);
  f("source", source);
}

template <class Archive, class Link>
void list_link(Archive& f, Link& link) {
  auto& [latency, bandwidth, all_reduce_bandwidth, source] = link;
  f("latency_seconds", latency);
  f("bandwidth_bytes_per_second", bandwidth);
  f("all_reduce_bandwidth_bytes_per_second", all_reduce_bandwidth);
  f("source", source);
}

Json gpu_runs(const RankGpus& gpus) {
  Json runs = Json::array();
  for (std::size_t kind = 0; kind < gpus.kinds().size(); ++kind) {
    FieldWriter fields;
    list_gpu(fields, gpus.kinds()[kind]);
    Json entry = fields.take();
    entry["count"] = gpus.count_of(kind);
    runs.push_back(std::move(entry));
  }
  return runs;
}

void read_gpus(Fields& in, RankGpus& gpus) {
  gpus.clear();
  const nlohmann::json* found = in.require("gpus");
  if (found && found->empty()) return in.report_type("gpus", "a list [...] of one or more", *found);
  for (Fields& f : in.list("gpus")) {
    GpuSpec gpu;
    std::int64_t count = 1;
    f("count", count, IntRange{1, kMostGpus});
    list_gpu(f, gpu);
    f.refuse_unknown();
    const std::int64_t room = kMostGpus - std::int64_t(gpus.size());
    if (count > room) f.report("count", fmt::format("makes more than {} GPUs", kMostGpus));
    gpus.add(gpu, std::size_t(std::min(count, room)));
  }
}

constexpr IntRange kIndex{-1, kMostDevices};

constexpr auto kListDevice = [](auto& f, auto& device) {
  auto& [bridge, pcie_switch, rate, name] = device;
  f("bridge", bridge, kIndex);
  f("pcie_switch", pcie_switch, kIndex);
  f("rate_bytes_per_second", rate);
  f("name", name);
};
constexpr auto kListSwitch = [](auto& f, auto& place) {
  auto& [bridge, parent, uplink] = place;
  f("bridge", bridge, kIndex);
  f("parent", parent, kIndex);
  f("uplink_bytes_per_second", uplink);
};
constexpr auto kListDirect = [](auto& f, auto& link) {
  auto& [a, b, num_links, rate] = link;
  f("a", a, IntRange{0, kMostDevices});
  f("b", b, IntRange{0, kMostDevices});
  f("num_links", num_links, IntRange{1, kMostDevices});
  f("rate_bytes_per_second", rate);
};
constexpr auto kListBridge = [](auto& f, auto& socket) { f("socket", socket, IntRange{0, kMostDevices}); };

template <class Archive, class Layout>
void list_layout(Archive& f, Layout& layout) {
  auto& [sockets, bridges, switches, gpus, nics, direct_links, memory_bandwidth, socket_link, num_nvme, leaf_nodes,
         oversubscription, source] = layout;
  f("sockets", sockets, IntRange{0, kMostDevices});
  f.objects("bridges", bridges, kListBridge);
  f.objects("switches", switches, kListSwitch);
  f.objects("gpus", gpus, kListDevice);
  f.objects("nics", nics, kListDevice);
  f.objects("direct_links", direct_links, kListDirect);
  f("memory_bandwidth_bytes_per_second", memory_bandwidth);
  f("socket_link_bytes_per_second", socket_link);
  f("num_nvme", num_nvme, IntRange{0, kMostDevices});
  f("leaf_nodes", leaf_nodes, IntRange{0, kMostGpus});
  f("oversubscription", oversubscription, NumberRange{1e-3, 1e3});
  f("source", source);
}

template <class Archive, class Host>
void list_host(Archive& f, Host& host) {
  f("kind", host.kind);
  f("usual_memory_bytes", host.usual_memory);
  f("memory_bandwidth_bytes_per_second", host.memory_bandwidth);
  f("cores", host.cores, IntRange{0, kMostGpus});
  f("sockets", host.sockets, IntRange{0, kMostGpus});
  f("numa_nodes", host.numa_nodes, IntRange{0, kMostGpus});
  f("source", host.source);
}

template <class Archive, class Cluster>
void list_cluster(Archive& f, Cluster& cluster) {
  auto& [name, gpus, gpus_per_node, fabric, fabric_text, intra, inter, host_link, host_memory, price_per_gpu_hour,
         price_source, assumptions, file, memory_in_use, host_cores, layout, host] = cluster;
  f("name", name);
  if constexpr (Archive::kReads)
    read_gpus(f, gpus);
  else
    f("gpus", gpu_runs(gpus));
  f("gpus_per_node", gpus_per_node, IntRange{1, kMostGpus});
  f("fabric", fabric);
  f("fabric_text", fabric_text);
  f.object("intra", [&](auto& link) { list_link(link, cluster.intra); });
  f.object("inter", [&](auto& link) { list_link(link, cluster.inter); });
  f("host_link_bytes_per_second", host_link);
  f("host_memory_bytes", host_memory);
  f("price_per_gpu_hour", price_per_gpu_hour, NumberRange{0, 1e9});
  f("price_source", price_source);
  f("assumptions", assumptions);
  f("file", file);
  f("memory_in_use_bytes", memory_in_use);
  f("host_cores", host_cores, IntRange{0, kMostGpus});
  if constexpr (Archive::kReads)
    f.optional_object("layout", [&](auto& inner) { list_layout(inner, cluster.layout); });
  else if (layout.is_stated())
    f.object("layout", [&](auto& inner) { list_layout(inner, cluster.layout); });
  if constexpr (Archive::kReads)
    f.optional_object("host", [&](auto& inner) { list_host(inner, cluster.host); });
  else if (host.is_stated())
    f.object("host", [&](auto& inner) { list_host(inner, cluster.host); });
}

/// Refuses divisors of a step that are next to nothing: 1 byte or operation per second at least.
std::string too_slow_in(const GpuSpec& gpu) {
  const auto is_too_slow = [](FlopsPerSec rate) { return rate.value != 0 && rate.value < 1; };
  if (gpu.memory_bandwidth.value < 1) return "memory bandwidth";
  if (gpu.fp32.value < 1 && gpu.gemm_fp32.value < 1) return "fp32 rate, which every GPU has";
  for (const FlopsPerSec rate : {gpu.fp32, gpu.fp16, gpu.bf16, gpu.gemm_fp32, gpu.gemm_fp16, gpu.gemm_bf16})
    if (is_too_slow(rate)) return "rate";
  return {};
}

bool is_too_slow(const LinkCost& link) { return link.bandwidth.value < 1 || link.all_reduce_bandwidth.value < 1; }

void check_rates(Fields& in, const ClusterSpec& cluster) {
  if (cluster.num_gpus() > 1 && cluster.gpus_per_node > 1 && is_too_slow(cluster.intra))
    in.report("intra", "has no bandwidth, and a node has several GPUs");
  if (cluster.num_gpus() > cluster.gpus_per_node && is_too_slow(cluster.inter))
    in.report("inter", "has no bandwidth, and there are several nodes");
  if (cluster.host_link.value < 1) in.report("host_link_bytes_per_second", "is less than 1");
  for (const GpuSpec& gpu : cluster.gpus.kinds())
    if (const std::string what = too_slow_in(gpu); !what.empty())
      return in.report("gpus", fmt::format("'{}' has no {}", gpu.id, what));
}

void check_layout(Fields& in, const ClusterSpec& cluster) {
  if (const std::string problem = problem_of(cluster.layout, cluster.gpus_per_node); !problem.empty())
    in.report("layout", problem);
}

}  // namespace

void write_cluster(FieldWriter& out, const ClusterSpec& cluster) { list_cluster(out, cluster); }

void read_cluster(Fields& in, ClusterSpec& cluster) {
  list_cluster(in, cluster);
  if (!in.has_problems()) check_rates(in, cluster);
  if (!in.has_problems()) check_layout(in, cluster);
  if (!cluster.gpus.empty() && !cluster.memory_in_use.empty() && cluster.memory_in_use.size() != cluster.gpus.size())
    in.report("memory_in_use_bytes",
              fmt::format("has {} entries for {} GPUs", cluster.memory_in_use.size(), cluster.gpus.size()));
}

}  // namespace gpuplan

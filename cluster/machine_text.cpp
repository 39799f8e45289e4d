#include "base/utf8.h"
#include "cluster/cluster_file.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/links.h"
#include "cluster/machine_builder.h"

namespace gpuplan {
namespace {

std::string first_word(std::string_view line) {
  const auto begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(line.substr(begin, line.find_first_of(" \t\r", begin) - begin));
}

GpuFile named_gpu(ClusterFile& cluster, const MachineFacts& facts, const std::optional<std::string>& gpu) {
  if (!gpu) {
    const std::string like = facts.compute_capability.empty() ? "A6000" : "NAME";
    const std::string known =
        facts.compute_capability.empty() ? "" : fmt::format(" (compute capability {})", facts.compute_capability);
    throw InputError(cluster.file, fmt::format("does not say which GPU the machine has{}", known),
                     fmt::format("add --gpu, as in --gpu {}; 'gpuplan gpus' lists them", like));
  }
  const GpuChoice choice = resolve_gpu(*gpu);
  GpuFile file = read_gpu_file(gpu_path(choice.id));
  if (!choice.assumption.empty())
    cluster.assumptions.push_back(fmt::format("{} ({})", choice.assumption, file.spec.name));
  if (!facts.compute_capability.empty() && facts.compute_capability != file.spec.compute_capability)
    throw InputError("--gpu", fmt::format("{} has compute capability {}, the GPUs of {} have {}", file.spec.name,
                                          file.spec.compute_capability, cluster.file, facts.compute_capability));
  return file;
}

std::int64_t links_of(const NodeLayout& layout, std::int64_t gpu) {
  std::int64_t sum = 0;
  for (const DirectLink& link : layout.direct_links) sum += link.a == gpu || link.b == gpu ? link.num_links : 0;
  return sum;
}

/// NVLinks of every pair that add up to more than a GPU has lead to a switch, not to each other.
bool counts_switch_links(const NodeLayout& layout, const GpuSpec& gpu, BytesPerSec per_link) {
  if (per_link.value <= 0 || layout.direct_links.empty()) return false;
  const double owned = gpu.nvlink_per_direction / per_link;
  if (layout.gpus.size() == 2) return gpu.form_factor.find("sxm") != std::string::npos;
  return double(links_of(layout, 0)) > owned + 0.5;
}

/// One adapter of such a machine: as fast as the usual one, where GPUs have their own, never faster than its PCIe slot.
BytesPerSec usual_adapter(const Machine& node, const GpuFile& gpu, std::size_t num_adapters) {
  const BytesPerSec whole = gpu.machine.nic_per_gpu * double(node.gpus_per_node);
  const BytesPerSec usual =
      gpus_have_own_adapters(gpu.machine.nic_per_gpu) ? gpu.machine.nic_per_gpu : whole / double(num_adapters);
  const LinkTable& links = LinkTable::shipped();
  const LinkCost reached = links.network(usual, default_profile(gpu.spec));
  const BytesPerSec slot = links.host_link(slot_of(node, gpu.spec));
  return usual * std::min(1.0, slot / reached.bandwidth);
}

/// Adapters whose rate is not said are those of such GPUs' usual machine.
void set_network(ClusterFile& cluster, const GpuFile& gpu) {
  NodeLayout& layout = cluster.node.layout;
  if (layout.nics.empty()) return;
  if (rate_of_used_adapters(layout).value <= 0) {
    const BytesPerSec rate = usual_adapter(cluster.node, gpu, layout.nics.size());
    for (DevicePlace& nic : layout.nics) nic.rate = rate;
    cluster.assumptions.push_back(
        fmt::format("the file states no network rates: {} adapters of {:.4g} Gb/s, usual for {} ({}); a file of "
                    "--cluster states others ('inter: {{nics: {{count: {}, gbit_s: ...}}}}')",
                    layout.nics.size(), rate.value * 8 / 1e9, gpu.spec.name, gpu.machine.source, layout.nics.size()));
  }
  cluster.has_network = true;
  cluster.node.nic_per_gpu = rate_of_used_adapters(layout) / double(cluster.node.gpus_per_node);
}

}  // namespace

MachineTextKind kind_of_text(std::string_view text) {
  text = without_byte_order_mark(text);
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '<') return MachineTextKind::NcclXml;
  for (std::size_t at = 0, lines = 0; at < text.size() && lines < 50; ++lines) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (const auto escape = line.find("GPU0"); escape != std::string_view::npos &&
                                               line.find(':') == std::string_view::npos &&
                                               (first_word(line) == "GPU0" || line.find('\x1b') < escape))
      return MachineTextKind::TopoMatrix;
    at = end + 1;
  }
  return MachineTextKind::Yaml;
}

ClusterFile read_machine_text(const std::string& text, MachineTextKind kind, const std::string& file,
                              const std::optional<std::string>& gpu) {
  MachineFacts facts = kind == MachineTextKind::NcclXml ? read_nccl_topology(text, file) : read_topo_matrix(text, file);
  facts.layout.source = kind == MachineTextKind::NcclXml ? "NCCL's topology dump" : "nvidia-smi topo -m";
  ClusterFile cluster;
  cluster.file = file;
  cluster.id = cluster.name = std::filesystem::path(file).filename().string();
  const GpuFile product = named_gpu(cluster, facts, gpu);
  const BytesPerSec per_link = LinkTable::shipped().nvlink(product.spec.compute_capability);
  Machine& node = cluster.node;
  node.kinds = {product};
  node.gpus_per_node = std::int64_t(facts.layout.gpus.size());
  node.kind_of_rank.assign(facts.layout.gpus.size(), 0);
  if (counts_switch_links(facts.layout, product.spec, per_link)) {
    facts.has_nvswitch = true;
    facts.links_to_switch = facts.layout.direct_links.front().num_links;
  }
  if (facts.has_nvswitch) facts.layout.direct_links.clear();
  apply(facts, node, per_link);
  if (product.spec.nvlink_per_direction.value <= 0 &&
      (!node.layout.direct_links.empty() || node.fabric == FabricKind::NvSwitch))
    throw InputError("--gpu", fmt::format("{} has no NVLink, the GPUs of {} do", product.spec.name, file));
  cluster.assumptions.insert(cluster.assumptions.end(), facts.assumptions.begin(), facts.assumptions.end());
  set_network(cluster, product);
  return cluster;
}

}  // namespace gpuplan

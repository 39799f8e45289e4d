// From the detected GPUs to a cluster: products of the catalogue with the figures of these very cards, joined as they really are.
#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "cluster/gpu_list.h"
#include "cluster/links.h"
#include "cluster/local_facts.h"
#include "cluster/local_machine.h"
#include "cluster/local_product.h"

namespace gpuplan {
namespace {

bool is_split(const LocalGpu& gpu) { return gpu.is_mig.value_or(false); }

/// Only the GPUs in `kept`.
LocalMachine part_of(const LocalMachine& machine, const std::vector<std::size_t>& kept) {
  LocalMachine part = machine;
  part.gpus.clear(), part.pairs.clear();
  for (const std::size_t a : kept) {
    part.gpus.push_back(machine.gpus[a]);
    if (machine.pairs.empty()) continue;
    part.pairs.emplace_back();
    for (const std::size_t b : kept) part.pairs.back().push_back(machine.pairs[a][b]);
  }
  return part;
}

/// A program sees either whole GPUs or a single instance of a split one.
LocalMachine usable_part(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  std::vector<std::size_t> whole, split;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (!is_split(machine.gpus[i])) whole.push_back(i);
    else if (!machine.gpus[i].mig_instances.empty()) split.push_back(i);
  if (whole.size() == machine.gpus.size()) return machine;
  if (!whole.empty()) {
    assumptions.push_back(fmt::format("{} GPUs are split by MIG and left out", machine.gpus.size() - whole.size()));
    return part_of(machine, whole);
  }
  if (split.empty())
    throw EnvError("every GPU is in MIG mode and has no instance: create one (nvidia-smi mig -cgi … -C), or switch MIG off (nvidia-smi -mig 0)");
  return part_of(machine, {split.front()});
}

/// A split GPU stands for its first instance.
GpuFile usable_product(LocalGpu& gpu, std::vector<std::string>& assumptions) {
  GpuFile product = product_of(gpu, assumptions);
  if (!is_split(gpu)) return product;
  const LocalMigInstance instance = gpu.mig_instances.front();
  product = instance_of(std::move(product), instance);
  assumptions.push_back(fmt::format("{} is split by MIG: planned for one instance with {} multiprocessors and {}", gpu.name,
                                    product.spec.sm_count, format_bytes(instance.memory)));
  gpu.memory = instance.memory, gpu.memory_free = instance.memory_free, gpu.memory_reserved = Bytes{};
  gpu.nvlinks = std::vector<LocalNvLink>{};
  return product;
}

/// NVLinks that the catalogue does not know of, or knows no rate of.
BytesPerSec nvlink_rate(const LocalGpu& gpu, const LinkTable& links) {
  const BytesPerSec known = links.nvlink(gpu.compute_capability);
  return known.value > 0 ? known : gpu.nvlink_rate;
}

void take_real_links(GpuSpec& spec, const LocalGpu& gpu, std::optional<bool> peer_to_peer, const LinkTable& links) {
  if (peer_to_peer) spec.has_p2p_over_pcie = *peer_to_peer;
  if (spec.nvlink_per_direction.value <= 0 && gpu.nvlinks)
    spec.nvlink_per_direction = nvlink_rate(gpu, links) * double(gpu.nvlinks->size());
}

/// Whether the driver leaves open what joins these GPUs.
bool is_fabric_unknown(const LocalMachine& machine, const Machine& node, std::optional<bool> peer_to_peer) {
  if (machine.gpus.size() < 2) return false;
  const bool knows_nvlinks = std::all_of(machine.gpus.begin(), machine.gpus.end(), [](const LocalGpu& gpu) { return gpu.nvlinks.has_value(); });
  const bool may_have_nvlinks = std::any_of(node.kinds.begin(), node.kinds.end(), [](const GpuFile& kind) { return kind.spec.nvlink_per_direction.value > 0; });
  return may_have_nvlinks ? !knows_nvlinks : !peer_to_peer;
}

void add_kind(Machine& node, GpuFile product) {
  const auto known = std::find_if(node.kinds.begin(), node.kinds.end(), [&](const GpuFile& kind) { return kind.spec.id == product.spec.id; });
  node.kind_of_rank.push_back(std::size_t(known - node.kinds.begin()));
  if (known == node.kinds.end()) node.kinds.push_back(std::move(product));
}

Bytes in_use(const LocalGpu& gpu) {
  return std::max(Bytes{}, gpu.memory - gpu.memory_free - gpu.memory_reserved.value_or(Bytes{}));
}

/// "GPU 1 12.3 GiB (process 4711)".
std::string use_text(std::size_t index, const LocalGpu& gpu) {
  std::vector<std::string> owners;
  for (const LocalProcess& process : gpu.processes) owners.push_back(fmt::format("{}", process.pid));
  const std::string who = owners.empty() ? "" : fmt::format(" (process {})", fmt::join(owners, ", "));
  return fmt::format("GPU {} {}{}", index, format_bytes(in_use(gpu)), who);
}

void say_use(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  constexpr Bytes kWorthSaying{256LL << 20};  // below that it is the driver's and the desktop's
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (in_use(machine.gpus[i]) >= kWorthSaying) texts.push_back(use_text(i, machine.gpus[i]));
  if (!texts.empty()) assumptions.push_back(fmt::format("memory in use now, not counted as free: {}", fmt::join(texts, ", ")));
}

void say_source(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  std::string version = machine.driver_version.empty() ? "" : " " + machine.driver_version;
  if (!machine.cuda_version.empty()) version += fmt::format(" (CUDA {})", machine.cuda_version);
  assumptions.push_back(fmt::format("GPUs, links and free memory are what the driver{} says, rates of links the usual ones: calibrate measures them", version));
}

/// What works less well than these GPUs could.
void say_oddities(const LocalMachine& machine, const ClusterSpec& cluster, std::vector<std::string>& assumptions) {
  assumptions.insert(assumptions.end(), machine.notes.begin(), machine.notes.end());
  const bool is_waiting = std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const LocalGpu& gpu) { return gpu.fabric && !gpu.fabric->is_ready; });
  if (is_waiting) assumptions.push_back("the NVLink fabric is not ready: CUDA starts when nvidia-fabricmanager has done its work");
  std::set<std::int64_t> cliques;
  for (const LocalGpu& gpu : machine.gpus)
    if (gpu.fabric && gpu.fabric->is_ready) cliques.insert(gpu.fabric->clique);
  if (cliques.size() > 1) assumptions.push_back("the GPUs are in several NVLink partitions: between those there is no NVLink");
  const char* const order = std::getenv("CUDA_DEVICE_ORDER");
  if (cluster.is_mixed() && (!order || std::string_view(order) != "PCI_BUS_ID"))
    assumptions.push_back("ranks are in PCI order; CUDA counts so with CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

/// A GPU that shares the host's memory has none of its own to report.
void take_host_memory(LocalMachine& machine, std::vector<std::string>& assumptions) {
  for (LocalGpu& gpu : machine.gpus) {
    if (gpu.memory.count > 0) continue;
    if (machine.host_memory.count <= 0)
      throw InputError("", fmt::format("the driver does not say how much memory {} has", gpu.name), "describe the GPUs with --gpus, for example --gpus 4xA6000");
    gpu.memory = machine.host_memory, gpu.memory_free = machine.host_memory_free;
    assumptions.push_back(fmt::format("{} shares the memory of the host", gpu.name));
  }
}

}  // namespace

ClusterSpec local_cluster(const LocalMachine& whole) {
  GPUPLAN_CHECK(!whole.gpus.empty(), "`local` has at least one GPU");
  std::vector<std::string> assumptions;
  const auto assume_once = [&](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      if (std::find(assumptions.begin(), assumptions.end(), text) == assumptions.end()) assumptions.push_back(text);
  };
  LocalMachine machine = usable_part(whole, assumptions);
  const std::optional<bool> peer_to_peer = has_peer_to_peer(machine);
  const LinkTable links = LinkTable::read();
  Machine node{.gpus_per_node = std::int64_t(machine.gpus.size())};
  for (LocalGpu& gpu : machine.gpus) {
    std::vector<std::string> said;
    GpuFile product = usable_product(gpu, said);
    take_real_links(product.spec, gpu, peer_to_peer, links);
    add_kind(node, std::move(product));
    assume_once(said);
  }
  take_host_memory(machine, assumptions);
  MachineFacts facts = facts_of(machine);
  apply(facts, node, nvlink_rate(machine.gpus.front(), links));
  if (is_fabric_unknown(machine, node, peer_to_peer)) {
    node.fabric = usual_fabric(node.kinds);
    assumptions.push_back("the driver does not say what joins these GPUs: links are the usual ones");
  }
  node.host_memory = machine.host_memory;
  ClusterSpec cluster = build_cluster(node);
  price_from_catalogue(cluster, node);
  cluster.name = "local";
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    take_real_memory(cluster.gpus[i], machine.gpus[i]);
    cluster.memory_in_use.push_back(in_use(machine.gpus[i]));
  }
  assume_once(facts.assumptions);
  say_oddities(machine, cluster, assumptions);
  say_use(machine, assumptions);
  say_source(machine, assumptions);
  cluster.assumptions = std::move(assumptions);
  return cluster;
}

}  // namespace gpuplan

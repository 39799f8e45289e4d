#include "cluster/local_cluster.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/links.h"
#include "cluster/local_machine.h"
#include "cluster/machine.h"
#include "cluster/nvml.h"

namespace gpuplan {
namespace {

double capability_of(const std::string& text) { return as_number(text).value_or(0); }

bool has_word(const std::string& text, std::string_view word) { return to_lower(text).find(word) != std::string::npos; }
bool is_sxm(const std::string& text) { return has_word(text, "sxm"); }
bool is_consumer(const std::string& name) {
  return has_word(name, "geforce");
}  // slower matrix products with fp32 accumulation

/// Distance of `known` to the GPU: an older capability first, then another form, another market, another size.
std::array<double, 4> distance(const GpuSpec& known, const LocalGpu& gpu) {
  const double size = gpu.num_sms > 0
                          ? double(gpu.num_sms) / double(known.sm_count)
                          : double(std::max<std::int64_t>(1, gpu.memory.count)) / double(known.device_memory.count);
  return {capability_of(gpu.compute_capability) - capability_of(known.compute_capability),
          is_sxm(gpu.name) == is_sxm(known.form_factor) ? 0.0 : 1.0,
          is_consumer(gpu.name) == is_consumer(known.name) ? 0.0 : 1.0, std::abs(std::log(size))};
}

/// The nearest NVIDIA GPU of the same or the next older capability.
std::optional<GpuFile> nearest_product(const LocalGpu& gpu) {
  std::optional<GpuFile> best;
  for (const GpuNames& names : list_gpu_names()) {
    GpuFile known = read_gpu_file(gpu_path(names.id));
    if (known.spec.vendor != "nvidia" || distance(known.spec, gpu)[0] < 0) continue;
    if (!best || distance(known.spec, gpu) < distance(best->spec, gpu)) best = std::move(known);
  }
  return best;
}

/// The driver has one name for products that differ in memory (RTX 3080, 4060 Ti, 5060 Ti): the one nearest in memory.
std::optional<GpuFile> by_memory(const LocalGpu& gpu) {
  const auto ids = possible_gpus(gpu.name);
  if (ids.size() < 2 || gpu.memory.count <= 0) return {};
  const auto distance_of = [&](const GpuFile& file) {
    return std::abs(double(file.spec.device_memory.count - gpu.memory.count));
  };
  std::optional<GpuFile> best;
  for (const std::string& id : ids) {
    GpuFile file = read_gpu_file(gpu_path(id));
    if (!best || distance_of(file) < distance_of(*best)) best = std::move(file);
  }
  return best;
}

/// Values reported by the driver override those copied from the nearest catalogue entry.
void take_identity(GpuFile& product, const LocalGpu& gpu) {
  GpuSpec& spec = product.spec;
  spec.source = "NVML, and rates scaled from " + spec.source;
  spec.id = product.names.id = product_id(gpu.name);
  spec.name = gpu.name;
  spec.compute_capability = gpu.compute_capability;
  spec.form_factor = is_sxm(gpu.name) ? "sxm" : is_sxm(spec.form_factor) ? "pcie" : spec.form_factor;
  spec.is_plan_only = capability_of(gpu.compute_capability) < kOldestRunnableCapability;
  spec.nvlink_per_direction = {};  // what links it really has comes from the driver too
  spec.nvlink_kind.clear();
  if (gpu.pcie.max_generation > 0) spec.pcie_generation = gpu.pcie.max_generation;
  if (gpu.pcie.max_lanes > 0) spec.pcie_lanes = std::min<std::int64_t>(16, gpu.pcie.max_lanes);
  product.names.aliases = {gpu.name};
  product.names.assumed_for.clear(), product.names.ambiguous.clear();
  product.prices.clear(), product.rings.clear();
  product.devices_per_card = 1;
}

GpuFile made_up(const LocalGpu& gpu, GpuFile like, std::vector<std::string>& assumptions) {
  const std::string like_name = like.spec.name;
  const std::int64_t like_sms = like.spec.sm_count;
  std::string text = fmt::format("{} is not in the catalogue: rates are those of {} (compute capability {})", gpu.name,
                                 like_name, like.spec.compute_capability);
  if (gpu.num_sms > 0) {
    const double factor = double(gpu.num_sms) / double(like_sms);
    scale_compute(like.spec, factor);
    like.spec.sm_count = gpu.num_sms;
    like.spec.memory_bandwidth = like.spec.memory_bandwidth * factor;
    text += fmt::format(" times {} / {} multiprocessors", gpu.num_sms, like_sms);
  }
  if (gpu.memory_bandwidth.value > 0) {
    like.spec.memory_bandwidth = gpu.memory_bandwidth;
    text += fmt::format(", its memory moves {:.4g} GB/s by clock and bus width", gpu.memory_bandwidth.value / 1e9);
  }
  take_identity(like, gpu);
  assumptions.push_back(text + "; calibrate measures them");
  return like;
}

}  // namespace

std::string product_id(const std::string& name) {
  std::string id;
  for (const char c : to_lower(name))
    if (std::isalnum(static_cast<unsigned char>(c)))
      id += c;
    else if (!id.empty() && id.back() != '-')
      id += '-';
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id.empty() ? "unknown-gpu" : id;
}

std::variant<GpuFile, InputError> find_product(const LocalGpu& gpu, std::vector<std::string>& assumptions) {
  if (auto product = by_memory(gpu)) {
    if (std::string own = read_instead_of_shipped(product->spec.id); !own.empty())
      assumptions.push_back(std::move(own));
    return *std::move(product);
  }
  if (const auto choice = known_gpu(gpu.name)) {
    GpuFile product = read_gpu_file(gpu_path(choice->id));
    if (!choice->assumption.empty())
      assumptions.push_back(fmt::format("{} ({})", choice->assumption, product.spec.name));
    return product;
  }
  if (gpu.compute_capability.empty()) return gpu_mistake(gpu.name);
  if (auto like = nearest_product(gpu)) return made_up(gpu, *std::move(like), assumptions);
  return InputError(
      "",
      fmt::format("'{}' is not in the catalogue, and no catalogued GPU has compute capability {} or lower", gpu.name,
                  gpu.compute_capability),
      "describe it in a file of data/gpus");
}

GpuFile product_of(const LocalGpu& gpu, std::vector<std::string>& assumptions) {
  auto found = find_product(gpu, assumptions);
  if (const InputError* const mistake = std::get_if<InputError>(&found)) throw *mistake;
  return std::get<GpuFile>(std::move(found));
}

GpuFile instance_of(GpuFile product, const LocalMigInstance& instance) {
  GpuSpec& spec = product.spec;
  const double share = double(instance.memory.count) / double(spec.device_memory.count);
  const double compute =
      instance.num_sms > 0 && spec.sm_count > 0 ? double(instance.num_sms) / double(spec.sm_count) : share;
  scale_compute(spec, compute);
  if (instance.num_sms > 0) spec.sm_count = instance.num_sms;
  spec.memory_bandwidth = spec.memory_bandwidth * std::min(1.0, share);
  spec.nvlink_per_direction = {};
  spec.has_p2p_over_pcie = false;
  product.prices.clear();  // nobody rents this part at the card's price
  return product;
}

void take_real_memory(GpuSpec& spec, const LocalGpu& gpu) {
  if (gpu.memory.count <= 0) return;
  const Bytes hidden = gpu.memory_reserved.value_or(spec.device_memory - spec.framework_memory);
  spec.device_memory = gpu.memory;
  spec.framework_memory = std::max(Bytes{1}, gpu.memory - hidden);
}

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

constexpr const char* kNoInstance =
    "every GPU is in MIG mode and has no instance: create one (nvidia-smi mig -cgi … -C), or switch MIG off "
    "(nvidia-smi -mig 0)";

/// A program sees either whole GPUs or a single instance of a split one; nothing where there is neither.
std::optional<LocalMachine> usable_part(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  std::vector<std::size_t> whole, split;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (!is_split(machine.gpus[i]))
      whole.push_back(i);
    else if (!machine.gpus[i].mig_instances.empty())
      split.push_back(i);
  if (whole.size() == machine.gpus.size()) return machine;
  if (!whole.empty()) {
    assumptions.push_back(fmt::format("{} GPUs are split by MIG and left out", machine.gpus.size() - whole.size()));
    return part_of(machine, whole);
  }
  if (split.empty()) return std::nullopt;
  return part_of(machine, {split.front()});
}

/// A split GPU stands for its first instance.
GpuFile usable_product(LocalGpu& gpu, std::vector<std::string>& assumptions) {
  GpuFile product = product_of(gpu, assumptions);
  if (!is_split(gpu)) return product;
  const LocalMigInstance instance = gpu.mig_instances.front();
  product = instance_of(std::move(product), instance);
  assumptions.push_back(fmt::format("{} is split by MIG: planned for one instance with {} multiprocessors and {}",
                                    gpu.name, product.spec.sm_count, format_bytes(instance.memory)));
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

/// Says whether the driver leaves open what joins these GPUs.
bool is_fabric_unknown(const LocalMachine& machine, const Machine& node, std::optional<bool> peer_to_peer) {
  if (machine.gpus.size() < 2) return false;
  const bool knows_nvlinks = std::all_of(machine.gpus.begin(), machine.gpus.end(),
                                         [](const LocalGpu& gpu) { return gpu.nvlinks.has_value(); });
  const bool may_have_nvlinks = std::any_of(node.kinds.begin(), node.kinds.end(), [](const GpuFile& kind) {
    return kind.spec.nvlink_per_direction.value > 0;
  });
  return may_have_nvlinks ? !knows_nvlinks : !peer_to_peer;
}

void add_kind(Machine& node, GpuFile product) {
  const auto known = std::find_if(node.kinds.begin(), node.kinds.end(),
                                  [&](const GpuFile& kind) { return kind.spec.id == product.spec.id; });
  node.kind_of_rank.push_back(std::size_t(known - node.kinds.begin()));
  if (known == node.kinds.end()) node.kinds.push_back(std::move(product));
}

/// A GPU that shares the host's memory has none of its own to report.
void take_host_memory(LocalMachine& machine, std::vector<std::string>& assumptions) {
  for (LocalGpu& gpu : machine.gpus) {
    if (gpu.memory.count > 0) continue;
    if (machine.host_memory.count <= 0)
      throw InputError("", fmt::format("the driver does not say how much memory {} has", gpu.name), kDescribeGpus);
    gpu.memory = machine.host_memory, gpu.memory_free = machine.host_memory_free;
    assumptions.push_back(fmt::format("{} shares the memory of the host", gpu.name));
  }
}

/// The machine in the terms of the catalogue, joined as it really is.
Machine machine_of(LocalMachine& local, std::vector<std::string>& assumptions) {
  const LinkTable& links = LinkTable::shipped();
  const std::optional<bool> peer_to_peer = has_peer_to_peer(local);
  Machine node{.gpus_per_node = std::int64_t(local.gpus.size()), .host_memory = local.host_memory};
  for (LocalGpu& gpu : local.gpus) {
    GpuFile product = usable_product(gpu, assumptions);
    take_real_links(product.spec, gpu, peer_to_peer, links);
    add_kind(node, std::move(product));
  }
  const MachineFacts facts = facts_of(local);
  apply(facts, node, nvlink_rate(local.gpus.front(), links));
  assumptions.insert(assumptions.end(), facts.assumptions.begin(), facts.assumptions.end());
  if (!is_fabric_unknown(local, node, peer_to_peer)) return node;
  node.fabric = usual_fabric(node.kinds);
  assumptions.push_back("the driver does not say what joins these GPUs: links are the usual ones");
  return node;
}

/// Each text once, in the order of the first.
std::vector<std::string> without_repeats(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts)
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  return out;
}

}  // namespace

std::optional<std::string> why_no_cluster(const LocalMachine& machine) {
  std::vector<std::string> assumptions;
  const auto usable = usable_part(machine, assumptions);
  if (!usable) return kNoInstance;
  for (const LocalGpu& gpu : usable->gpus) {
    const auto product = find_product(gpu, assumptions);
    if (const InputError* const mistake = std::get_if<InputError>(&product)) return mistake->what();
  }
  return std::nullopt;
}

ClusterSpec local_cluster(const LocalMachine& machine) {
  GPUPLAN_CHECK(!machine.gpus.empty(), "`local` has at least one GPU");
  std::vector<std::string> assumptions;
  auto usable = usable_part(machine, assumptions);
  if (!usable) throw EnvError(kNoInstance);
  LocalMachine& local = *usable;
  const Machine node = machine_of(local, assumptions);
  take_host_memory(local, assumptions);
  ClusterSpec cluster = build_cluster(node);
  price_from_catalogue(cluster, node);
  cluster.name = "local";
  for (std::size_t i = 0; i < local.gpus.size(); ++i) {
    cluster.gpus.change(i, [&](GpuSpec& gpu) { take_real_memory(gpu, local.gpus[i]); });
    cluster.memory_in_use.push_back(memory_in_use(local.gpus[i]));
  }
  for (std::string& text : detection_notes(local)) assumptions.push_back(std::move(text));
  cluster.assumptions = without_repeats(assumptions);
  return cluster;
}

}  // namespace gpuplan

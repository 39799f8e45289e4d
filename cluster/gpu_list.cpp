#include "cluster/gpu_list.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/cluster_spec.h"
#include "cluster/cpu_ranks.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_spec_text.h"
#include "cluster/gpu_spelling.h"
#include "cluster/local_cluster.h"
#include "cluster/local_machine.h"
#include "cluster/machine.h"

namespace gpuplan {
namespace {

constexpr const char* kExample = "write for example --gpus 4xA6000";

/// "4xA6000" for a text that has its count elsewhere ("A6000x4", "A6000:4", "4 A6000"); empty when it is not that.
std::string count_first(std::string_view text) {
  const auto is_count = [](std::string_view part) {
    constexpr std::size_t kDigits = 3;  // longer ones are names of cards
    return !part.empty() && part.size() <= kDigits && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const auto is_gpu = [](std::string_view name) { return known_gpu(std::string(name)).has_value(); };
  const auto sign = text.find_last_of("xX:"), space = text.find(' ');
  if (sign != std::string_view::npos && is_count(trim(text.substr(sign + 1))) && is_gpu(trim(text.substr(0, sign))))
    return fmt::format("{}x{}", trim(text.substr(sign + 1)), trim(text.substr(0, sign)));
  if (space != std::string_view::npos && is_count(text.substr(0, space)) && is_gpu(trim(text.substr(space))))
    return fmt::format("{}x{}", text.substr(0, space), trim(text.substr(space)));
  return {};
}

/// "4x A6000", "4 × A6000" or "A6000", and where no card is called so "A6000x4" and "4 A6000".
NamedGpus read_part(std::string_view text) {
  const std::string better = known_gpu(std::string(text)) ? "" : count_first(text);
  if (!better.empty()) text = better;
  const auto digits = text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0);
  if (digits == std::string_view::npos || digits == 0) return {1, std::string(text)};       // "4090", "A6000"
  if (!text.starts_with('-') && digits_of_count(text) == 0) return {1, std::string(text)};  // "6000 Ada", "9070xt"
  std::string_view rest = trim(text.substr(digits));
  constexpr std::string_view kTimes = "×";
  const std::size_t sign = rest.starts_with(kTimes) ? kTimes.size()
                           : !rest.empty() && std::string_view("xX*").find(rest[0]) != std::string_view::npos ? 1
                                                                                                              : 0;
  if (sign == 0) return {1, std::string(text)};  // "6000 Ada"
  const std::string name(trim(rest.substr(sign)));
  if (name.empty()) throw InputError("", fmt::format("'{}' names no GPU", text), kExample);
  return {parse_integer(text.substr(0, digits), "", 1), name};
}

GpuChoice resolve_part(const std::string& name) {
  if (auto choice = known_gpu(name)) return *std::move(choice);
  throw gpu_mistake(name);
}

const DescribedGpu* find_described(const std::vector<DescribedGpu>& described, const std::string& name) {
  const auto means = [&](const std::string& id) {
    const auto known = id.empty() ? std::nullopt : known_gpu(name);
    return known && known->id == id;
  };
  for (const DescribedGpu& one : described)
    if (is_same_gpu_name(one.name, name) || one.gpu.spec.id == name || means(one.known_id)) return &one;
  return nullptr;
}

void check_named(const std::vector<DescribedGpu>& described, const std::vector<NamedGpus>& parts) {
  for (const DescribedGpu& one : described)
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const NamedGpus& part) { return find_described({one}, part.name) != nullptr; }))
      throw InputError("--gpu-spec", fmt::format("describes '{}', which --gpus does not name", one.name),
                       fmt::format("write for example --gpus '2x{}'", one.name));
}

bool is_word(const NamedGpus& part, std::string_view word) { return to_lower(part.name) == word; }

void add(Machine& machine, const GpuFile& gpu, std::int64_t num_devices) {
  const auto known = std::find_if(machine.kinds.begin(), machine.kinds.end(),
                                  [&](const GpuFile& kind) { return kind.spec.id == gpu.spec.id; });
  const auto index = std::size_t(known - machine.kinds.begin());
  if (known == machine.kinds.end()) machine.kinds.push_back(gpu);
  machine.kind_of_rank.insert(machine.kind_of_rank.end(), std::size_t(num_devices), index);
}

std::int64_t usual_node_size(const std::vector<GpuFile>& kinds) {
  std::int64_t least = kinds.front().machine.gpus_per_node;
  for (const GpuFile& gpu : kinds) least = std::min(least, gpu.machine.gpus_per_node);
  return least;
}

BytesPerSec usual_nic(const std::vector<GpuFile>& kinds) {
  BytesPerSec least = kinds.front().machine.nic_per_gpu;
  for (const GpuFile& gpu : kinds) least = std::min(least, gpu.machine.nic_per_gpu);
  return least;
}

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string layout_text(const ClusterSpec& cluster, BytesPerSec nic_per_gpu) {
  if (cluster.num_nodes() == 1) return fmt::format("one machine with {}", cluster.fabric_text);
  const auto last = cluster.num_gpus() - (cluster.num_nodes() - 1) * cluster.gpus_per_node;
  return fmt::format("{} nodes of {}{} with {}; {:g} Gb/s of network per GPU, non-blocking", cluster.num_nodes(),
                     cluster.gpus_per_node,
                     last == cluster.gpus_per_node ? "" : fmt::format(", the last with {},", last), cluster.fabric_text,
                     nic_per_gpu.value * 8 / 1e9);
}

std::string bridge_text(const Machine& machine) {
  const GpuFile& gpu = machine.kinds.front();
  const bool is_card = machine.fabric == FabricKind::Pcie || machine.fabric == FabricKind::PcieHostStaged;
  if (!is_card || gpu.spec.nvlink_per_direction.value <= 0) return "";
  return gpu.machine.bridged.empty() ? ", no NVLink bridge"
                                     : fmt::format(", no NVLink bridge (--cluster {} has one)", gpu.machine.bridged);
}

}  // namespace

/// Different products share only PCIe, and address each other only within one architecture.
std::vector<NamedGpus> split_gpu_list(const std::string& text) {
  if (trim(text).empty()) throw InputError("", "is empty", kExample);
  std::vector<NamedGpus> parts;
  std::int64_t total = 0;
  for (const std::string& part : split(text, ',')) {
    if (part.empty()) throw InputError("", fmt::format("'{}' has an empty part between commas", text), kExample);
    parts.push_back(read_part(part));
    total += std::min(parts.back().num_cards, kMostGpus + 1);
  }
  if (total > kMostGpus)
    throw InputError("", fmt::format("'{}' has too many GPUs", text), fmt::format("at most {}", kMostGpus));
  return parts;
}

bool names_gpus(const std::string& text) {
  try {
    return std::ranges::all_of(split_gpu_list(text),
                               [](const NamedGpus& part) { return known_gpu(part.name).has_value(); });
  } catch (const InputError&) { return false; }
}

ClusterSpec cluster_of(const std::vector<NamedGpus>& parts, const std::vector<DescribedGpu>& described) {
  check_named(described, parts);
  Machine machine;
  std::vector<std::string> assumptions;
  const auto assume = [&](std::string text) {
    if (std::find(assumptions.begin(), assumptions.end(), text) == assumptions.end())
      assumptions.push_back(std::move(text));
  };
  for (const NamedGpus& part : parts) {
    const DescribedGpu* own = find_described(described, part.name);
    const GpuChoice choice = own ? GpuChoice{} : resolve_part(part.name);
    const GpuFile gpu = own ? own->gpu : read_gpu_file(gpu_path(choice.id));
    if (own) assume(own->assumption);
    if (!choice.assumption.empty()) assume(fmt::format("{} ({})", choice.assumption, gpu.spec.name));
    if (gpu.devices_per_card > 1)
      assume(fmt::format("one {} is {}: {} are {} ranks", part.name, plural(gpu.devices_per_card, "device"),
                         plural(part.num_cards, "card"), part.num_cards * gpu.devices_per_card));
    if (!gpu.machine.assumption.empty() && part.num_cards > 1) assume(gpu.machine.assumption);
    if (gpu.shares_host_memory)
      assume(
          fmt::format("{} has one memory with its CPU: offloading to the host frees none, and what the system holds "
                      "is not subtracted",
                      gpu.spec.name));
    add(machine, gpu, part.num_devices.value_or(part.num_cards * gpu.devices_per_card));
  }
  const auto num_gpus = std::int64_t(machine.kind_of_rank.size());
  machine.fabric = usual_fabric(machine.kinds);
  machine.nic_per_gpu = usual_nic(machine.kinds);
  machine.gpus_per_node = std::min(num_gpus, usual_node_size(machine.kinds));
  ClusterSpec cluster = build_cluster(machine);
  price_from_catalogue(cluster, machine);
  cluster.assumptions = std::move(assumptions);
  if (num_gpus > 1) cluster.assumptions.push_back(layout_text(cluster, machine.nic_per_gpu) + bridge_text(machine));
  return cluster;
}

ClusterSpec parse_gpus(const std::string& text, const std::string& gpu_specs) {
  try {
    const auto described = gpu_specs.empty() ? std::vector<DescribedGpu>{} : read_described_gpus(gpu_specs);
    const auto parts = split_gpu_list(text);
    const bool is_list = parts.size() > 1;
    for (const NamedGpus& part : parts) {
      if (is_word(part, "local") && (is_list || part.num_cards != 1))
        throw InputError("", "'local' stands alone", "it takes every GPU NVML finds");
      if (is_word(part, "cpu") && is_list)
        throw InputError("", "'cpu' cannot be mixed with GPUs", "write for example --gpus 4xcpu");
    }
    if (is_word(parts.front(), "local") || is_word(parts.front(), "cpu")) check_named(described, {});
    ClusterSpec cluster = is_word(parts.front(), "local") ? local_cluster(query_local_machine())
                          : is_word(parts.front(), "cpu") ? cpu_cluster(parts.front().num_cards, read_host_facts())
                                                          : cluster_of(parts, described);
    cluster.name = std::string(trim(text));
    return cluster;
  } catch (const InputError& error) {
    if (!error.where().empty()) throw;  // a broken data file, not the flag
    throw error.add_context("--gpus");
  }
}

std::variant<ClusterSpec, std::string> find_local_gpus() {
  const auto found = find_local_machine();
  const auto* const machine = std::get_if<LocalMachine>(&found);
  if (!machine) return std::get<std::string>(found);
  if (auto why = why_no_cluster(*machine)) return *std::move(why);
  return local_cluster(*machine);
}

std::int64_t devices_per_card(const ClusterSpec& cluster) {
  const GpuSpec& gpu = cluster.gpus.front();
  const bool is_known = cluster.file.empty() && gpu_spec_text(gpu).empty() && known_gpu(gpu.id);
  return is_known ? read_gpu_file(gpu_path(gpu.id)).devices_per_card : 1;
}

ClusterSpec resized(const ClusterSpec& cluster, std::int64_t num_gpus) {
  if (num_gpus == cluster.num_gpus()) return cluster;
  if (cluster.is_mixed())
    throw InputError(
        "", fmt::format("{} has several kinds of GPUs: another number of them is not one machine", cluster.name),
        "name the GPUs with --gpus");
  if (!cluster.file.empty()) return load_cluster(cluster.file, num_gpus);
  const GpuSpec& gpu = cluster.gpus.front();
  const std::string described = gpu_spec_text(gpu);
  const std::int64_t devices = devices_per_card(cluster);
  const std::int64_t cards = (num_gpus + devices - 1) / devices;
  ClusterSpec other = devices > 1 ? cluster_of({{cards, gpu.id, num_gpus}}, {})
                                  : parse_gpus(fmt::format("{}x{}", num_gpus, gpu.id), described);
  if (devices > 1) other.name = fmt::format("{}x{}", cards, gpu.id);
  other.host_memory = cluster.host_memory;  // which --host-memory may have said
  if (cluster.host.kind.empty()) other.host = cluster.host;
  return other;
}

}  // namespace gpuplan

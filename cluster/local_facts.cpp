#include "base/environment.h"
#include "cluster/local_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "cluster/machine_facts.h"

namespace gpuplan {
namespace {

template <class Known>
bool every_pair(const LocalMachine& machine, Known known) {
  const std::size_t count = machine.gpus.size();
  if (machine.pairs.size() != count) return false;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (a != b && !known(machine.pairs[a][b])) return false;
  return true;
}

/// Paths of all pairs; empty unless the driver knows them.
PathMatrix paths_of(const LocalMachine& machine) {
  PathMatrix matrix;
  if (!every_pair(machine, [](const LocalPair& pair) { return pair.path.has_value(); })) return matrix;
  matrix.num_gpus = machine.gpus.size();
  for (std::size_t a = 0; a < machine.gpus.size(); ++a) {
    matrix.labels.push_back(fmt::format("GPU{}", a));
    matrix.numa.push_back(machine.gpus[a].numa_node);
    matrix.paths.emplace_back();
    for (std::size_t b = 0; b < machine.gpus.size(); ++b)
      matrix.paths.back().push_back(a == b ? PathClass::Self : *machine.pairs[a][b].path);
  }
  return matrix;
}

/// Bus ids differ in case and in the length of the domain: "0000:1b:00.0" is "00000000:1B:00.0".
std::string plain_bus_id(const std::string& bus_id) {
  std::string out;
  for (const char c : bus_id) out += char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const auto colon = out.find(':');
  const auto zeros = out.find_first_not_of('0');
  return out.substr(std::min(colon == std::string::npos ? 0 : colon, zeros == std::string::npos ? 0 : zeros));
}

struct LinkCounts {
  std::vector<std::int64_t> to_gpu;  // by peer
  std::int64_t to_switch = 0, elsewhere = 0;
};

LinkCounts count_links(const LocalMachine& machine, const LocalGpu& gpu) {
  LinkCounts counts{std::vector<std::int64_t>(machine.gpus.size()), 0, 0};
  for (const LocalNvLink& link : *gpu.nvlinks) {
    const auto peer = std::find_if(machine.gpus.begin(), machine.gpus.end(), [&](const LocalGpu& other) {
      return !link.remote_bus_id.empty() && plain_bus_id(other.bus_id) == plain_bus_id(link.remote_bus_id);
    });
    if (peer != machine.gpus.end())
      ++counts.to_gpu[std::size_t(peer - machine.gpus.begin())];
    else if (link.remote == NvLinkRemote::Switch)
      ++counts.to_switch;
    else
      ++counts.elsewhere;
  }
  return counts;
}

/// Recognises a switch: in virtual machines the driver hides where links lead; if all pairs reach each other over
/// NVLink, it is one.
bool is_hidden_switch(const LocalMachine& machine, const std::vector<LinkCounts>& counts) {
  const bool are_hidden = std::all_of(counts.begin(), counts.end(), [](const LinkCounts& gpu) {
    return gpu.to_switch == 0 && gpu.elsewhere > 0 &&
           std::count(gpu.to_gpu.begin(), gpu.to_gpu.end(), 0) == std::int64_t(gpu.to_gpu.size());
  });
  return are_hidden && every_pair(machine, [](const LocalPair& pair) { return pair.can_nvlink.value_or(false); });
}

void add_direct_links(MachineFacts& facts, const std::vector<LinkCounts>& counts) {
  for (std::size_t a = 0; a < counts.size(); ++a)
    for (std::size_t b = a + 1; b < counts.size(); ++b) {
      const std::int64_t one = counts[a].to_gpu[b], other = counts[b].to_gpu[a];
      if (std::min(one, other) > 0)
        facts.layout.direct_links.push_back({std::int64_t(a), std::int64_t(b), std::min(one, other), {}});
      if (one != other)
        facts.assumptions.push_back(fmt::format(
            "{} NVLinks from GPU {} to GPU {}, {} back (a link is down?): the lower is taken", one, a, b, other));
    }
}

void add_nvlinks(MachineFacts& facts, const LocalMachine& machine) {
  if (!std::all_of(machine.gpus.begin(), machine.gpus.end(),
                   [](const LocalGpu& gpu) { return gpu.nvlinks.has_value(); }))
    return;
  std::vector<LinkCounts> counts;
  for (const LocalGpu& gpu : machine.gpus) counts.push_back(count_links(machine, gpu));
  const bool is_hidden = is_hidden_switch(machine, counts);
  std::int64_t fewest = -1, elsewhere = 0;
  for (const LinkCounts& gpu : counts) {
    const std::int64_t to_switch = is_hidden ? gpu.elsewhere : gpu.to_switch;
    fewest = fewest < 0 ? to_switch : std::min(fewest, to_switch);
    elsewhere += is_hidden ? 0 : gpu.elsewhere;
  }
  if (fewest > 0)
    facts.has_nvswitch = true, facts.links_to_switch = fewest;
  else
    add_direct_links(facts, counts);
  if (elsewhere > 0 && machine.gpus.size() > 1)
    facts.assumptions.push_back(fmt::format("{} NVLinks lead to GPUs that are not visible here: not used", elsewhere));
}

/// The slowest slot; the width in use, because a card in a narrow slot says what it could do itself.
void add_slots(MachineFacts& facts, const LocalMachine& machine) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const LocalPcie& pcie = machine.gpus[i].pcie;
    const std::int64_t lanes = pcie.lanes > 0 && pcie.max_lanes > 0 ? std::min(pcie.lanes, pcie.max_lanes)
                                                                    : std::max(pcie.lanes, pcie.max_lanes);
    if (pcie.max_generation > 0)
      facts.pcie_generation = std::min(facts.pcie_generation.value_or(pcie.max_generation), pcie.max_generation);
    if (lanes > 0) facts.pcie_lanes = std::min(facts.pcie_lanes.value_or(lanes), lanes);
    if (lanes > 0 && lanes < pcie.max_lanes)
      facts.assumptions.push_back(
          fmt::format("GPU {} uses {} of its {} PCIe lanes (a narrow slot, a riser?)", i, lanes, pcie.max_lanes));
  }
}

}  // namespace

std::optional<bool> has_peer_to_peer(const LocalMachine& machine) {
  if (machine.gpus.size() < 2 ||
      !every_pair(machine, [](const LocalPair& pair) { return pair.can_read && pair.can_write; }))
    return std::nullopt;
  return every_pair(machine, [](const LocalPair& pair) { return *pair.can_read && *pair.can_write; });
}

MachineFacts facts_of(const LocalMachine& machine) {
  MachineFacts facts;
  if (const PathMatrix matrix = paths_of(machine); matrix.num_gpus > 0) {
    facts.layout = layout_of(matrix);
    facts.layout.source = "NVML";
    if (facts.layout.sockets > 1) facts.assumptions.push_back("NUMA nodes count as sockets");
  }
  add_nvlinks(facts, machine);
  add_slots(facts, machine);
  return facts;
}

namespace {

bool is_mixed(const LocalMachine& machine) {
  return std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [&](const LocalGpu& gpu) { return gpu.name != machine.gpus.front().name; });
}

/// "GPU 1 12.3 GiB (process 4711)".
std::string use_text(std::size_t index, const LocalGpu& gpu) {
  std::vector<std::string> owners;
  for (const LocalProcess& process : gpu.processes) owners.push_back(fmt::format("{}", process.pid));
  const std::string who = owners.empty() ? "" : fmt::format(" (process {})", fmt::join(owners, ", "));
  return fmt::format("GPU {} {}{}", index, format_bytes(memory_in_use(gpu)), who);
}

void say_use(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  constexpr Bytes kWorthSaying{256LL << 20};  // below that it is the driver's and the desktop's
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (memory_in_use(machine.gpus[i]) >= kWorthSaying) texts.push_back(use_text(i, machine.gpus[i]));
  if (!texts.empty())
    assumptions.push_back(fmt::format("memory in use now, not counted as free: {}", fmt::join(texts, ", ")));
}

void say_source(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  std::string version = machine.driver_version.empty() ? "" : " " + machine.driver_version;
  if (!machine.cuda_version.empty()) version += fmt::format(" (CUDA {})", machine.cuda_version);
  assumptions.push_back(fmt::format(
      "GPUs, links and free memory are what the driver{} says, rates of links the usual ones: calibrate measures them",
      version));
}

/// Notes what works less well than these GPUs could.
void say_oddities(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  assumptions.insert(assumptions.end(), machine.notes.begin(), machine.notes.end());
  const bool is_waiting = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                      [](const LocalGpu& gpu) { return gpu.fabric && !gpu.fabric->is_ready; });
  if (is_waiting)
    assumptions.push_back("the NVLink fabric is not ready: CUDA starts when nvidia-fabricmanager has done its work");
  std::set<std::int64_t> cliques;
  for (const LocalGpu& gpu : machine.gpus)
    if (gpu.fabric && gpu.fabric->is_ready) cliques.insert(gpu.fabric->clique);
  if (cliques.size() > 1)
    assumptions.push_back("the GPUs are in several NVLink partitions: between those there is no NVLink");
  if (is_mixed(machine) && variable("CUDA_DEVICE_ORDER") != "PCI_BUS_ID")
    assumptions.push_back("ranks are in PCI order; CUDA counts so with CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

}  // namespace

Bytes memory_in_use(const LocalGpu& gpu) {
  return std::max(Bytes{}, gpu.memory - gpu.memory_free - gpu.memory_reserved.value_or(Bytes{}));
}

std::vector<std::string> detection_notes(const LocalMachine& machine) {
  std::vector<std::string> out;
  say_oddities(machine, out);
  say_use(machine, out);
  say_source(machine, out);
  return out;
}

}  // namespace gpuplan

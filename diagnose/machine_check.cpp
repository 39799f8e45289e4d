#include "diagnose/machine_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/local_cluster.h"
#include "models/installed_packages.h"

namespace gpuplan {
namespace {

using Findings = std::vector<MachineFinding>;

bool has_several(const MachineCheck& c) { return c.machine && c.machine->gpus.size() > 1; }

/// A variable of the environment that slows a training down wherever it is set.
struct SlowVariable {
  std::string name, harmless, what;  // `harmless`: the value with which it does nothing
};

/// A library without which a training is slower or impossible.
struct UsefulLibrary {
  std::string name, what;
};

struct DoctorRows {
  std::vector<SlowVariable> variables;
  std::vector<UsefulLibrary> libraries;
};

DoctorRows read_doctor_rows() {
  YamlFile file = YamlFile::read(data_dir() / "doctor.yaml");
  DoctorRows rows;
  for (Fields& f : file.top().list("variables")) {
    rows.variables.push_back({f.text("name"), f.text("harmless"), f.text("what")});
    f.text("source");
    f.refuse_unknown();
  }
  for (Fields& f : file.top().list("libraries")) {
    rows.libraries.push_back({f.text("name"), f.text("what")});
    f.text("source");
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

void look_at_variables(const MachineCheck&, Findings& out) {
  for (const SlowVariable& row : read_once<read_doctor_rows>().variables) {
    const std::string value = text_of_variable(row.name);
    if (!value.empty() && value != row.harmless)
      out.push_back({fmt::format("{}={}: {}", row.name, value, row.what), fmt::format("unset {}", row.name)});
  }
}

void look_at_peers(const MachineCheck& c, Findings& out) {
  if (!has_several(c)) return;
  const auto peers = has_peer_to_peer(*c.machine);
  const bool could = !c.cluster || c.cluster->gpus.front().has_p2p_over_pcie || is_nvlink(c.cluster->fabric);
  if (peers && !*peers)
    out.push_back(
        {fmt::format("the GPUs do not reach each other's memory{}", could ? "" : ", as cards of this kind do not"),
         could ? "look at ACS and IOMMU below, at the driver, and at virtual machines without it"
               : "FSDP and ZeRO-3 wait for the host's memory here: DDP or fewer gathers (--no-reshard) cost less"});
  if (!c.pci.redirecting.empty())
    out.push_back(
        {fmt::format("{} PCIe bridge{} redirect requests between devices (ACS): peer-to-peer goes through the "
                     "processor, or not at all",
                     c.pci.redirecting.size(), c.pci.redirecting.size() == 1 ? "" : "s"),
         fmt::format("turn ACS off in the firmware, or: setpci -s {} ECAP_ACS+6.w=0000", c.pci.redirecting.front())});
}

void look_at_iommu(const MachineCheck& c, Findings& out) {
  if (!has_several(c) || !c.pci.has_iommu) return;
  const std::string line = read_if_there(proc_folder() / "cmdline").value_or("");
  if (line.find("iommu=pt") != std::string::npos || line.find("iommu=off") != std::string::npos) return;
  out.push_back({"the IOMMU translates what GPUs read and write: peer-to-peer over PCIe may fail or be slow",
                 "iommu=pt on the kernel's command line, unless virtual machines use the GPUs"});
}

/// What detection says of slots, links, partitions and memory in use.
void look_at_gpus(const MachineCheck& c, Findings& out) {
  if (!c.machine) return;
  const LocalMachine& m = *c.machine;
  for (std::size_t i = 0; i < m.gpus.size(); ++i) {
    const LocalPcie& pcie = m.gpus[i].pcie;
    if (pcie.lanes > 0 && pcie.lanes < pcie.max_lanes)
      out.push_back({fmt::format("GPU {} has {} of its {} PCIe lanes", i, pcie.lanes, pcie.max_lanes),
                     "a slot with all lanes, no riser, no second card or drive that shares them"});
    constexpr Bytes kWorthSaying{512LL << 20};
    if (const Bytes used = memory_in_use(m.gpus[i]); used >= kWorthSaying)
      out.push_back({fmt::format("{} of GPU {} are in use", format_bytes(used), i),
                     "end what holds it (nvidia-smi names the processes), or plan with --gpus local"});
    if (m.gpus[i].is_mig.value_or(false))
      out.push_back({fmt::format("GPU {} is split by MIG: its parts do not reach each other", i),
                     "sudo nvidia-smi -mig 0 where the whole card is wanted"});
    if (m.gpus[i].fabric && !m.gpus[i].fabric->is_ready)
      out.push_back({fmt::format("the NVLink fabric of GPU {} is not ready", i), "start nvidia-fabricmanager"});
  }
  for (const std::string& note : facts_of(m).assumptions)
    if (note.find("link is down") != std::string::npos) out.push_back({note, "reseat the NVLink bridge"});
}

void look_at_host(const MachineCheck& c, Findings& out) {
  if (!c.machine || !c.host) return;
  Bytes cards;
  for (const LocalGpu& gpu : c.machine->gpus) cards += gpu.memory;
  if (c.host->memory < cards)
    out.push_back({fmt::format("the host has {}, less than the {} of its GPUs", format_bytes(c.host->memory),
                               format_bytes(cards)),
                   "models that are read by every rank, and offloading, need more; estimate --explain says how much"});
  const auto num_gpus = std::int64_t(c.machine->gpus.size());
  constexpr std::int64_t kFewest = 4;  // of a rank: its own thread, autograd's, NCCL's, one that loads data
  if (c.host->num_cores < kFewest * num_gpus)
    out.push_back(
        {fmt::format("{} cores may be used for {} GPU{}", c.host->num_cores, num_gpus, num_gpus == 1 ? "" : "s"),
         "ask for more cores (--cpus-per-task, docker --cpus): launches and data loading wait for them"});
}

void look_at_python(const MachineCheck& c, Findings& out) {
  if (c.python.empty()) return;
  for (const UsefulLibrary& row : read_once<read_doctor_rows>().libraries) {
    const bool is_known = std::ranges::any_of(libraries(), [&](const Library& l) { return l.name == row.name; });
    const auto found = c.python.find(row.name);
    if (is_known && (found == c.python.end() || found->second.text == "none"))
      out.push_back(
          {fmt::format("{} is not installed: {}", row.name, row.what), fmt::format("pip install {}", row.name)});
  }
}

using Look = void (*)(const MachineCheck&, Findings&);
constexpr std::array<Look, 6> kLooks{look_at_peers, look_at_variables, look_at_gpus,
                                     look_at_iommu, look_at_host,      look_at_python};

}  // namespace

MachineCheck check_machine() {
  MachineCheck out;
  auto machine = find_local_machine();
  if (const std::string* const problem = std::get_if<std::string>(&machine)) out.no_gpus = *problem;
  if (LocalMachine* const found = std::get_if<LocalMachine>(&machine)) out.machine = std::move(*found);
  if (out.machine && !why_no_cluster(*out.machine)) out.cluster = local_cluster(*out.machine);
  auto host = find_host_facts();
  if (HostFacts* const found = std::get_if<HostFacts>(&host)) out.host = std::move(*found);
  out.pci = read_pci_facts();
  auto python = find_installed_versions();
  if (StackVersions* const found = std::get_if<StackVersions>(&python)) out.python = std::move(*found);
  for (const Look look : kLooks) look(out, out.findings);
  return out;
}

}  // namespace gpuplan

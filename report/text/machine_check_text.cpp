// What a machine has and what stands in its way, for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "cluster/local_cluster.h"
#include "report/text/answers_text.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// "2 x NVIDIA GeForce RTX 3090, 24.0 GiB": cards that are alike on one line.
std::vector<Fact> gpu_facts(const LocalMachine& m) {
  std::vector<Fact> out;
  for (std::size_t i = 0; i < m.gpus.size();) {
    std::size_t end = i + 1;
    while (end < m.gpus.size() && m.gpus[end].name == m.gpus[i].name && m.gpus[end].memory == m.gpus[i].memory) ++end;
    const LocalPcie& pcie = m.gpus[i].pcie;
    const std::string slot =
        pcie.max_generation > 0 ? fmt::format(", PCIe {}.0 x{}", pcie.max_generation, pcie.max_lanes) : "";
    out.push_back({out.empty() ? "GPUs" : "",
                   fmt::format("{} x {}, {}{}", end - i, m.gpus[i].name, format_bytes(m.gpus[i].memory), slot)});
    i = end;
  }
  return out;
}

std::string peers_text(const LocalMachine& m) {
  const auto peers = has_peer_to_peer(m);
  if (m.gpus.size() < 2) return {};
  return !peers ? "the driver does not say" : *peers ? "yes, between all GPUs" : "no";
}

std::string acs_text(const PciFacts& pci) {
  if (pci.num_bridges == 0) return "not known: root reads the bridges' settings";
  return pci.redirecting.empty()
             ? "off"
             : fmt::format("{} of {} bridges redirect requests", pci.redirecting.size(), pci.num_bridges);
}

std::vector<Fact> facts_of_check(const MachineCheck& c) {
  std::vector<Fact> out;
  if (c.machine) {
    out = gpu_facts(*c.machine);
    if (c.cluster && c.machine->gpus.size() > 1) out.push_back({"links", c.cluster->fabric_text});
    out.push_back({"peer-to-peer", peers_text(*c.machine)});
    if (c.machine->gpus.size() > 1) out.push_back({"ACS", acs_text(c.pci)});
    out.push_back({"driver", fmt::format("{}{}", c.machine->driver_version,
                                         c.machine->cuda_version.empty() ? "" : ", CUDA " + c.machine->cuda_version)});
  } else {
    out.push_back({"GPUs", c.no_gpus});
  }
  if (c.host)
    out.push_back({"host", fmt::format("{}, {} cores, {} of memory ({} free)", c.host->cpu_name, c.host->num_cores,
                                       format_bytes(c.host->memory), format_bytes(c.host->memory_available))});
  out.push_back(
      {"Python", c.python.empty() ? "no training library beside the Python on PATH" : versions_text(c.python)});
  return out;
}

}  // namespace

std::string machine_check_text(const MachineCheck& check, const Screen& screen) {
  std::string out;
  if (!check.machine)
    out = "Nothing can train on GPUs here.\n";
  else
    out = check.findings.empty()
              ? "Nothing stands in the way of the fastest plan here.\n"
              : fmt::format("{} thing{} on this machine cost{} speed or memory.\n", check.findings.size(),
                            check.findings.size() == 1 ? "" : "s", check.findings.size() == 1 ? "s" : "");
  std::vector<std::string> lines;
  for (const MachineFinding& f : check.findings) lines.push_back(fmt::format("{}. {}", f.what, f.cure));
  if (!lines.empty()) out += points(lines, screen);
  return out + heading("This machine", screen) + render(facts_of_check(check), 2, screen);
}

}  // namespace gpuplan

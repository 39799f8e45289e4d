// The fields of the answer of `gpuplan doctor`, listed once: report/json/estimate_fields.h.
#pragma once

#include "base/archive.h"
#include "cluster/local_cluster.h"
#include "diagnose/machine_check.h"
#include "report/json/common_fields.h"

namespace gpuplan {

template <class Archive>
void list_machine_check(Archive& f, const MachineCheck& c) {
  f("no_gpus", text_or_null(c.no_gpus), "why there are none");
  const LocalMachine machine = c.machine.value_or(LocalMachine{});
  f.objects("gpus", machine.gpus, [](auto& inner, const LocalGpu& gpu) {
    inner("name", gpu.name);
    inner("memory_bytes", gpu.memory);
    inner("in_use_bytes", memory_in_use(gpu));
    inner("pcie_generation", gpu.pcie.max_generation);
    inner("pcie_lanes", gpu.pcie.lanes);
    inner("pcie_lanes_of_card", gpu.pcie.max_lanes);
  });
  f("peer_to_peer", has_peer_to_peer(machine), "null: not known, or one GPU");
  f("redirecting_bridges", c.pci.redirecting);
  f("has_iommu", c.pci.has_iommu);
  f("driver", text_or_null(machine.driver_version));
  f("host_bytes", c.host ? std::optional(c.host->memory) : std::nullopt);
  f("host_cores", c.host ? std::optional(std::int64_t(c.host->num_cores)) : std::nullopt);
  f("python", versions_text(c.python), "libraries beside the Python on PATH");
  f.objects("findings", c.findings, [](auto& inner, const MachineFinding& finding) {
    inner("what", finding.what);
    inner("cure", finding.cure);
  });
}

}  // namespace gpuplan

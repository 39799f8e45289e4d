// The kernel's word on a machine's PCIe bridges: whether they send what one GPU writes to another through the
// processor first, which turns peer-to-peer off or makes it slow.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

struct PciFacts {
  bool has_iommu = false;        // it translates addresses of devices
  std::int64_t num_bridges = 0;  // whose settings could be read: root reads them, others the first bytes alone
  std::vector<std::string> redirecting{};  // bridges that redirect requests between devices (ACS): "0000:3a:00.0"
};

/// $GPUPLAN_SYS, else /sys.
std::filesystem::path sys_folder();

/// Source: PCI Express Base Specification 4.0, 7.7.8 (ACS extended capability: id 0x000d, control at offset 6, bit 2
/// P2P request redirect) and 7.6.1 (chain of extended capabilities from 0x100 on).
PciFacts read_pci_facts(const std::filesystem::path& sys = sys_folder());

}  // namespace gpuplan

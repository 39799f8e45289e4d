#include "cluster/fabric.h"

#include <array>

#include <fmt/format.h>

namespace gpuplan {
namespace {

struct FabricName {
  FabricKind kind;
  std::string_view name;
};

constexpr std::array kFabrics{FabricName{FabricKind::None, "none"},
                              FabricName{FabricKind::NvSwitch, "nvswitch"},
                              FabricName{FabricKind::NvLinkMesh, "nvlink-mesh"},
                              FabricName{FabricKind::NvLinkBridge, "nvlink-bridge"},
                              FabricName{FabricKind::Pcie, "pcie"},
                              FabricName{FabricKind::PcieHostStaged, "pcie-host-staged"},
                              FabricName{FabricKind::InfinityFabric, "infinity-fabric"},
                              FabricName{FabricKind::SharedMemory, "shared-memory"}};

std::string pcie(const GpuSpec& gpu) { return fmt::format("PCIe {}.0 x{}", gpu.pcie_generation, gpu.pcie_lanes); }

std::string nvlink(std::string_view what, const GpuSpec& gpu) {
  return fmt::format("{}, NVLink {:g} GB/s per direction", what, gpu.nvlink_per_direction.value / 1e9);
}

}  // namespace

bool is_nvlink(FabricKind fabric) {
  return fabric == FabricKind::NvSwitch || fabric == FabricKind::NvLinkMesh || fabric == FabricKind::NvLinkBridge;
}

bool is_board(FabricKind fabric) {
  return fabric == FabricKind::NvSwitch || fabric == FabricKind::NvLinkMesh || fabric == FabricKind::InfinityFabric;
}

std::string_view to_string(FabricKind fabric) {
  for (const FabricName& row : kFabrics)
    if (row.kind == fabric) return row.name;
  return "?";
}

std::optional<FabricKind> find_fabric(std::string_view name) {
  for (const FabricName& row : kFabrics)
    if (row.name == name) return row.kind;
  return std::nullopt;
}

std::vector<std::string> fabric_names() {
  std::vector<std::string> out;
  for (const FabricName& row : kFabrics) out.emplace_back(row.name);
  return out;
}

std::string describe_fabric(FabricKind fabric, const GpuSpec& gpu) {
  switch (fabric) {
    case FabricKind::None: return "one GPU";
    case FabricKind::NvSwitch: return nvlink("NVSwitch", gpu);
    case FabricKind::NvLinkMesh: return nvlink("NVLink mesh", gpu);
    case FabricKind::NvLinkBridge: return nvlink("NVLink bridge", gpu);
    case FabricKind::Pcie: return pcie(gpu) + ", peer-to-peer";
    case FabricKind::PcieHostStaged: return pcie(gpu) + ", through host memory (no peer-to-peer)";
    case FabricKind::InfinityFabric: return "Infinity Fabric between all GPUs";
    case FabricKind::SharedMemory: return "shared memory of this host";
  }
  return "?";
}

}  // namespace gpuplan

#include "cluster/cluster_spec.h"

#include <array>

#include <fmt/format.h>

namespace gpuplan {
namespace {

constexpr std::array kFabrics{NameRow<FabricKind>{"none", FabricKind::None},
                              NameRow<FabricKind>{"nvswitch", FabricKind::NvSwitch},
                              NameRow<FabricKind>{"nvlink-mesh", FabricKind::NvLinkMesh},
                              NameRow<FabricKind>{"nvlink-bridge", FabricKind::NvLinkBridge},
                              NameRow<FabricKind>{"pcie", FabricKind::Pcie},
                              NameRow<FabricKind>{"pcie-host-staged", FabricKind::PcieHostStaged},
                              NameRow<FabricKind>{"infinity-fabric", FabricKind::InfinityFabric},
                              NameRow<FabricKind>{"shared-memory", FabricKind::SharedMemory}};

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

NameTable<FabricKind> names_of(FabricKind) { return {"fabric", kFabrics}; }

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

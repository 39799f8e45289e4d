// How near two devices of a machine are, and the layout that follows from it for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/node_layout.h"

namespace gpuplan {

/// As `nvidia-smi topo -m` calls it.
enum class PathClass : std::uint8_t { Self, NvLink, Pix, Pxb, Phb, Node, Sys };

/// Paths between all GPUs and adapters. A pair that NVLinks hide has NvLink: it joins nothing here.
struct PathMatrix {
  std::vector<std::string> labels;  // GPUs, then the names of adapters
  std::size_t num_gpus = 0;
  std::vector<std::vector<PathClass>> paths;      // [a][b]
  std::vector<std::optional<std::int64_t>> numa;  // of each
};

/// Sockets (NUMA nodes), host bridges and PCIe switches, numbered in the order of their first devices; no direct links.
NodeLayout layout_of(const PathMatrix& matrix);

}  // namespace gpuplan

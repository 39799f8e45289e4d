#include "cluster/node_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuplan {
namespace {

constexpr std::int64_t kMostSockets = 1024;

bool is_index(std::int64_t index, std::size_t size) { return index >= 0 && std::size_t(index) < size; }

std::string problem_of_place(const NodeLayout& layout, const DevicePlace& place, const std::string& what) {
  if (!is_index(place.bridge, layout.bridges.size()))
    return fmt::format("{} is on host bridge {}, which is not there", what, place.bridge);
  if (place.pcie_switch >= 0 && !is_index(place.pcie_switch, layout.switches.size()))
    return fmt::format("{} is on PCIe switch {}, which is not there", what, place.pcie_switch);
  return {};
}

std::string problem_of_switch(const NodeLayout& layout, std::size_t index) {
  const PcieSwitchPlace& place = layout.switches[index];
  if (!is_index(place.bridge, layout.bridges.size())) return fmt::format("PCIe switch {} is on no host bridge", index);
  if (place.parent >= std::int64_t(index)) return fmt::format("PCIe switch {} must come after the one above it", index);
  return {};
}

}  // namespace

std::string problem_of(const NodeLayout& layout, std::int64_t gpus_per_node) {
  if (layout.sockets > kMostSockets) return fmt::format("{} sockets are too many", layout.sockets);
  const auto num_sockets = std::size_t(layout.sockets > 0 ? layout.sockets : kMostSockets);
  for (const std::int64_t socket : layout.bridges)
    if (!is_index(socket, num_sockets)) return fmt::format("a host bridge is on socket {}, which is not there", socket);
  for (std::size_t i = 0; i < layout.switches.size(); ++i)
    if (auto problem = problem_of_switch(layout, i); !problem.empty()) return problem;
  if (!layout.gpus.empty() && std::int64_t(layout.gpus.size()) < gpus_per_node)
    return fmt::format("has places for {} of {} GPUs", layout.gpus.size(), gpus_per_node);
  for (const DevicePlace& gpu : layout.gpus)
    if (auto problem = problem_of_place(layout, gpu, "a GPU"); !problem.empty()) return problem;
  for (const DevicePlace& nic : layout.nics)
    if (nic.bridge >= 0)
      if (auto problem = problem_of_place(layout, nic, "an adapter"); !problem.empty()) return problem;
  const bool some =
      std::any_of(layout.nics.begin(), layout.nics.end(), [](const DevicePlace& nic) { return nic.bridge >= 0; });
  if (some &&
      std::any_of(layout.nics.begin(), layout.nics.end(), [](const DevicePlace& nic) { return nic.bridge < 0; }))
    return "some adapters have a place and others do not";
  if (some && layout.gpus.empty()) return "adapters have places and GPUs do not";
  const std::int64_t num_gpus = layout.gpus.empty() ? gpus_per_node : std::int64_t(layout.gpus.size());
  for (const DirectLink& link : layout.direct_links) {
    if (link.a < 0 || link.b < 0 || link.a == link.b) return "a direct link joins two GPUs";
    if (const std::int64_t last = std::max(link.a, link.b); last >= num_gpus)
      return fmt::format("a direct link joins GPU {}, which is not there", last);
  }
  return {};
}

}  // namespace gpuplan

#include <algorithm>

#include "cluster/machine_builder.h"

namespace gpuplan {
namespace {

/// The switches above a device, from the nearest on.
std::vector<std::int64_t> switches_above(const NodeLayout& layout, const DevicePlace& place) {
  std::vector<std::int64_t> chain;
  for (std::int64_t at = place.pcie_switch; at >= 0 && chain.size() <= layout.switches.size();
       at = layout.switches[std::size_t(at)].parent)
    chain.push_back(at);
  return chain;
}

std::vector<std::size_t> nearest_adapters(const NodeLayout& layout, const DevicePlace& gpu) {
  std::vector<std::size_t> nearest;
  PathClass best = PathClass::Sys;
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    const PathClass path = pcie_path(layout, gpu, layout.nics[i]);
    if (path < best) nearest.clear();
    best = std::min(best, path);
    if (path == best) nearest.push_back(i);
  }
  return nearest;
}

}  // namespace

PathClass pcie_path(const NodeLayout& layout, const DevicePlace& a, const DevicePlace& b) {
  const auto socket = [&](const DevicePlace& place) { return layout.bridges[std::size_t(place.bridge)]; };
  if (a.pcie_switch >= 0 && a.pcie_switch == b.pcie_switch) return PathClass::Pix;
  for (const std::int64_t above : switches_above(layout, a))
    for (const std::int64_t other : switches_above(layout, b))
      if (above == other) return PathClass::Pxb;
  if (a.bridge == b.bridge) return PathClass::Phb;
  return socket(a) == socket(b) ? PathClass::Node : PathClass::Sys;
}

std::vector<std::vector<std::size_t>> share_adapters(const NodeLayout& layout) {
  std::vector<std::vector<std::size_t>> nearest, shared;
  for (const DevicePlace& gpu : layout.gpus) nearest.push_back(nearest_adapters(layout, gpu));
  for (std::size_t gpu = 0; gpu < nearest.size(); ++gpu) {
    const auto& nics = nearest[gpu];
    const auto num_gpus = std::size_t(std::count(nearest.begin(), nearest.end(), nics));
    const auto position = std::size_t(std::count(nearest.begin(), nearest.begin() + std::ptrdiff_t(gpu), nics));
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < (nics.size() + num_gpus - 1) / num_gpus; ++i)
      mine.push_back(nics[(position * nics.size() / num_gpus + i) % nics.size()]);
    shared.push_back(std::move(mine));
  }
  return shared;
}

}  // namespace gpuplan

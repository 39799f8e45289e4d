// The reference that fair sharing is tested against.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "cluster/topology.h"

namespace gpuplan {

/// Textbook progressive filling, everything from scratch: raise all unfrozen rates to the level at which the first link
/// is full, freeze the flows on it, go on. Flows by id, routes as given.
inline std::map<std::uint32_t, double> naive_rates(const std::vector<double>& capacities,
                                                   const std::map<std::uint32_t, Route>& flows) {
  std::map<std::uint32_t, double> rates;
  while (rates.size() < flows.size()) {
    double level = std::numeric_limits<double>::infinity();
    std::size_t full = 0;
    for (std::size_t link = 0; link < capacities.size(); ++link) {
      double left = capacities[link], weight = 0;
      for (const auto& [id, route] : flows)
        for (const LinkUse& use : route)
          if (use.link == link) rates.count(id) ? left -= use.weight * rates[id] : weight += use.weight;
      if (weight > 0 && left / weight < level) level = left / weight, full = link;
    }
    std::vector<std::uint32_t> stop;
    for (const auto& [id, route] : flows)
      if (!rates.count(id))
        for (const LinkUse& use : route)
          if (use.link == full) {
            stop.push_back(id);
            break;
          }
    for (const std::uint32_t id : stop) rates[id] = level;
  }
  return rates;
}

}  // namespace gpuplan

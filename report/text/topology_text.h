// A topology as text: the tree of a machine, what every pair of GPUs reaches, the rings.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cluster/topology.h"
#include "report/text/screen.h"

namespace gpuplan {

struct TopologyAnswer {
  const ClusterSpec& cluster;
  const Topology& topology;
  std::optional<std::pair<std::int64_t, std::int64_t>> pair;  // --from, --to
};

std::string topology_text(const TopologyAnswer& answer, const Screen& screen);

}  // namespace gpuplan

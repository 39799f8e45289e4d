// What the flow network asks of a topology.
#include "sim/network.h"

namespace gpuplan {

std::unique_ptr<Network> make_flow_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                           const Topology& topology, EventQueue& queue) {
  NetworkLinks links;
  for (std::uint32_t link = 0; link < topology.num_links(); ++link)
    links.capacities.push_back(topology.link(link).capacity);
  links.ring_route = [&topology](std::int64_t from, std::int64_t to, const GroupShape& group) {
    return topology.ring_route(from, to, group.ranks_per_node(), group.size);
  };
  links.route = [&topology](std::int64_t from, std::int64_t to) { return topology.route(from, to); };
  links.copy_route = [&topology](std::int64_t rank, HostCopy kind) {
    switch (kind) {
      case HostCopy::HostToDevice: return topology.host_route(rank, true);
      case HostCopy::DeviceToHost: return topology.host_route(rank, false);
      case HostCopy::NvmeToHost: return topology.nvme_route(rank, false);
      case HostCopy::HostToNvme: break;
    }
    return topology.nvme_route(rank, true);
  };
  return make_flow_network(communicators, comm, std::move(links), queue);
}

}  // namespace gpuplan

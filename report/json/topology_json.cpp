#include "report/json/topology_json.h"

#include "report/text/machine_tree.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json route_json(const Topology& topology, const Route& route) {
  Json links = Json::array();
  for (const LinkUse& use : route) links.push_back({{"link", use.link}, {"bytes_per_byte", use.weight}});
  const RouteRate rate = rate_of(topology, route);
  return {{"links", links}, {"bandwidth_bytes_per_second", rate.rate.value}, {"bottleneck", rate.bottleneck}};
}

}  // namespace

nlohmann::ordered_json topology_json(const TopologyAnswer& answer) {
  const Topology& topology = answer.topology;
  Json vertices = Json::array(), links = Json::array();
  for (std::uint32_t v = 0; v < topology.num_vertices(); ++v) {
    const TopologyVertex& vertex = topology.vertex(v);
    vertices.push_back(
        {{"kind", to_string(vertex.kind)}, {"node", vertex.node}, {"index", vertex.index}, {"name", vertex.name}});
  }
  for (std::uint32_t l = 0; l < topology.num_links(); ++l) {
    const TopologyLink& link = topology.link(l);
    links.push_back({{"from", topology.source(l)},
                     {"to", topology.target(l)},
                     {"kind", to_string(link.kind)},
                     {"bandwidth_bytes_per_second", link.capacity.value},
                     {"latency_seconds", link.latency.value},
                     {"source", link.source}});
  }
  Json out{{"cluster", answer.cluster.name},
           {"num_gpus", answer.cluster.num_gpus()},
           {"num_nodes", answer.cluster.num_nodes()},
           {"fabric", answer.cluster.fabric_text},
           {"has_peer_to_peer", topology.has_peer_to_peer},
           {"is_rank_symmetric", topology.is_rank_symmetric},
           {"vertices", std::move(vertices)},
           {"links", std::move(links)}};
  if (answer.pair) out["route"] = route_json(topology, topology.route(answer.pair->first, answer.pair->second));
  out["assumptions"] = answer.cluster.assumptions;
  for (const std::string& text : topology.assumptions) out["assumptions"].push_back(text);
  return out;
}

}  // namespace gpuplan

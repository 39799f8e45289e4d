// The graph of links: what rings over idle machines reach, and who shares what.
#include "cluster/shipped_links.h"
#include "cluster/topology_builder.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/profile/profile.h"

using namespace gpuplan;

namespace {

using Group = std::vector<std::int64_t>;

/// The rate of every member when all messages of these rings are under way at once and each member sends as fast as the
/// next.
double ring_rate(const Topology& topology, const std::vector<Group>& groups, std::int64_t ranks_per_node) {
  std::map<std::uint32_t, double> loads;
  for (const Group& group : groups) {
    const auto order = topology.ring_order(group);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const LinkUse& use :
           topology.ring_route(order[i], order[(i + 1) % order.size()], ranks_per_node, std::int64_t(order.size())))
        loads[use.link] += use.weight;
  }
  double rate = 1e300;
  for (const auto& [link, load] : loads) rate = std::min(rate, topology.link(link).capacity.value / load);
  return rate / 1e9;
}

Group all_ranks(std::int64_t count, std::int64_t first = 0, std::int64_t stride = 1) {
  Group ranks;
  for (std::int64_t i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

double nvlink_share(const ClusterSpec& cluster) { return default_profile(cluster.gpus.front()).nvlink_efficiency; }

}  // namespace

TEST_CASE("topology: a ring over all GPUs of any machine of the catalogue reaches the bus bandwidth") {
  for (const char* id :
       {"dgx-a100-80gb", "dgx-h100", "dgx-1v", "gb200-nvl72", "hgx-mi300x", "srv-8x-4090", "srv-8x-5090",
        "srv-8x-a100-pcie", "ws-4x-a6000-nvlink", "ws-2x-a6000-nvlink", "ws-4x-3090", "aws-g5.48xlarge"}) {
    CAPTURE(id);
    const ClusterSpec cluster = load_cluster(id, std::nullopt);
    const bool is_nvlink = cluster.fabric == FabricKind::NvSwitch || cluster.fabric == FabricKind::NvLinkMesh ||
                           cluster.fabric == FabricKind::NvLinkBridge;
    const Topology topology = build_topology(cluster);
    const double expected = cluster.intra.bandwidth.value / 1e9 * (is_nvlink ? nvlink_share(cluster) : 1);
    const std::int64_t n = cluster.num_gpus();
    CHECK(ring_rate(topology, {all_ranks(n)}, n) == doctest::Approx(expected));
  }
}

TEST_CASE("topology: rings through several machines reach what their adapters carry together") {
  for (const char* id : {"dgx-a100-80gb", "dgx-h100"})
    for (const std::int64_t nodes : {2, 16, 128}) {
      CAPTURE(id);
      CAPTURE(nodes);
      const ClusterSpec cluster = load_cluster(id, 8 * nodes);
      const Topology topology = build_topology(cluster);
      // eight adapters for eight ranks; NVLink carries more
      const double adapters = 8 * cluster.inter.bandwidth.value / 1e9;
      CHECK(ring_rate(topology, {all_ranks(8 * nodes)}, 8) == doctest::Approx(adapters).epsilon(0.01));
      // HSDP: eight groups with one rank per machine, all at once, share them
      std::vector<Group> groups;
      for (std::int64_t i = 0; i < 8; ++i) groups.push_back(all_ranks(nodes, i, 8));
      CHECK(ring_rate(topology, groups, 1) == doctest::Approx(adapters / 8).epsilon(0.01));
    }
}

TEST_CASE("topology: folded machines and ranks see the same rates") {
  const ClusterSpec cluster = load_cluster("dgx-h100", 128);
  const double expected = 8 * cluster.inter.bandwidth.value / 1e9;
  TopologyFold fold{.node_stands_for = std::vector<std::int32_t>(16, 0)};
  const Topology one_machine = build_topology(cluster, fold);
  CHECK(one_machine.is_rank_symmetric);
  CHECK(ring_rate(one_machine, {all_ranks(8)}, 8) > expected);  // inside the machine
  // the messages of one machine's ranks stand for those of all
  const auto rate_of_first = [&](const Topology& t, std::int64_t members) {
    std::map<std::uint32_t, double> loads;
    for (std::int64_t i = 0; i < members; ++i)
      for (const LinkUse& use : t.ring_route(i, i + 1, 8, 128)) loads[use.link] += use.weight;
    double rate = 1e300;
    for (const auto& [link, load] : loads) rate = std::min(rate, t.link(link).capacity.value / load);
    return rate / 1e9;
  };
  CHECK(rate_of_first(one_machine, 8) == doctest::Approx(expected).epsilon(0.01));
  fold.one_gpu_per_node = true;
  const Topology one_gpu = build_topology(cluster, fold);
  CHECK(one_gpu.gpu(127) == one_gpu.gpu(0));
  CHECK(rate_of_first(one_gpu, 1) == doctest::Approx(expected).epsilon(0.01));
}

TEST_CASE("topology: fewer adapters than GPUs are shared, more are striped") {
  const ClusterSpec p4d = load_cluster("aws-p4d.24xlarge", 16);  // 4 adapters for 8 GPUs
  const Topology four = build_topology(p4d);
  CHECK(ring_rate(four, {all_ranks(16)}, 8) == doctest::Approx(8 * p4d.inter.bandwidth.value / 1e9));
  CHECK(four.is_rank_symmetric);
  const ClusterSpec p5 = load_cluster("aws-p5.48xlarge", 16);  // 32 adapters: four each
  const Topology many = build_topology(p5);
  CHECK(ring_rate(many, {all_ranks(16)}, 8) == doctest::Approx(8 * p5.inter.bandwidth.value / 1e9));
  const Route striped = many.route(0, 8);
  CHECK(std::count_if(striped.begin(), striped.end(), [](const LinkUse& use) { return use.weight == 0.25; }) >= 8);
  TopologyFold fold{.node_stands_for = {0, 0}, .one_gpu_per_node = true};
  const Topology folded = build_topology(p4d, fold);
  double rate = 1e300;
  for (const LinkUse& use : folded.ring_route(0, 1, 8, 16))
    rate = std::min(rate, folded.link(use.link).capacity.value / use.weight);
  CHECK(rate == doctest::Approx(8 * p4d.inter.bandwidth.value));
}

TEST_CASE("topology: groups of a part of a machine use the links among their members, and share what they all cross") {
  const ClusterSpec mesh = load_cluster("hgx-mi300x", 8);
  const double ring = mesh.intra.bandwidth.value;  // over the seven links of a GPU
  const Topology infinity = build_topology(mesh);
  CHECK(infinity.rate_of_groups(1, 8).value == doctest::Approx(ring));
  CHECK(infinity.rate_of_groups(1, 4).value == doctest::Approx(ring * 3 / 7));
  CHECK(infinity.rate_of_groups(4, 2).value == doctest::Approx(ring / 7));
  // eight cards on two sockets: pairs four apart all cross from one socket to the other
  const ClusterSpec cards = parse_gpus("8xA6000");
  const Topology pcie = build_topology(cards);
  CHECK(pcie.rate_of_groups(1, 4).value == doctest::Approx(cards.intra.bandwidth.value));
  CHECK(pcie.rate_of_groups(4, 2).value == doctest::Approx(cards.intra.bandwidth.value / 4));
}

TEST_CASE("topology: cards with one adapter send over the network from the last GPU only") {
  const ClusterSpec cluster = load_cluster("aws-g6.48xlarge", 16);  // 100 Gb/s for 8 GPUs
  const Topology topology = build_topology(cluster);
  const auto uses_network = [&](std::int64_t from, std::int64_t to) {
    for (const LinkUse& use : topology.ring_route(from, to, 8, 16))
      if (topology.link(use.link).kind == LinkKind::Network) return true;
    return false;
  };
  CHECK(!uses_network(0, 1));
  CHECK(uses_network(7, 8));
  CHECK(!topology.is_rank_symmetric);
  CHECK(ring_rate(topology, {all_ranks(16)}, 8) == doctest::Approx(8 * cluster.inter.bandwidth.value / 1e9));
}

TEST_CASE("topology: without peer-to-peer the way goes through host memory, which two GPUs share less than four") {
  ClusterSpec cluster = parse_gpus("4x4090");
  const Topology topology = build_topology(cluster);
  const Route way = topology.route(0, 1);
  bool passes_memory = false;
  for (const LinkUse& use : way) passes_memory |= topology.vertex(topology.target(use.link)).kind == VertexKind::Memory;
  CHECK(passes_memory);
  CHECK(!topology.has_peer_to_peer);
  CHECK(ring_rate(topology, {all_ranks(4)}, 4) ==
        doctest::Approx(test::pcie_share() * 31.5));  // one GPU's PCIe is the limit
  cluster.intra.bandwidth = {3.75e9};                 // measured: the memory path carries 4 x 3.75 GB/s
  const Topology slow = build_topology(cluster);
  CHECK(ring_rate(slow, {all_ranks(4)}, 4) == doctest::Approx(3.75));
  CHECK(ring_rate(slow, {all_ranks(2)}, 2) == doctest::Approx(7.5));
  CHECK(ring_rate(slow, {{0, 1}, {2, 3}}, 2) == doctest::Approx(3.75));
}

TEST_CASE("topology: copies of a GPU and its host reach the host link, two behind one switch share it") {
  const ClusterSpec cluster = load_cluster("dgx-h100", std::nullopt);
  const Topology topology = build_topology(cluster);
  double rate = 1e300;
  for (const LinkUse& use : topology.host_route(3, true)) rate = std::min(rate, topology.link(use.link).capacity.value);
  CHECK(rate == doctest::Approx(cluster.host_link.value * default_profile(cluster.gpus.front()).host_link_efficiency));
}

TEST_CASE("topology: bridges come before PCIe") {
  const Topology topology = build_topology(load_cluster("ws-4x-a6000-nvlink", std::nullopt));
  CHECK(topology.link(topology.route(0, 1).front().link).kind == LinkKind::NvLink);
  CHECK(topology.link(topology.route(1, 2).front().link).kind == LinkKind::Pcie);
}

TEST_CASE("topology: a leaf's oversubscribed links slow groups that all cross at once") {
  ClusterSpec cluster = load_cluster("dgx-a100-80gb", 8 * 4);
  cluster.layout.leaf_nodes = 2;
  cluster.layout.oversubscription = 2;
  const Topology topology = build_topology(cluster);
  std::vector<Group> groups;  // rank i of machines 0 and 2, 1 and 3: every message crosses
  for (std::int64_t i = 0; i < 16; ++i) groups.push_back({i, i + 16});
  CHECK(ring_rate(topology, groups, 1) == doctest::Approx(cluster.inter.bandwidth.value / 1e9 / 2));
  cluster.layout.oversubscription = 1;
  CHECK(ring_rate(build_topology(cluster), groups, 1) == doctest::Approx(cluster.inter.bandwidth.value / 1e9));
}

TEST_CASE("topology: symmetric only where every GPU of a machine sees the same") {
  CHECK(build_topology(load_cluster("dgx-a100-80gb", 16)).is_rank_symmetric);
  CHECK(!build_topology(load_cluster("dgx-1v", std::nullopt)).is_rank_symmetric);
  CHECK(!build_topology(load_cluster("srv-8x-4090", std::nullopt)).is_rank_symmetric);
  CHECK(!build_topology(load_cluster("dgx-a100-80gb", 12)).is_rank_symmetric);  // half a machine is left over
}

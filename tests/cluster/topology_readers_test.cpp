// Machines described by `nvidia-smi topo -m` and by NCCL's topology dump.
#include <algorithm>
#include <filesystem>
#include <map>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "cluster/cluster_file.h"
#include "cluster/shipped_links.h"
#include "cluster/topology_builder.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

std::string example(const char* name) {
  return (std::filesystem::path(GPUPLAN_TEST_DIR) / "data" / "topology" / name).string();
}

std::string topology_error(const std::string& text, const std::optional<std::string>& gpu = "A6000") {
  const test::ScratchFolder folder;
  const std::string file = folder.write("box.txt", text).string();
  try {
    load_cluster(file, std::nullopt, gpu);
  } catch (const InputError& error) {
    std::string message = error.what();
    for (auto at = message.find(file); at != std::string::npos; at = message.find(file))
      message.replace(at, file.size(), "F");
    return message;
  }
  return "no error";
}

LinkKind first_kind(const Topology& topology, std::int64_t from, std::int64_t to) {
  return topology.link(topology.route(from, to).front().link).kind;
}

bool uses(const Topology& topology, const Route& route, LinkKind kind) {
  return std::any_of(route.begin(), route.end(),
                     [&](const LinkUse& use) { return topology.link(use.link).kind == kind; });
}

}  // namespace

TEST_CASE("topo -m: four A6000 in bridged pairs on two sockets") {
  const ClusterSpec box = load_cluster(example("4xa6000_bridges.txt"), std::nullopt, "A6000");
  CHECK(box.num_gpus() == 4);
  CHECK(box.layout.sockets == 2);
  CHECK(box.layout.direct_links.size() == 2);
  CHECK(box.layout.direct_links[0].rate.value / 1e9 == doctest::Approx(48));  // four links x 12 GB/s
  CHECK(box.fabric == FabricKind::Pcie);                                      // between the pairs
  const Topology topology = build_topology(box);
  CHECK(first_kind(topology, 0, 1) == LinkKind::NvLink);
  CHECK(first_kind(topology, 1, 2) == LinkKind::Pcie);
  CHECK(uses(topology, topology.route(1, 2), LinkKind::Socket));
}

TEST_CASE("topo -m: a DGX A100 with escape codes in its header; NV12 between all means a switch") {
  const ClusterSpec box = load_cluster(example("dgx_a100.txt"), 16, "a100-sxm-80gb");
  CHECK(box.num_nodes() == 2);
  CHECK(box.fabric == FabricKind::NvSwitch);
  CHECK(box.intra.bandwidth == load_cluster("dgx-a100-80gb", std::nullopt).intra.bandwidth);
  CHECK(box.layout.nics.size() == 8);
  CHECK(box.layout.nics[3].name == "mlx5_3");
  CHECK(box.layout.sockets == 4);  // NUMA nodes
  CHECK(box.inter.bandwidth.value / 1e9 == doctest::Approx(25 * test::network_share()));
  CHECK(build_topology(box).is_rank_symmetric);
}

TEST_CASE(
    "topo -m: GPUs without an adapter nearby leave the board by those that have one, as NCCL's rings and PXN do") {
  // Adapter 0 is beside GPUs 0 and 1, adapters 1 and 2 together beside 4 and 5, adapter 3 beside 6 and 7.
  const ClusterSpec box = load_cluster(example("8xa100_4_adapters.txt"), 16, "a100-sxm-80gb");
  const Topology topology = build_topology(box);
  CHECK(!topology.is_rank_symmetric);
  std::map<std::string, double> sent;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    const Route route = topology.ring_route(rank, rank + 1, 8, 16);
    CHECK(!uses(topology, route, LinkKind::Socket));
    CHECK(!uses(topology, route, LinkKind::Memory));
    for (const LinkUse& use : route)
      if (topology.link(use.link).kind == LinkKind::Network)
        sent[topology.vertex(topology.source(use.link)).name] += use.weight;
  }
  // of the one message in eight that leaves: 200 Gb/s of an adapter reach 20 GB/s, and two behind one uplink of 24.8
  // GB/s share it
  CHECK(sent.at("NIC0") == doctest::Approx(20 / 64.8));
  CHECK(sent.at("NIC1") == doctest::Approx(12.4 / 64.8));
  CHECK(sent.at("NIC2") == doctest::Approx(12.4 / 64.8));
  CHECK(sent.at("NIC3") == doctest::Approx(20 / 64.8));
  const Route far = topology.route(2, 10);
  CHECK(topology.link(far.front().link).kind == LinkKind::NvLink);
  CHECK(!uses(topology, far, LinkKind::Socket));
}

TEST_CASE("topo -m: adapters have the usual rate, each; one of a storage network carries nothing") {
  // Four adapters, each beside two GPUs, and a fifth beside none: 4 x 200 Gb/s for 8 GPUs are 12.5 GB/s each
  const ClusterSpec box = load_cluster(example("8xa100_storage.txt"), 16, "a100-sxm-80gb");
  CHECK(box.layout.nics.size() == 5);
  CHECK(box.layout.nics.front().rate.value * 8 / 1e9 == doctest::Approx(200));
  CHECK(box.inter.bandwidth.value / 1e9 == doctest::Approx(12.5 * test::network_share()));
  const Topology topology = build_topology(box);
  CHECK(topology.is_rank_symmetric);
  double least = 1e300;
  for (const LinkUse& use : topology.route(0, 8))
    if (topology.link(use.link).kind == LinkKind::Network)
      least = std::min(least, topology.link(use.link).capacity.value / use.weight);
  CHECK(least / 1e9 == doctest::Approx(25 * test::network_share()));
}

TEST_CASE("NCCL dump: the same machine, with rates and without a guess") {
  const ClusterSpec box = load_cluster(example("dgx_a100.xml"), 16, "a100-sxm-80gb");
  CHECK(box.fabric == FabricKind::NvSwitch);
  CHECK(box.layout.switches.size() == 4);
  CHECK(box.layout.nics[0].rate.value * 8 / 1e9 == doctest::Approx(200));
  CHECK(box.host_link.value / 1e9 == doctest::Approx(24.8));
  CHECK(box.inter.bandwidth == load_cluster("dgx-a100-80gb", 16).inter.bandwidth);
  CHECK(build_topology(box).is_rank_symmetric);
}

TEST_CASE("NCCL dump: cards behind a switch, a narrow slot, no NVLink") {
  const ClusterSpec box = load_cluster(example("3x4090.xml"), std::nullopt, "4090");
  CHECK(box.fabric == FabricKind::PcieHostStaged);
  CHECK(box.host_link.value / 1e9 == doctest::Approx(12.4));  // the narrowest slot: x8
  const Topology topology = build_topology(box);
  CHECK(uses(topology, topology.route(0, 1), LinkKind::Memory));
  double rate = 1e300;
  std::vector<double> loads(topology.num_links());
  for (std::int64_t i = 0; i < 3; ++i)
    for (const LinkUse& use : topology.ring_route(i, (i + 1) % 3, 3, 3)) loads[use.link] += use.weight;
  for (std::uint32_t i = 0; i < loads.size(); ++i)
    if (loads[i] > 0) rate = std::min(rate, topology.link(i).capacity.value / loads[i]);
  CHECK(rate == doctest::Approx(box.intra.bandwidth.value));
}

TEST_CASE("machine texts: what is missing or damaged is said with its line") {
  const std::string matrix = read_file(example("4xa6000_bridges.txt")), xml = read_file(example("dgx_a100.xml"));
  CHECK(topology_error(matrix, std::nullopt) ==
        "F: does not say which GPU the machine has\n  add --gpu, as in --gpu A6000; 'gpuplan gpus' lists them");
  CHECK(topology_error(xml, "A6000") ==
        "--gpu: NVIDIA RTX A6000 (Ampere) has compute capability 8.6, the GPUs of F have 8.0");
  CHECK(topology_error("gpu: A6000\ngpus_per_node: 1\n", "A6000") ==
        "--gpu: F names its GPUs itself\n  leave --gpu away");
  const auto row3 = matrix.find("GPU2\tSYS");
  CHECK(topology_error(matrix.substr(0, row3)) == "F:4: the row of GPU2 is missing\n  the text is cut off");
  CHECK(topology_error(matrix.substr(0, row3 + 8)) == "F:4: the row of GPU2 has 1 of 4 cells\n  the text is cut off");
  std::string wrong = matrix;
  wrong.replace(wrong.find("NV4"), 3, "NW4");
  CHECK(topology_error(wrong).starts_with("F:2: 'NW4' between GPU0 and GPU1 is no path"));
  CHECK(topology_error(xml.substr(0, xml.size() / 2), "a100-sxm-80gb").find("cut off") != std::string::npos);
  CHECK(topology_error("<system version=\"1\">\n</system>\n").starts_with("F:1: has no <gpu>"));
  CHECK(
      topology_error("<system>\n<cpu></gpu>\n").starts_with("F:2: is not XML, or is cut off: Start-end tags mismatch"));
  CHECK(topology_error("<a><b>").starts_with("F:1: is not XML, or is cut off"));
  CHECK(topology_error("<system/>\n<system/>").starts_with("F:1: has more than one element at the top"));
  std::string deep = "<system>", many = "<system>";
  for (int i = 0; i < 100'000; ++i) deep += "<pci>", many += "<cpu/>";
  for (int i = 0; i < 100'000; ++i) deep += "</pci>";
  CHECK(topology_error(deep + "</system>").starts_with("F:1: is nested too deep"));
  CHECK(topology_error(many + "</system>").starts_with("F:1: has too many elements"));
  for (std::size_t length = 0; length < matrix.size(); length += 7)
    topology_error(matrix.substr(0, length));  // none crashes
  for (std::size_t length = 0; length < xml.size(); length += 211)
    topology_error(xml.substr(0, length), "a100-sxm-80gb");
}

TEST_CASE("cluster file: layout keys place switches and links; wrong places are named") {
  const char* head =
      "gpu: A6000\ngpus_per_node: 4\nintra: {fabric: pcie}\ninter: {nics: {count: 2, gbit_s: 100}, leaf_nodes: 32, "
      "oversubscription: 2}\n";
  const test::ScratchFolder folder;
  const ClusterSpec box = load_cluster(
      folder
          .write("box.yaml",
                 std::string(head) +
                     "layout:\n  pcie_switches:\n  - {gpus: [0, 1], nics: [0]}\n  - {gpus: [2, 3], nics: [1]}\n"
                     "  memory_gb_s: 307\n  nvme: 2\n")
          .string(),
      std::nullopt);
  CHECK(box.layout.switches.size() == 2);
  CHECK(box.layout.gpus[3].pcie_switch == 1);
  CHECK(box.layout.nics[1].pcie_switch == 1);
  CHECK(box.layout.oversubscription == 2);
  CHECK(box.layout.num_nvme == 2);
  const std::string problem =
      topology_error(std::string(head) + "layout:\n  pcie_switches:\n  - {gpus: [0, 4]}\n", std::nullopt);
  CAPTURE(problem);
  CHECK(problem.find("gpus: 4 is not one of the 4 of this machine, which count from 0") != std::string::npos);
  CHECK(problem.starts_with("F:7: layout.pcie_switches"));
}

TEST_CASE("cluster file: the sustained rate of these very cards") {
  const ClusterSpec box = load_cluster("4xRTX6000Ada-hoststaged", std::nullopt);
  CHECK(box.gpus.front().gemm_bf16.value / 1e12 == doctest::Approx(152));
  CHECK(box.gpus.front().gemm_fp16.value / 1e12 == doctest::Approx(152));
  CHECK(box.intra.bandwidth.value / 1e9 == doctest::Approx(3.75));
  CHECK(!build_topology(box).has_peer_to_peer);
  CHECK(std::any_of(box.assumptions.begin(), box.assumptions.end(), [](const std::string& text) {
    return text.find("152 TFLOP/s instead of 250.5 (fitted: inferred from the four course runs") != std::string::npos;
  }));
}

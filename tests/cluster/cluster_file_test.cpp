// `--cluster`: the machines of data/clusters, and files people write.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/cluster_file.h"
#include "cluster/shipped_links.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

ClusterSpec load(const std::string& text, std::optional<std::int64_t> num_gpus = {}) {
  const test::ScratchFolder folder;
  return load_cluster(folder.write("box.yaml", text).string(), num_gpus);
}

/// The message with the path of the file replaced by F.
std::string cluster_error(const std::string& text, std::optional<std::int64_t> num_gpus = {}) {
  const test::ScratchFolder folder;
  const std::string file = folder.write("box.yaml", text).string();
  try {
    load_cluster(file, num_gpus);
  } catch (const InputError& error) {
    std::string message = error.what();
    for (auto at = message.find(file); at != std::string::npos; at = message.find(file))
      message.replace(at, file.size(), "F");
    return message;
  }
  return "no error";
}

constexpr const char* kHint = "\n  the keys are explained in data/clusters/README.md";

}  // namespace

TEST_CASE("clusters: every machine of the catalogue loads") {
  const auto ids = list_clusters();
  CHECK(ids.size() >= 52);
  for (const std::string& id : ids) {
    CAPTURE(id);
    const ClusterSpec cluster = load_cluster(id, std::nullopt);
    CHECK(cluster.file == id);
    CHECK(!cluster.name.empty());
    CHECK(cluster.num_gpus() >= 2);
    CHECK(cluster.num_nodes() == 1);
    CHECK(cluster.fabric != FabricKind::None);
    CHECK(cluster.intra.bandwidth > 3.0_GBps);
    CHECK(cluster.intra.all_reduce_bandwidth >= cluster.intra.bandwidth);
    CHECK(cluster.intra.latency > 1.0_us);
    CHECK(cluster.host_link >= 12.0_GBps);
    CHECK(cluster.price_source.empty() == !cluster.price_per_gpu_hour);
  }
}

TEST_CASE("clusters: the price of a machine is shared by its GPUs") {
  const ClusterSpec p4d = load_cluster("aws-p4d.24xlarge", std::nullopt);
  CHECK(*p4d.price_per_gpu_hour == doctest::Approx(21.957642 / 8));
  CHECK(p4d.price_source.starts_with("21.958 USD per hour for a whole machine: AWS EC2 price list"));
  CHECK(p4d.host_memory == 1152_GiB);
  CHECK(!load_cluster("gcp-a3-megagpu-8g", std::nullopt).price_per_gpu_hour);  // null in the file: not known
  CHECK(*load_cluster("dgx-h100", std::nullopt).price_per_gpu_hour ==
        doctest::Approx(2.69));  // not in the file: the GPU's
}

TEST_CASE("clusters: a machine is cut to fewer GPUs, and still paid whole") {
  const ClusterSpec half = load_cluster("aws-p4d.24xlarge", 4);
  CHECK(half.num_gpus() == 4);
  CHECK(half.gpus_per_node == 4);
  CHECK(*half.price_per_gpu_hour == doctest::Approx(21.957642 / 4));
  CHECK(half.assumptions == std::vector<std::string>{"4 of the 8 GPUs of 1 machine are used; the whole is paid"});
  CHECK(load_cluster("dgx-a100-80gb", 1).fabric == FabricKind::None);
}

TEST_CASE("clusters: a machine is repeated to more GPUs") {
  const ClusterSpec four = load_cluster("dgx-a100-80gb", 32);
  CHECK(four.num_nodes() == 4);
  CHECK(four.gpus_per_node == 8);
  CHECK(four.inter.bandwidth.value / 1e9 ==
        doctest::Approx(8 * 200.0 / 8 / 8 * test::network_share()));  // 8 NICs of 200 Gb/s for 8 GPUs
  const ClusterSpec odd = load_cluster("aws-p4d.24xlarge", 12);
  CHECK(odd.num_nodes() == 2);
  CHECK(odd.inter.bandwidth.value / 1e9 ==
        doctest::Approx(4 * 100.0 / 8 / 8 * test::network_share()));  // 4 NICs of 100 Gb/s for 8 GPUs
  CHECK(*odd.price_per_gpu_hour == doctest::Approx(2 * 21.957642 / 12));
  CHECK(odd.assumptions == std::vector<std::string>{"12 of the 16 GPUs of 2 machines are used; the whole is paid"});
}

TEST_CASE("clusters: a machine without a network cannot be repeated") {
  CHECK_THROWS_WITH_AS(load_cluster("ws-4x-4090", 8),
                       "--cluster: ws-4x-4090 has 4 GPUs and no network, 8 were asked for\n  describe the network in a "
                       "cluster file under 'inter:'",
                       InputError);
  CHECK_THROWS_WITH_AS(load_cluster("ws-4x-4090", 0), "--cluster: 0 GPUs are too few\n  must be 1 or more", InputError);
  CHECK_THROWS_WITH_AS(load_cluster("dgx-h100", 1000000), "--cluster: 1000000 GPUs are too many\n  at most 131072",
                       InputError);
}

TEST_CASE("clusters: bridges help a pair; a ring over more falls to PCIe") {
  const ClusterSpec pair = load_cluster("ws-2x-a6000-nvlink", std::nullopt);
  CHECK(pair.fabric == FabricKind::NvLinkBridge);
  CHECK(pair.intra.bandwidth.value / 1e9 == doctest::Approx(48));  // 4 links x 12 GB/s
  const ClusterSpec four = load_cluster("ws-4x-a6000-nvlink", std::nullopt);
  CHECK(four.fabric == FabricKind::Pcie);
  CHECK(four.fabric_text == "PCIe 4.0 x16, peer-to-peer; NVLink bridges join pairs only; between pairs: PCIe 4 P2P");
  CHECK(four.intra.bandwidth.value / 1e9 == doctest::Approx(31.5 * test::pcie_share() * 1.5));
  CHECK(load_cluster("ws-4x-a6000-nvlink", 2).fabric == FabricKind::NvLinkBridge);
}

TEST_CASE("clusters: an id may be spelt loosely, an unknown one gets the nearest") {
  CHECK(load_cluster("DGX H100", std::nullopt).file == "dgx-h100");
  CHECK_THROWS_WITH_AS(load_cluster("dgx-h10", std::nullopt),
                       "--cluster: unknown machine 'dgx-h10'\n  did you mean one of 'dgx-h100', 'dgx-1v', 'dgx-h200'?",
                       InputError);
  CHECK_THROWS_WITH_AS(load_cluster("/no/such/box.yaml", std::nullopt),
                       "/no/such/box.yaml: cannot be read: No such file or directory", InputError);
}

TEST_CASE("cluster file: the example of the README means what it says") {
  const ClusterSpec box = load(R"(
name: the box under my desk
gpu: A6000
gpus_per_node: 4
num_nodes: 2
intra:
  fabric: pcie-host-staged
  pcie_generation: 4
  pcie_lanes: 8
  busbw_gb_s: [3.75, 5]
  all_reduce_busbw_gb_s: 4
  latency_us: 20
  source: nccl-tests, 2026-11-20
host: {memory_gib: 256}
inter:
  network: 100 GbE
  nics: {count: 1, gbit_s: 100}
price_usd_h: 4.36
price_source: our invoice
)");
  CHECK(box.name == "the box under my desk");
  CHECK(box.num_gpus() == 8);
  CHECK(box.gpus_per_node == 4);
  CHECK(box.fabric_text == "PCIe 4.0 x8, through host memory (no peer-to-peer)");
  CHECK(box.intra.bandwidth.value / 1e9 == doctest::Approx(3.75));
  CHECK(box.intra.all_reduce_bandwidth.value / 1e9 == doctest::Approx(4));
  CHECK(box.intra.latency.value == doctest::Approx(20e-6));
  CHECK(box.intra.source == "nccl-tests, 2026-11-20");
  CHECK(box.host_link.value / 1e9 == doctest::Approx(12.4));  // 24.8 x 8 / 16
  CHECK(box.inter.bandwidth.value / 1e9 == doctest::Approx(100.0 / 8 / 4 * test::network_share()));
  CHECK(box.host_memory == 256_GiB);
  CHECK(*box.price_per_gpu_hour == doctest::Approx(1.09));  // 4.36 / 4
}

TEST_CASE("cluster file: narrower slots scale the share, and drop what was measured in full ones") {
  const ClusterSpec box = load("gpu: 5090\ngpus_per_node: 2\nintra: {fabric: pcie-host-staged, pcie_lanes: 8}\n");
  CHECK(box.intra.bandwidth.value / 1e9 ==
        doctest::Approx(63 / 2.0 * test::pcie_share()));  // not the 35 measured in x16 slots
  const ClusterSpec old = load("gpu: 5090\ngpus_per_node: 2\nintra: {fabric: pcie-host-staged, pcie_generation: 3}\n");
  CHECK(old.host_link.value / 1e9 == doctest::Approx(12));
}

TEST_CASE("cluster file: a stated NVLink rate scales what was measured") {
  const ClusterSpec box =
      load("gpu: A100-SXM4-80GB\ngpus_per_node: 8\nintra: {fabric: nvswitch, per_direction_gb_s: 150}\n");
  CHECK(box.intra.bandwidth.value / 1e9 == doctest::Approx(117.5));  // 235 x 150 / 300
}

TEST_CASE("cluster file: a mixed machine lists its GPUs, and a part forgets the others") {
  const char* text = "gpus: [A6000, A6000, T4]\nintra: {fabric: pcie-host-staged}\n";
  CHECK(load(text).is_mixed());
  CHECK(load(text).gpus_per_node == 3);
  CHECK(load(text).host_link.value / 1e9 == doctest::Approx(12));  // the T4's PCIe 3.0
  CHECK(!load(text, 2).is_mixed());
  CHECK(load(text, 2).host_link.value / 1e9 == doctest::Approx(24.8));
}

TEST_CASE("cluster file: a fabric that the GPU does not have, and a mesh that is none, are refused") {
  CHECK(cluster_error("gpu: A6000\ngpus_per_node: 4\nintra: {fabric: infinity-fabric}\n")
            .find("NVIDIA RTX A6000 (Ampere) has no infinity-fabric") != std::string::npos);
  CHECK(cluster_error("gpu: A6000\ngpus_per_node: 4\nintra: {fabric: infinity-fabric, busbw_gb_s: 50}\n") ==
        "no error");
  CHECK(cluster_error("gpu: A6000\ngpus_per_node: 65\nintra: {fabric: infinity-fabric, busbw_gb_s: 50}\n")
            .find("links every GPU of a machine with every other: at most 64") != std::string::npos);
  CHECK(cluster_error("gpu: A6000\ngpus_per_node: 65\nintra: {fabric: pcie}\n") == "no error");
}

TEST_CASE("cluster file: names that leave something open are said") {
  CHECK(load("gpu: H100\ngpus_per_node: 1\n").assumptions ==
        std::vector<std::string>{"H100 means h100-sxm (NVIDIA H100 SXM5 80GB)"});
}

TEST_CASE("cluster file: mistakes are named with their line") {
  struct Row {
    const char *text, *message;
  };
  for (const Row& row :
       {Row{"gpu: A6000\ngpus_per_node: 1\nintre: 1\n",
            "F:3: intre: is not a known key; did you mean one of 'inter', 'intra'?"},
        {"gpu: A600\ngpus_per_node: 1\n",
         "F:1: gpu: unknown GPU 'A600'; did you mean 'A6000'? Another card is described by --gpu-spec "
         "'A600:12GiB,360GB/s,25TFLOPS', with its own figures"},
        {"gpus_per_node: 1\n", "F:1: gpu: is missing"},
        {"gpu: A6000\n", "F:1: gpus_per_node: is missing"},
        {"gpu: A6000\ngpus_per_node: 2\n", "F:1: intra: is missing: how are the GPUs of a machine linked?"},
        {"gpu: A6000\ngpus_per_node: 2\nintra: {fabric: nvswich}\n",
         "F:3: intra.fabric: unknown fabric 'nvswich': did you mean 'nvswitch'?"},
        {"gpu: A6000\ngpus_per_node: 2\nintra:\n  fabric: pcie\n  latency: 3 us\n",
         "F:5: intra.latency: is not a known key; did you mean 'latency_us'?"},
        {"gpu: A6000\ngpus_per_node: 2\nnum_nodes: 2\nintra: {fabric: pcie}\n",
         "F:3: num_nodes: several machines need a network: add 'inter:'"},
        {"gpu: A6000\ngpus_per_node: 0\n", "F:2: gpus_per_node: 0 is too small, must be 1 or more"},
        {"gpus: [A6000]\ngpus_per_node: 2\n", "F:2: gpus_per_node: is 2, but 'gpus' lists 1"},
        {"gpu: A6000\ngpus: [A6000]\n", "F:1: gpu: stands beside 'gpus': give one of them"},
        {"gpu: A6000\ngpus_per_node: 1\nhost: {memory_gib: 256 GiB}\n",
         "F:3: host.memory_gib: must be a number, found '256 GiB'"},
        {"gpu: A6000\ngpus_per_node: 1\ninter: {nics: {count: 2}}\n", "F:3: inter.nics.gbit_s: is missing"},
        {"gpu: A6000\ngpus_per_node: 2\nintra: {fabric: pcie}\nlayout: {sockets: 1, host_bridges: [0], gpus: [{bridge: "
         "0}, {bridge: 0}], nvlinks: [{gpus: [0, 5]}]}\n",
         "F:4: layout: a direct link joins GPU 5, which is not there"}}) {
    CAPTURE(row.text);
    CHECK(cluster_error(row.text) == std::string(row.message) + kHint);
  }
  CHECK(cluster_error("gpu: [\n").starts_with("F:2:1: not valid YAML: "));
  CHECK(cluster_error("gpu: A600\ngpus_per_node: four\ntypo: 1\n") ==
        std::string("F: 3 problems:\n"
                    "  F:1: gpu: unknown GPU 'A600'; did you mean 'A6000'? Another card is described by --gpu-spec "
                    "'A600:12GiB,360GB/s,25TFLOPS', with its own figures\n"
                    "  F:2: gpus_per_node: must be a number, found 'four'\n"
                    "  F:3: typo: is not a known key") +
            kHint);
}

// The cluster file that gpuplan writes, and what --cluster reads of it.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/yaml_file.h"
#include "cluster/cluster_file.h"
#include "cluster/cpu_ranks.h"
#include "cluster/host.h"
#include "cluster/local_cluster.h"
#include "cluster/local_machine.h"
#include "cluster/topology_builder.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

ClusterSpec read_back(const ClusterSpec& cluster, std::optional<std::int64_t> num_gpus = {}) {
  const test::ScratchFolder folder;
  const std::string text = cluster_file_text(cluster);
  CAPTURE(text);
  return load_cluster(folder.write("written.yaml", text).string(), num_gpus);
}

/// What the file does not hold: where it is, and the memory of the moment.
ClusterSpec kept(ClusterSpec cluster) {
  cluster.file.clear();
  cluster.memory_in_use.clear();
  return cluster;
}

void check_round_trip(const ClusterSpec& cluster) {
  CAPTURE(cluster.name);
  const ClusterSpec wanted = kept(cluster), found = kept(read_back(cluster));
  CHECK(found == wanted);
  if (found == wanted) return;
  CHECK(found.name == wanted.name);  // which part it is
  CHECK(found.gpus == wanted.gpus);
  CHECK(found.gpus_per_node == wanted.gpus_per_node);
  CHECK(found.fabric == wanted.fabric);
  CHECK(found.fabric_text == wanted.fabric_text);
  CHECK(found.intra == wanted.intra);
  CHECK(found.inter == wanted.inter);
  CHECK(found.host_link == wanted.host_link);
  CHECK(found.host_memory == wanted.host_memory);
  CHECK(found.price_per_gpu_hour == wanted.price_per_gpu_hour);
  CHECK(found.price_source == wanted.price_source);
  CHECK(found.assumptions == wanted.assumptions);
  CHECK(found.host_cores == wanted.host_cores);
  CHECK(found.layout == wanted.layout);
  CHECK(describe(found.host) == describe(wanted.host));
  CHECK(found.host == wanted.host);
  MESSAGE(cluster_file_text(cluster));
}

std::string example(const char* name) {
  return (std::filesystem::path(GPUPLAN_TEST_DIR) / "data" / "topology" / name).string();
}

}  // namespace

TEST_CASE("written cluster: every machine of the catalogue comes back, whole, in part and repeated") {
  for (const std::string& id : list_clusters()) {
    const ClusterSpec whole = load_cluster(id, std::nullopt);
    check_round_trip(whole);
    check_round_trip(load_cluster(id, 1));
    check_round_trip(load_cluster(id, std::max<std::int64_t>(1, whole.num_gpus() / 2)));
    if (!whole.layout.nics.empty()) {
      check_round_trip(load_cluster(id, 2 * whole.num_gpus()));
      check_round_trip(load_cluster(id, 2 * whole.num_gpus() - 1));  // the last machine is not full
    }
  }
}

TEST_CASE("written cluster: lists of GPUs come back") {
  for (const char* list :
       {"A6000", "4xA6000", "2x4090", "2x4090,2x3090", "8xH100", "16xH100", "12xA100", "16x4090", "64xGB200",
        "144xGB200", "8xV100", "4xMI250X", "16xMI300X", "10x4090,6x3090", "A6000,6000 Ada", "4xA10G"})
    check_round_trip(parse_gpus(list));
  for (const char* kind : {"desktop", "server"}) {
    ClusterSpec cluster = parse_gpus("2x4090");
    set_host(cluster, kind);
    check_round_trip(cluster);
  }
  const HostFacts host{.num_cores = 8, .memory = 64_GiB, .memory_available = 40_GiB, .cpu_flags = {"avx512f"}};
  check_round_trip(cpu_cluster(1, host));
  check_round_trip(cpu_cluster(4, host));
}

TEST_CASE("written cluster: machines described by other programs come back") {
  check_round_trip(load_cluster(example("4xa6000_bridges.txt"), std::nullopt, "A6000"));
  check_round_trip(load_cluster(example("dgx_a100.txt"), 16, "a100-sxm-80gb"));
  check_round_trip(load_cluster(example("dgx_a100.xml"), 16, "a100-sxm-80gb"));
  check_round_trip(load_cluster(example("3x4090.xml"), std::nullopt, "4090"));
}

TEST_CASE("written cluster: cards with other memory, and cards of no catalogue, come back") {
  const LocalGpu card{.name = "NVIDIA RTX A6000", .memory = 49140_MiB, .memory_free = 49000_MiB};
  LocalGpu with_ecc = card;
  with_ecc.memory = 46068_MiB;
  check_round_trip(local_cluster({.gpus = {card, with_ecc, card}}));
  const LocalGpu unknown{.name = "NVIDIA \"Next\" 1: #%é",
                         .memory = 12_GiB,
                         .memory_free = 11_GiB,
                         .compute_capability = "8.9",
                         .num_sms = 61};
  check_round_trip(local_cluster({.gpus = {unknown, card}}));
}

TEST_CASE("written cluster: measured figures come back to the last bit") {
  ClusterSpec box = parse_gpus("2x4090");
  for (int i = 1; i < 2000; ++i) {
    box.intra.bandwidth.value = 1e9 * std::sqrt(double(i) * 7919);
    box.intra.all_reduce_bandwidth.value = 3e9 / double(i);
    box.intra.latency.value = 1e-6 * std::sqrt(double(i));
    const std::string text =
        in_gb_s(box.intra.bandwidth) + in_gb_s(box.intra.all_reduce_bandwidth) + in_us(box.intra.latency);
    CAPTURE(text);
    if (i % 40 == 0) REQUIRE(read_back(box).intra == box.intra);
  }
}

TEST_CASE("written cluster: it can be used as any other file") {
  const ClusterSpec box = read_back(load_cluster("dgx-a100-80gb", std::nullopt), 16);
  CHECK(box.num_nodes() == 2);
  CHECK(box.inter == load_cluster("dgx-a100-80gb", 16).inter);
  CHECK(read_back(parse_gpus("2x4090,2x3090"), 2).gpus[1].id == "rtx-4090");
  CHECK(build_topology(read_back(load_cluster("dgx-a100-80gb", std::nullopt))).num_links() ==
        build_topology(load_cluster("dgx-a100-80gb", std::nullopt)).num_links());
  CHECK_THROWS_AS(read_back(parse_gpus("2x4090"), 4), InputError);  // no network
}

TEST_CASE("decimal: the fewest digits, with the point moved") {
  struct Row {
    double value;
    int exponent;
    const char* text;
  };
  for (const Row& row : {Row{1.06e10, 9, "10.6"},
                         {3e9, 9, "3"},
                         {1.5e8, 9, "0.15"},
                         {1.2e12, 9, "1200"},
                         {5.7e-6, -6, "5.7"},
                         {-2.5e9, 9, "-2.5"},
                         {0, 9, "0"},
                         {1e-300, 0, "1e-300"},
                         {1.25e300, 9, "1.25e291"},
                         {123456789012345, 0, "123456789012345"}}) {
    CAPTURE(row.text);
    CHECK(decimal(row.value, row.exponent) == row.text);
  }
  CHECK(in_quotes("a\"b\\\n") == "\"a\\\"b\\\\\\n\"");
}

TEST_CASE("cluster file: GPUs that the catalogue does not know are described in it; what is missing is named") {
  const test::ScratchFolder folder;
  const auto load = [&](const std::string& text) {
    return load_cluster(folder.write("box.yaml", text).string(), std::nullopt);
  };
  const ClusterSpec box = load(R"(
gpu: prototype
gpus_per_node: 2
intra: {fabric: pcie}
gpu_specs:
- gpu: prototype
  name: The next card
  architecture: ada
  compute_capability: '8.9'
  device_memory_mib: 32768
  framework_memory_mib: 32000
  memory_bandwidth_gb_s: 1500
  fp32_tflops: 100
  bf16_tflops: 200
  sm_count: 100
  pcie_generation: 5
  pcie_lanes: 16
)");
  CHECK(box.gpus[1].id == "prototype");
  CHECK(box.gpus[1].device_memory == 32768_MiB);
  CHECK(box.intra.bandwidth.value > 1e9);
  const ClusterSpec ecc = load(
      "gpu: rtx-a6000\ngpus_per_node: 1\ngpu_specs:\n- {gpu: rtx-a6000, device_memory_mib: 46068, "
      "framework_memory_mib: 45500}\n");
  CHECK(ecc.gpus[0].device_memory == 46068_MiB);
  CHECK(ecc.gpus[0].name == "NVIDIA RTX A6000 (Ampere)");
  try {
    load(
        "gpu: x\ngpus_per_node: 1\ngpu_specs:\n- {gpu: x, name: X, architecture: ada, fp32_tflops: 1, "
        "memory_bandwidth_gb_s: 10, "
        "pcie_generation: 4, pcie_lanes: 16, framework_memory_mib: 1}\n");
    FAIL("is refused");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("device_memory_mib: is missing, and the catalogue does not know this GPU") !=
          std::string::npos);
  }
  check_round_trip(ecc);
  // plans use the framework's total: the card's alone would change nothing
  CHECK_THROWS_WITH_AS(
      load("gpu: rtx-3090\ngpus_per_node: 1\ngpu_specs:\n- {gpu: rtx-3090, device_memory_mib: 12288}\n"),
      doctest::Contains("plans use framework_memory_mib"), InputError);
  CHECK_THROWS_AS(
      load("gpu: A6000\ngpus_per_node: 2\nintra: {fabric: pcie}\nlayout: {sockets: 1, host_bridges: [0, 3]}\n"),
      InputError);
  CHECK_THROWS_AS(load("gpu: A6000\ngpus_per_node: 1\nprice_usd_h: 1\nprice_usd_gpu_h: 1\n"), InputError);
}

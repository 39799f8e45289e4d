// `--gpus`: from a list of GPUs to the machine it means.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/cluster_spec.h"
#include "cluster/cpu_ranks.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_file.h"
#include "cluster/gpu_list.h"
#include "cluster/local_cluster.h"
#include "cluster/local_machine.h"
#include "cluster/profile/profile.h"
#include "cluster/shipped_links.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

std::string list_error(const std::string& text) {
  try {
    parse_gpus(text);
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

double gb_s(BytesPerSec rate) { return rate.value / 1e9; }

bool says(const ClusterSpec& cluster, const std::string& part) {
  for (const std::string& text : cluster.assumptions)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("gpu list: a count, a name, or several") {
  struct Row {
    const char* text;
    std::int64_t num_gpus;
    const char* first_id;
  };
  for (const Row& row : {Row{"4xA6000", 4, "rtx-a6000"},  {"A100", 1, "a100-sxm-80gb"},
                         {"8xH100", 8, "h100-sxm"},       {"4x A100 80GB", 4, "a100-sxm-80gb"},
                         {" 4 x A6000 ", 4, "rtx-a6000"}, {"2×T4", 2, "t4"},
                         {"2X4090", 2, "rtx-4090"},       {"2*4090", 2, "rtx-4090"},
                         {"4090", 1, "rtx-4090"},         {"6000 Ada", 1, "rtx-6000-ada"},
                         {"A6000x4", 4, "rtx-a6000"},     {"4090x2", 2, "rtx-4090"},
                         {"H100:8", 8, "h100-sxm"},       {"4 A100", 4, "a100-sxm-80gb"},
                         {"2 RTX 4090", 2, "rtx-4090"},   {"2 x RTX 4090", 2, "rtx-4090"},
                         {"2x2080ti", 2, "rtx-2080-ti"},  {"8xMI300X", 8, "mi300x"},
                         {"16xH100-SXM", 16, "h100-sxm"}, {"2x4090,2x3090", 4, "rtx-4090"},
                         {"4090, 3090", 2, "rtx-4090"}}) {
    CAPTURE(row.text);
    const ClusterSpec cluster = parse_gpus(row.text);
    CHECK(cluster.num_gpus() == row.num_gpus);
    CHECK(cluster.gpus.front().id == row.first_id);
  }
  CHECK(parse_gpus(" 4xA6000 ").name == "4xA6000");
}

TEST_CASE("gpu list: what names GPUs is told from other words") {
  for (const char* text : {"2x4090", "4090x2", "2 RTX 4090", "A100 80GB", "2x4090,2x3090"})
    CHECK_MESSAGE(names_gpus(text), text);
  for (const char* text : {"2x4009", "3090 4090", "llama3-8b 2x3090", "8x7b", "2", "x", ""})
    CHECK_MESSAGE(!names_gpus(text), text);
}

TEST_CASE("gpu list: mistakes are named") {
  struct Row {
    const char *text, *message;
  };
  for (const Row& row :
       {Row{"", "--gpus: is empty\n  write for example --gpus 4xA6000"},
        {"   ", "--gpus: is empty\n  write for example --gpus 4xA6000"},
        {"4x", "--gpus: '4x' names no GPU\n  write for example --gpus 4xA6000"},
        {"0xA100", "--gpus: 0 is too small\n  must be 1 or more"},
        {"-1xA100", "--gpus: -1 is too small\n  must be 1 or more"},
        {"4xA600",
         "--gpus: unknown GPU 'A600'\n  did you mean 'A6000'? Another card is described by --gpu-spec "
         "'A600:12GiB,360GB/s,25TFLOPS', with its own figures"},
        {"A100,", "--gpus: 'A100,' has an empty part between commas\n  write for example --gpus 4xA6000"},
        {"999999999xA100", "--gpus: '999999999xA100' has too many GPUs\n  at most 131072"},
        {"100000xA100,100000xA100", "--gpus: '100000xA100,100000xA100' has too many GPUs\n  at most 131072"},
        {"4xlocal", "--gpus: 'local' stands alone\n  it takes every GPU NVML finds"},
        {"local,A100", "--gpus: 'local' stands alone\n  it takes every GPU NVML finds"},
        {"2xcpu,A100", "--gpus: 'cpu' cannot be mixed with GPUs\n  write for example --gpus 4xcpu"}}) {
    CAPTURE(row.text);
    CHECK(list_error(row.text) == row.message);
  }
  CHECK(list_error("99999999999999999999xA100").starts_with("--gpus: 99999999999999999999 is out of range"));
}

TEST_CASE("gpu list: one GPU has no fabric") {
  const ClusterSpec one = parse_gpus("A6000");
  CHECK(one.fabric == FabricKind::None);
  CHECK(one.fabric_text == "one GPU");
  CHECK(one.gpus_per_node == 1);
  CHECK(one.num_nodes() == 1);
  CHECK(one.intra.bandwidth.value == 0);
  CHECK(gb_s(one.host_link) == doctest::Approx(24.8));  // PCIe 4.0 x16, effective
  CHECK(one.assumptions.empty());
}

TEST_CASE("gpu list: cards stand on PCIe, never bridged") {
  const ClusterSpec cards = parse_gpus("4xA6000");
  CHECK(cards.fabric == FabricKind::Pcie);
  CHECK(cards.fabric_text == "PCIe 4.0 x16, peer-to-peer");
  CHECK(gb_s(cards.intra.bandwidth) == doctest::Approx(31.5 * test::pcie_share() * 1.5));  // raw x share x peer-to-peer
  CHECK(cards.intra.latency.value == doctest::Approx(5.7e-6));
  CHECK(cards.assumptions == std::vector<std::string>{"one machine with PCIe 4.0 x16, peer-to-peer, no NVLink bridge "
                                                      "(--cluster ws-2x-a6000-nvlink has one)"});
}

TEST_CASE("gpu list: the machine that a card names has cards of its kind that a bridge joins") {
  int num_named = 0;
  for (const GpuNames& names : list_gpu_names()) {
    const GpuFile gpu = read_gpu_file(gpu_path(names.id));
    if (gpu.machine.bridged.empty()) continue;
    ++num_named;
    const ClusterSpec machine = load_cluster(gpu.machine.bridged, {});
    CHECK(machine.fabric == FabricKind::NvLinkBridge);
    CHECK(machine.gpus.front().id == names.id);
  }
  CHECK(num_named == 2);
}

TEST_CASE("gpu list: cards without peer-to-peer go through host memory") {
  const ClusterSpec cards = parse_gpus("2x4090");
  CHECK(cards.fabric == FabricKind::PcieHostStaged);
  CHECK(cards.fabric_text == "PCIe 4.0 x16, through host memory (no peer-to-peer)");
  CHECK(gb_s(cards.intra.bandwidth) == doctest::Approx(31.5 * test::pcie_share()));
  CHECK(cards.intra.latency.value == doctest::Approx(19.7e-6));  // 5.7 + 14
  CHECK(says(parse_gpus("4xA10G"), "depends on the virtual machine"));
}

TEST_CASE("gpu list: measured rings replace shares of the link rate") {
  struct Row {
    const char* text;
    FabricKind fabric;
    double bus, all_reduce;
  };
  for (const Row& row : {Row{"2xA100", FabricKind::NvSwitch, 208, 208},
                         {"8xA100", FabricKind::NvSwitch, 235, 235},
                         {"4xH100", FabricKind::NvSwitch, 365, 365},
                         {"8xH100", FabricKind::NvSwitch, 365, 478.9},
                         {"6xH200", FabricKind::NvSwitch, 365, 435.6},
                         {"8xH200", FabricKind::NvSwitch, 365, 482.3},
                         {"4xB200", FabricKind::NvSwitch, 690, 690},
                         {"8xB200", FabricKind::NvSwitch, 690, 838},
                         {"8xV100", FabricKind::NvLinkMesh, 120, 120},
                         {"2xV100", FabricKind::NvLinkMesh, 40, 40},
                         {"8xA800", FabricKind::NvSwitch, 155, 155},
                         {"8xMI300X", FabricKind::InfinityFabric, 312.9, 312.9},
                         {"2xMI300X", FabricKind::InfinityFabric, 47.7, 47.7},
                         {"8xPRO 6000", FabricKind::Pcie, 39.4, 39.4},
                         {"4x5090", FabricKind::PcieHostStaged, 35, 35},
                         {"8x5090", FabricKind::PcieHostStaged, 28, 28},
                         {"4xA100 PCIe", FabricKind::Pcie, 20.8, 20.8},
                         {"8xA100 PCIe", FabricKind::Pcie, 12.5, 12.5}}) {
    CAPTURE(row.text);
    const ClusterSpec cluster = parse_gpus(row.text);
    CHECK(cluster.fabric == row.fabric);
    CHECK(gb_s(cluster.intra.bandwidth) == doctest::Approx(row.bus));
    CHECK(gb_s(cluster.intra.all_reduce_bandwidth) == doctest::Approx(row.all_reduce));
    CHECK(!cluster.intra.source.empty());
  }
}

TEST_CASE("gpu list: more than eight are nodes of eight with the NICs of their time") {
  const ClusterSpec h100 = parse_gpus("16xH100");
  CHECK(h100.gpus_per_node == 8);
  CHECK(h100.num_nodes() == 2);
  CHECK(gb_s(h100.inter.bandwidth) ==
        doctest::Approx(400.0 / 8 * test::network_share()));  // one 400 Gb/s NIC x fitted share
  CHECK(h100.inter.latency.value == doctest::Approx(14e-6));
  CHECK(says(h100,
             "2 nodes of 8 with NVSwitch, NVLink 450 GB/s per direction; 400 Gb/s of network per GPU, non-blocking"));
  CHECK(gb_s(parse_gpus("16xA100").inter.bandwidth) == doctest::Approx(200.0 / 8 * test::network_share()));
  CHECK(gb_s(parse_gpus("16x4090").inter.bandwidth) == doctest::Approx(25.0 / 8 * test::network_share()));
  CHECK(parse_gpus("8xH100").inter.bandwidth.value == 0);  // one node: no network
}

TEST_CASE("gpu list: a last node that is partly filled is said") {
  const ClusterSpec cluster = parse_gpus("12xA100");
  CHECK(cluster.gpus_per_node == 8);
  CHECK(cluster.num_nodes() == 2);
  CHECK(says(cluster, "2 nodes of 8, the last with 4,"));
}

TEST_CASE("gpu list: GB200 share one NVLink domain of 72") {
  CHECK(parse_gpus("64xGB200").num_nodes() == 1);
  CHECK(parse_gpus("144xGB200").num_nodes() == 2);
}

TEST_CASE("gpu list: a card with two devices gives two ranks") {
  const ClusterSpec cluster = parse_gpus("4xMI250X");
  CHECK(cluster.num_gpus() == 8);
  CHECK(says(cluster, "one MI250X is 2 devices: 4 cards are 8 ranks"));
}

TEST_CASE("gpu list: different GPUs share one machine, and the slowest link decides") {
  const ClusterSpec mixed = parse_gpus("2x4090,2x3090");
  CHECK(mixed.is_mixed());
  CHECK(mixed.gpus_per_node == 4);
  CHECK(mixed.gpus[0].id == "rtx-4090");
  CHECK(mixed.gpus[3].id == "rtx-3090");
  CHECK(mixed.fabric == FabricKind::PcieHostStaged);
  CHECK(*mixed.price_per_gpu_hour == doctest::Approx((2 * 0.60 + 2 * 0.39) / 4));  // 0.495
  CHECK(mixed.price_source.starts_with("rtx-4090: runpod on-demand: "));
  CHECK(!parse_gpus("2xA6000,2xA6000").is_mixed());
  CHECK(parse_gpus("2xA6000,2xA6000").fabric == FabricKind::Pcie);
  CHECK(parse_gpus("A6000,T4").fabric == FabricKind::PcieHostStaged);  // different architectures
  CHECK(gb_s(parse_gpus("A6000,T4").intra.bandwidth) ==
        doctest::Approx(15.75 * test::pcie_share()));       // the T4's PCIe 3.0
  CHECK(!parse_gpus("A6000,6000 Ada").price_per_gpu_hour);  // one of them has no price
}

TEST_CASE("gpu list: the price is that of a GPU hour, or not known") {
  CHECK(*parse_gpus("4xA6000").price_per_gpu_hour == doctest::Approx(1.09));
  CHECK(*parse_gpus("8xH100").price_per_gpu_hour == doctest::Approx(2.69));
  CHECK(!parse_gpus("4xRTX 6000 Ada").price_per_gpu_hour);
  CHECK(parse_gpus("4xRTX 6000 Ada").price_source.empty());
}

TEST_CASE("gpu list: an assumption is said once") {
  const ClusterSpec cluster = parse_gpus("2xH100,2xH100");
  CHECK(cluster.assumptions.size() == 2);
  CHECK(cluster.assumptions[0] == "H100 means h100-sxm (NVIDIA H100 SXM5 80GB)");
}

TEST_CASE("cpu ranks share cores and memory of the host") {
  const HostFacts host{
      .num_cores = 8, .memory = 64_GiB, .memory_available = 40_GiB, .cpu_flags = {"sse2", "avx2", "avx512f"}};
  const ClusterSpec cluster = cpu_cluster(4, host);
  CHECK(cluster.num_gpus() == 4);
  CHECK(cluster.gpus_per_node == 4);
  CHECK(cluster.fabric == FabricKind::SharedMemory);
  CHECK(cluster.host_memory == 64_GiB);
  const GpuSpec& rank = cluster.gpus.front();
  CHECK(rank.is_cpu);
  CHECK(rank.device_memory == 10_GiB);                        // 40 / 4
  CHECK(rank.fp32.value == doctest::Approx(240e9));           // 2 cores x 120 GFLOP/s
  CHECK(gb_s(rank.memory_bandwidth) == doctest::Approx(20));  // 2 cores x 10 GB/s
  CHECK(gb_s(cluster.intra.bandwidth) == doctest::Approx(2.05));
  CHECK(says(cluster, "where nothing was measured"));
  CHECK(cpu_cluster(1, {.num_cores = 2, .memory_available = 8_GiB, .cpu_flags = {"avx2"}}).gpus[0].fp32.value ==
        doctest::Approx(156e9));
  CHECK(cpu_cluster(1, {.num_cores = 2, .memory_available = 8_GiB}).gpus[0].fp32.value == doctest::Approx(54e9));
}

TEST_CASE("cpu ranks are read from this host") {
  const ClusterSpec cluster = parse_gpus("2xCPU");
  CHECK(cluster.num_gpus() == 2);
  CHECK(cluster.gpus[0].is_cpu);
  CHECK(cluster.gpus[0].device_memory.count > 0);
  CHECK(default_profile(cluster.gpus[0]).id == "default-cpu");
}

TEST_CASE("local: names of the driver are found, and memory is what is really there") {
  // An A6000 with ECC on: 46068 MiB of 49140; 2 GiB are taken by others.
  const LocalGpu card{.name = "NVIDIA RTX A6000", .memory = 46068_MiB, .memory_free = 46068_MiB - 2_GiB};
  const ClusterSpec cluster = local_cluster({.gpus = {card, card}});
  CHECK(cluster.num_gpus() == 2);
  CHECK(cluster.gpus_per_node == 2);
  CHECK(cluster.name == "local");
  CHECK(cluster.fabric == FabricKind::Pcie);
  CHECK(cluster.gpus[0].device_memory == 46068_MiB);
  CHECK(cluster.gpus[0].framework_memory == Bytes{std::int64_t(47.27 * 0x1p30)} - 3072_MiB);
  CHECK(cluster.memory_in_use == std::vector<Bytes>{2_GiB, 2_GiB});
  CHECK_THROWS_AS(local_cluster({.gpus = {{.name = "NVIDIA GeForce GT 710", .memory = 2_GiB, .memory_free = 2_GiB}}}),
                  InputError);
}

TEST_CASE("local: more than eight GPUs are still one machine") {
  const LocalGpu card{.name = "Tesla V100-SXM3-32GB", .memory = 32768_MiB, .memory_free = 32768_MiB};
  CHECK_THROWS_AS(local_cluster({.gpus = {card}}), InputError);  // SXM3 is not in the catalogue
  const LocalGpu known{.name = "Tesla V100-SXM2-32GB", .memory = 32768_MiB, .memory_free = 32768_MiB};
  CHECK(local_cluster({.gpus = std::vector<LocalGpu>(16, known)}).num_nodes() == 1);
}

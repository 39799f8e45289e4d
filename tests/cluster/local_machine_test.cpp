// `--gpus local`: from what the driver says to the machine and its topology. The driver is tests/fakes/nvml.cpp, which
// plays the machines of tests/data/nvml.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/links.h"
#include "cluster/local_cluster.h"
#include "cluster/local_machine.h"
#include "cluster/topology_builder.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

/// Sets a variable of the environment for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { value ? setenv(name, value, 1) : unsetenv(name); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

LocalMachine machine_of(const char* name, const char* visible = nullptr, const char* library = GPUPLAN_FAKE_NVML) {
  const auto file = std::filesystem::path(GPUPLAN_TEST_DIR) / "data" / "nvml" / (std::string(name) + ".json");
  const Environment scenario("GPUPLAN_FAKE_NVML_MACHINE", file.c_str()), devices("CUDA_VISIBLE_DEVICES", visible);
  return query_local_machine(library);
}

ClusterSpec cluster_of(const char* name, const char* visible = nullptr) {
  return local_cluster(machine_of(name, visible));
}

std::string detection_error(const char* name, const char* visible = nullptr) {
  try {
    cluster_of(name, visible);
  } catch (const EnvError& error) { return error.what(); }
  return "no error";
}

bool mentions(const ClusterSpec& cluster, const std::string& part) {
  return std::any_of(cluster.assumptions.begin(), cluster.assumptions.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

bool uses(const Topology& topology, const Route& route, LinkKind kind) {
  return std::any_of(route.begin(), route.end(),
                     [&](const LinkUse& use) { return topology.link(use.link).kind == kind; });
}

double gigabytes_per_second(BytesPerSec rate) { return rate.value / 1e9; }

constexpr const char* kDescribe = "describe the GPUs with --gpus, for example --gpus 4xA6000";

}  // namespace

TEST_CASE("local: without a driver one line says what to do") {
  CHECK_THROWS_WITH_AS(query_local_machine("libnvidia-ml-not-here.so.1"),
                       "no NVIDIA driver found (libnvidia-ml-not-here.so.1 is missing): describe the GPUs with --gpus, "
                       "for example --gpus 4xA6000",
                       EnvError);
  CHECK_THROWS_WITH_AS(query_local_machine("libc.so.6"),  // a library that is not NVML
                       "the NVIDIA driver is too old (libnvidia-ml has no nvmlInit_v2): describe the GPUs with "
                       "--gpus, for example --gpus 4xA6000",
                       EnvError);
}

TEST_CASE("local: a driver that does not work is said in words, with what helps") {
  CHECK(detection_error("mismatch") ==
        std::string("the NVIDIA driver was updated while its old kernel module is still loaded: reboot, or reload the "
                    "module; or ") +
            kDescribe);
  CHECK(detection_error("denied") ==
        std::string("no permission to ask the NVIDIA driver: see the rights of /dev/nvidia* and the container's "
                    "devices; or ") +
            kDescribe);
  CHECK(detection_error("broken") ==
        std::string("the NVIDIA driver does not answer (nvmlInit_v2: Unknown Error): ") + kDescribe);
  const Environment none("GPUPLAN_FAKE_NVML_MACHINE", nullptr);
  CHECK_THROWS_WITH_AS(
      query_local_machine(GPUPLAN_FAKE_NVML),
      "the NVIDIA driver is installed but not loaded (no NVIDIA GPU, or its kernel module is missing); or describe the "
      "GPUs with --gpus, for example --gpus 4xA6000",
      EnvError);
}

TEST_CASE("local: everything the driver says of a GPU is read") {
  const LocalMachine machine = machine_of("8xh100");
  CHECK(machine.driver_version == "580.65.06");
  CHECK(machine.cuda_version == "13.0");
  CHECK(machine.host_memory.count > 0);
  REQUIRE(machine.gpus.size() == 8);
  const LocalGpu& gpu = machine.gpus[3];
  CHECK(gpu.name == "NVIDIA H100 80GB HBM3");
  CHECK(gpu.uuid == "GPU-a0000003-1111-2222-3333-444444444444");
  CHECK(gpu.bus_id == "00000000:61:00.0");
  CHECK(gpu.memory == 81559_MiB);
  CHECK(*gpu.memory_reserved == 551_MiB);
  CHECK(gpu.memory_free == 81559_MiB - 551_MiB - 20481_MiB);
  CHECK(gpu.compute_capability == "9.0");
  CHECK(gpu.num_sms == 132);                                                      // 16896 cores / 128
  CHECK(gigabytes_per_second(gpu.memory_bandwidth) == doctest::Approx(3352.32));  // 2 x 2619 MHz x 5120 bit
  CHECK(gpu.pcie.max_generation == 5);
  CHECK(gpu.pcie.lanes == 16);
  REQUIRE(gpu.nvlinks);
  CHECK(gpu.nvlinks->size() == 18);
  CHECK(gpu.nvlinks->back().remote == NvLinkRemote::Switch);
  CHECK(gigabytes_per_second(gpu.nvlink_rate) == doctest::Approx(26.562));
  CHECK(*gpu.numa_node == 0);
  CHECK(*machine.gpus[4].numa_node == 1);
  CHECK(*gpu.is_mig == false);
  CHECK(gpu.fabric->is_ready);
  REQUIRE(gpu.processes.size() == 2);
  CHECK(gpu.processes[0].pid == 4711);
  CHECK(*gpu.processes[0].memory == 20000_MiB);
  CHECK(!gpu.processes[1].memory);
  CHECK(machine.pairs[0][1].path == PathClass::Pix);
  CHECK(machine.pairs[0][2].path == PathClass::Node);
  CHECK(machine.pairs[0][4].path == PathClass::Sys);
  CHECK(*machine.pairs[0][4].can_read);
  CHECK(*machine.pairs[7][0].can_nvlink);
}

TEST_CASE("local: eight H100 on NVSwitches") {
  const ClusterSpec box = cluster_of("8xh100"), usual = parse_gpus("8xH100");
  CHECK(box.num_gpus() == 8);
  CHECK(box.fabric == FabricKind::NvSwitch);
  CHECK(box.gpus[0].id == "h100-sxm");
  CHECK(box.intra == usual.intra);  // 18 links: all that the card has
  CHECK(box.host_link == usual.host_link);
  CHECK(box.host_memory.count > 0);
  CHECK(box.layout.sockets == 2);
  CHECK(box.layout.switches.size() == 4);
  CHECK(box.layout.gpus[5].pcie_switch == 2);
  CHECK(box.memory_in_use == std::vector<Bytes>{1_MiB, 1_MiB, 1_MiB, 20481_MiB, 1_MiB, 1_MiB, 1_MiB, 1_MiB});
  CHECK(box.gpus[3].device_memory == 81559_MiB);
  CHECK(box.gpus[3].framework_memory == 81559_MiB - 551_MiB);
  CHECK(box.price_per_gpu_hour == usual.price_per_gpu_hour);
  CHECK(mentions(box, "memory in use now, not counted as free: GPU 3 20.0 GiB (process 4711, 4712)"));
  CHECK(mentions(box, "what the driver 580.65.06 (CUDA 13.0) says"));
  const Topology topology = build_topology(box);
  CHECK(uses(topology, topology.route(0, 7), LinkKind::NvLink));
  CHECK(!uses(topology, topology.route(0, 7), LinkKind::Pcie));
}

TEST_CASE("local: four A6000 in bridged pairs on two sockets, one of them with ECC") {
  const ClusterSpec box = cluster_of("4xa6000");
  CHECK(box.fabric == FabricKind::Pcie);  // between the pairs
  CHECK(box.layout.sockets == 2);
  REQUIRE(box.layout.direct_links.size() == 2);
  CHECK(box.layout.direct_links[1].a == 2);
  CHECK(box.layout.direct_links[1].num_links == 4);
  CHECK(gigabytes_per_second(box.layout.direct_links[1].rate) == doctest::Approx(48));  // four links x 12 GB/s
  CHECK(box.gpus[0].device_memory == 49140_MiB);
  CHECK(box.gpus[1].device_memory == 46068_MiB);
  CHECK(!box.is_mixed());
  const Topology topology = build_topology(box);
  CHECK(uses(topology, topology.route(0, 1), LinkKind::NvLink));
  CHECK(uses(topology, topology.route(1, 2), LinkKind::Socket));
  CHECK(topology.has_peer_to_peer);
}

TEST_CASE("local: the same machine as `nvidia-smi topo -m` describes it") {
  const auto text = std::filesystem::path(GPUPLAN_TEST_DIR) / "data" / "topology" / "4xa6000_bridges.txt";
  NodeLayout described = load_cluster(text.string(), std::nullopt, "A6000").layout,
             detected = cluster_of("4xa6000").layout;
  // NV4 hides from the text that the pair is on one host bridge
  CHECK(described.sockets == detected.sockets);
  CHECK(described.direct_links == detected.direct_links);
}

TEST_CASE("local: two 4090 on two sockets reach each other through host memory only") {
  const ClusterSpec box = cluster_of("2x4090");
  CHECK(box.fabric == FabricKind::PcieHostStaged);
  CHECK(box.layout.sockets == 2);
  CHECK(box.layout.bridges == std::vector<std::int64_t>{0, 1});
  CHECK(gigabytes_per_second(box.host_link) ==
        doctest::Approx(24.8 / 4));  // the slot with 4 of 16 lanes; idle generation 1 is no slot's
  CHECK(mentions(box, "GPU 1 uses 4 of its 16 PCIe lanes"));
  const Topology topology = build_topology(box);
  CHECK(!topology.has_peer_to_peer);
  CHECK(uses(topology, topology.route(0, 1), LinkKind::Memory));
}

TEST_CASE("local: what the driver says of peer-to-peer stands over the catalogue") {
  LocalMachine patched = machine_of("2x4090");
  for (auto& row : patched.pairs)
    for (LocalPair& pair : row) pair.can_read = pair.can_write = true;
  CHECK(local_cluster(patched).fabric == FabricKind::Pcie);
  patched.pairs[0][1].can_write = false;  // one direction is not enough
  CHECK(local_cluster(patched).fabric == FabricKind::PcieHostStaged);
  LocalMachine caged = machine_of("4xa6000", "0,2");
  for (auto& row : caged.pairs)
    for (LocalPair& pair : row) pair.can_read = pair.can_write = false;
  CHECK(local_cluster(caged).fabric == FabricKind::PcieHostStaged);
}

TEST_CASE("local: a driver that lacks the newer functions leaves them unknown") {
  const LocalMachine machine = machine_of("t4", nullptr, GPUPLAN_FAKE_OLD_NVML);
  REQUIRE(machine.gpus.size() == 1);
  const LocalGpu& gpu = machine.gpus.front();
  CHECK(gpu.compute_capability.empty());
  CHECK(gpu.bus_id.empty());
  CHECK(!gpu.nvlinks);
  CHECK(!gpu.memory_reserved);
  CHECK(!gpu.is_mig);
  CHECK(gpu.memory_free == 15109_MiB - 100_MiB);
  const ClusterSpec box = local_cluster(machine);
  CHECK(box.gpus[0].id == "t4");
  CHECK(box.fabric == FabricKind::None);
  CHECK(box.memory_in_use == std::vector<Bytes>{100_MiB});
  CHECK(gigabytes_per_second(box.host_link) == doctest::Approx(6));  // PCIe 3.0, 8 of 16 lanes
  CHECK(build_topology(box).num_links() > 0);
  const LocalMachine two = machine_of("4xa6000", "0,1", GPUPLAN_FAKE_OLD_NVML);
  CHECK(mentions(local_cluster(two), "the driver does not say what joins these GPUs: links are the usual ones"));
  CHECK(local_cluster(two).fabric == FabricKind::Pcie);
}

TEST_CASE("local: a card that the catalogue does not know takes the rates of a like one") {
  const ClusterSpec box = cluster_of("unknown");
  const GpuSpec& gpu = box.gpus.front();
  const GpuSpec like = find_gpu("4070", nullptr);  // 46 multiprocessors, the nearest to 50 with capability 8.9
  CHECK(gpu.id == "nvidia-geforce-rtx-4075");
  CHECK(gpu.architecture == "ada");
  CHECK(gpu.sm_count == 50);  // 6400 cores / 128
  CHECK(gpu.bf16.value == doctest::Approx(like.bf16.value * 50 / double(like.sm_count)));
  CHECK(gigabytes_per_second(gpu.memory_bandwidth) == doctest::Approx(504.048));  // 2 x 10501 MHz x 192 bit
  CHECK(gpu.device_memory == 12282_MiB);
  CHECK(gpu.framework_memory == 12282_MiB - 300_MiB);
  CHECK(!box.price_per_gpu_hour);
  CHECK(box.fabric == FabricKind::PcieHostStaged);
  CHECK(mentions(box, "NVIDIA GeForce RTX 4075 is not in the catalogue: rates are those of " + like.name));
  CHECK(build_topology(box).num_vertices() > 2);
}

TEST_CASE("local: of products that the driver calls alike, the one with as much memory is meant") {
  struct Row {
    const char* name;
    Bytes memory;
    const char* id;
  };
  for (const Row& row : {Row{"NVIDIA GeForce RTX 3080", 10240_MiB, "rtx-3080-10gb"},
                         {"NVIDIA GeForce RTX 3080", 12288_MiB, "rtx-3080-12gb"},
                         {"NVIDIA GeForce RTX 4060 Ti", 8188_MiB, "rtx-4060-ti-8gb"},
                         {"NVIDIA GeForce RTX 4060 Ti", 16380_MiB, "rtx-4060-ti-16gb"},
                         {"NVIDIA GeForce RTX 5060 Ti", 8151_MiB, "rtx-5060-ti-8gb"},
                         {"NVIDIA GeForce RTX 5060 Ti", 16311_MiB, "rtx-5060-ti-16gb"}}) {
    CAPTURE(row.id);
    const LocalGpu card{.name = row.name, .memory = row.memory};
    std::vector<std::string> assumptions;
    CHECK(product_of(card, assumptions).spec.id == row.id);
    CHECK(assumptions.empty());
  }
}

TEST_CASE("local: a card that nothing in the catalogue is like is refused") {
  const LocalGpu old{
      .name = "NVIDIA GeForce GT 710", .memory = 2_GiB, .memory_free = 2_GiB, .compute_capability = "3.5"};
  CHECK_THROWS_WITH_AS(local_cluster({.gpus = {old}}),
                       "'NVIDIA GeForce GT 710' is not in the catalogue, and no catalogued GPU has compute capability "
                       "3.5 or lower\n  describe it in a "
                       "file of data/gpus",
                       InputError);
  LocalGpu unsaid = old;
  unsaid.compute_capability.clear();
  CHECK_THROWS_AS(local_cluster({.gpus = {unsaid}}), InputError);
}

TEST_CASE("local: names of the driver are those of the catalogue") {
  for (const auto& [name, id] : std::vector<std::pair<const char*, const char*>>{
           {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
           {"A100-SXM4-80GB", "a100-sxm-80gb"},
           {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
           {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
           {"NVIDIA H100 PCIe", "h100-pcie"},
           {"NVIDIA H100 NVL", "h100-nvl"},
           {"NVIDIA H200", "h200-sxm"},
           {"NVIDIA B200", "b200-sxm"},
           {"NVIDIA GH200 480GB", "gh200-96gb"},
           {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
           {"NVIDIA L40S", "l40s"},
           {"NVIDIA A10G", "a10g"},
           {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
           {"Tesla V100-PCIE-16GB", "v100-pcie-16gb"},
           {"NVIDIA TITAN RTX", "titan-rtx"},
           {"NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"},
           {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"}}) {
    CAPTURE(name);
    std::vector<std::string> assumptions;
    CHECK(product_of({.name = name}, assumptions).spec.id == id);
  }
}

TEST_CASE("local: an SXM card takes after SXM cards, a new capability after the next older one") {
  std::vector<std::string> unused;
  const GpuFile custom = product_of(
      {.name = "NVIDIA A100-SXM-64GB", .memory = 65536_MiB, .compute_capability = "8.0", .num_sms = 124}, unused);
  CHECK(custom.spec.form_factor == "sxm");
  CHECK(custom.spec.source.find("a100-sxm") != std::string::npos);
  const GpuFile newer = product_of({.name = "NVIDIA GB10", .compute_capability = "12.1", .num_sms = 48}, unused);
  CHECK(newer.spec.compute_capability == "12.1");
  CHECK(newer.spec.architecture == "blackwell");
  CHECK(newer.spec.sm_count == 48);
  CHECK(
      product_of({.name = "NVIDIA PG509", .compute_capability = "7.2"}, unused).spec.is_plan_only);  // takes after 7.0
}

TEST_CASE("local: a GPU without memory of its own has the host's") {
  LocalMachine box{.gpus = {{.name = "NVIDIA GB10", .compute_capability = "12.1", .num_sms = 48}}};
  CHECK_THROWS_AS(local_cluster(box), InputError);
  box.host_memory = 120_GiB, box.host_memory_free = 100_GiB;
  const ClusterSpec cluster = local_cluster(box);
  CHECK(cluster.gpus[0].device_memory == 120_GiB);
  CHECK(cluster.memory_in_use == std::vector<Bytes>{20_GiB});
  CHECK(mentions(cluster, "NVIDIA GB10 shares the memory of the host"));
}

TEST_CASE("local: a GPU split by MIG is one of its instances") {
  const ClusterSpec first = cluster_of("mig");
  const GpuSpec whole = find_gpu("A100 SXM 80GB", nullptr);
  CHECK(first.num_gpus() == 1);
  CHECK(first.gpus[0].sm_count == 42);
  CHECK(first.gpus[0].device_memory == 40448_MiB);
  CHECK(first.gpus[0].bf16.value == doctest::Approx(whole.bf16.value * 42 / 108));
  CHECK(first.memory_in_use == std::vector<Bytes>{25_MiB});
  CHECK(mentions(first, "is split by MIG: planned for one instance with 42 multiprocessors and 39.5 GiB"));
  CHECK(cluster_of("mig", "MIG-bbbb").gpus[0].sm_count == 28);
  LocalMachine empty = machine_of("mig");
  empty.gpus[0].mig_instances.clear();
  CHECK_THROWS_AS(local_cluster(empty), EnvError);
  LocalMachine beside = machine_of("mixed");
  beside.gpus[1].is_mig = true;
  CHECK(local_cluster(beside).num_gpus() == 1);
  CHECK(mentions(local_cluster(beside), "1 GPUs are split by MIG and left out"));
}

TEST_CASE("local: different GPUs in one machine") {
  const ClusterSpec box = cluster_of("mixed");
  CHECK(box.is_mixed());
  CHECK(box.fabric == FabricKind::PcieHostStaged);
  CHECK(gigabytes_per_second(box.host_link) == doctest::Approx(12));  // the T4's PCIe 3.0
  CHECK(box.layout.sockets == 1);
  CHECK(box.layout.bridges.size() == 2);
  CHECK(mentions(box, "ranks are in PCI order"));
}

TEST_CASE("local: a virtual machine hides where NVLinks lead; that all reach each other tells of a switch") {
  const ClusterSpec box = cluster_of("vm8xh100");
  CHECK(box.fabric == FabricKind::NvSwitch);
  CHECK(box.intra == parse_gpus("8xH100").intra);
  CHECK(!box.layout.is_stated());  // places are not known either: the usual ones
  CHECK(mentions(box, "the NVLink fabric is not ready"));
  CHECK(build_topology(box).is_rank_symmetric);
}

TEST_CASE("local: fewer NVLinks to the switch carry less") {
  LocalMachine machine = machine_of("8xh100");
  machine.gpus[2].nvlinks->resize(9);
  CHECK(gigabytes_per_second(local_cluster(machine).intra.bandwidth) == doctest::Approx(365.0 / 2));
}

TEST_CASE("local: a lost GPU is left out and said") {
  const ClusterSpec box = cluster_of("lost");
  CHECK(box.num_gpus() == 1);
  CHECK(mentions(box, "GPU 1 has fallen off the bus: reset it, or reboot: left out"));
  CHECK(detection_error("lost", "1").starts_with("no GPU is visible (GPU 1 has fallen off the bus"));
}

TEST_CASE("local: an NVLink to a GPU that is not visible is said") {
  const ClusterSpec box = cluster_of("4xa6000", "0,2");
  CHECK(box.fabric == FabricKind::Pcie);
  CHECK(box.layout.direct_links.empty());
  CHECK(mentions(box, "8 NVLinks lead to GPUs that are not visible here: not used"));
}

TEST_CASE("CUDA_VISIBLE_DEVICES: numbers and UUIDs up to the first that names no GPU") {
  const std::vector<LocalGpu> all{
      {.uuid = "GPU-aaaa"}, {.uuid = "GPU-abbb", .mig_instances = {{.uuid = "MIG-1234"}}}, {.uuid = "GPU-cccc"}};
  const auto shown = [&](const std::optional<std::string>& visible) {
    std::string out;
    for (const VisibleGpu& gpu : visible_gpus(all, visible))
      out += std::to_string(gpu.index) + (gpu.mig_instance ? "m" : "");
    return out;
  };
  CHECK(shown(std::nullopt) == "012");
  CHECK(shown("") == "");
  CHECK(shown("2, 0") == "20");
  CHECK(shown("0,-1,1") == "0");
  CHECK(shown("0,7,1") == "0");
  CHECK(shown("1,1") == "");
  CHECK(shown("GPU-c,GPU-ab") == "21");
  CHECK(shown("MIG-1234") == "1m");
  CHECK(shown("GPU-") == "");
  CHECK(shown("NoDevFiles") == "");
  CHECK(shown("99999999999999999999") == "");
  CHECK(detection_error("8xh100", "") == std::string("no GPU is visible (driver, CUDA_VISIBLE_DEVICES): ") + kDescribe);
  CHECK(cluster_of("8xh100", "6,7").num_gpus() == 2);
}

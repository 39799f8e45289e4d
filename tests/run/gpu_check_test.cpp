#include "run/gpu_check.h"

#include <cstdlib>

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/error.h"
#include "cluster/gpu_catalogue.h"
#include "run/environment.h"
#include "run/files/error_text.h"
#include "run/native_fixture.h"
#include "run/rank_memory.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

GpuWanted wanted(const std::string& name, const std::string& product, std::int64_t gib) {
  return {.name = name, .product = product, .needed = Bytes{gib << 30}};
}
GpuHere gpu(const std::string& name, const std::string& product, std::int64_t free_gib) {
  return {.name = name,
          .product = product,
          .memory = Bytes{48LL << 30},
          .memory_free = Bytes{free_gib << 30},
          .processes = {}};
}

const GpuWanted kA6000 = wanted("RTX A6000", "rtx-a6000", 20);

/// NVML as tests play it, on a machine with these GPUs.
struct FakeDriver {
  explicit FakeDriver(const std::string& gpus) : variables(Variables{{"GPUPLAN_NVML", GPUPLAN_FAKE_NVML}}) {
    setenv("GPUPLAN_FAKE_NVML_MACHINE",
           scratch.write("machine.json", R"({"driver":"580.65","gpus":[)" + gpus + "]}").c_str(), 1);
  }
  ScratchFolder scratch;
  Environment variables;
};

}  // namespace

TEST_CASE("gpu check: the plan's GPUs with room for it are taken") {
  require_gpus(std::array{kA6000, kA6000}, std::array{gpu("NVIDIA RTX A6000", "rtx-a6000", 40),
                                                      gpu("NVIDIA RTX A6000", "rtx-a6000", 20), gpu("T4", "t4", 1)});
}

TEST_CASE(
    "gpu check: too few GPUs, and others than the plan's, are named; a mixed machine runs the plan that says so") {
  const GpuHere a6000 = gpu("NVIDIA RTX A6000", "rtx-a6000", 40),
                ada = gpu("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", 40);
  const std::string few = error_text<InputError>([&] { require_gpus(std::array{kA6000, kA6000}, std::array{a6000}); });
  check_mentions(few, "2 ranks");
  check_mentions(few, "1x NVIDIA RTX A6000");
  check_mentions(error_text<InputError>([&] { require_gpus(std::array{kA6000}, {}); }), "none");
  const std::string mixed = error_text<InputError>([&] {
    require_gpus(std::array{kA6000, kA6000}, std::array{a6000, ada});
  });
  check_mentions(mixed,
                 "the plan is for 2x RTX A6000, and here are 1x NVIDIA RTX A6000, 1x NVIDIA RTX 6000 Ada Generation");
  check_mentions(mixed, "--gpus local");
  require_gpus(std::array{kA6000, wanted("RTX 6000 Ada", "rtx-6000-ada", 20)}, std::array{a6000, ada});
}

TEST_CASE("gpu check: memory that others hold is told with who holds it") {
  GpuHere full = gpu("NVIDIA RTX A6000", "rtx-a6000", 12);
  full.processes = {{.pid = getpid(), .memory = Bytes{30LL << 30}}, {.pid = 999999999, .memory = std::nullopt}};
  const std::string text = error_text<EnvError>([&] { require_gpus(std::array{kA6000}, std::array{full}, 3); });
  check_mentions(text, "GPU 3 (NVIDIA RTX A6000): 20.0 GiB needed, 12.0 GiB of 48.0 GiB free");
  check_mentions(text, "test_run " + std::to_string(getpid()) + " (30.0 GiB)");
  check_mentions(text, "process 999999999");
}

TEST_CASE("gpu check: a rank takes the GPU of its place, or the only one that its launcher shows it") {
  CHECK(gpu_index(0, 1) == 0);
  CHECK(gpu_index(3, 8) == 3);
  CHECK(gpu_index(5, 1) == 0);  // srun --gpus-per-task=1
  check_mentions(error_text<InputError>([] { gpu_index(4, 4); }), "4 GPUs");
  check_mentions(error_text<EnvError>([] { gpu_index(0, 0); }), "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("gpu check: GPUs are counted by PCI bus, unless the user has said how") {
  const Environment none(Variables{});
  count_gpus_by_bus();
  CHECK(std::string(std::getenv("CUDA_DEVICE_ORDER")) == "PCI_BUS_ID");
  setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  count_gpus_by_bus();
  CHECK(std::string(std::getenv("CUDA_DEVICE_ORDER")) == "FASTEST_FIRST");
}

TEST_CASE("gpu check: what NVML says of this machine, in the order of CUDA_VISIBLE_DEVICES; nothing without a driver") {
  {
    const Environment none(Variables{{"GPUPLAN_NVML", "/nonexistent/libnvidia-ml.so.1"}});
    CHECK(!gpus_here());
  }
  const FakeDriver driver(
      R"({"name":"NVIDIA RTX A6000","memory_mib":49140,"used_mib":10240,"uuid":"GPU-a","processes":[[4711,10000]]},)"
      R"({"name":"NVIDIA H200","memory_mib":143771,"used_mib":0,"uuid":"GPU-b"})");
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  const auto here = gpus_here();
  REQUIRE(here);
  REQUIRE(here->size() == 2);
  CHECK((*here)[0].name == "NVIDIA H200");
  CHECK((*here)[0].product == find_gpu("H200", nullptr).id);
  CHECK((*here)[1].product == find_gpu("A6000", nullptr).id);
  CHECK((*here)[1].memory_free == Bytes{(49140LL - 10240) << 20});
  REQUIRE((*here)[1].processes.size() == 1);
  CHECK((*here)[1].processes[0].pid == 4711);
}

TEST_CASE(
    "gpu check: what each rank needs is what the estimate says of its class; GPUs that are for planning only are "
    "refused") {
  NativeCase c{.strategy = "mp", .ranks = 2};
  EstimateRequest request = request_of(c);
  request.cluster = parse_gpus("2xA6000");
  request.profile = nullptr;  // the catalogue's of this GPU
  request.strategy = "mp";
  const EstimateResult result = estimate(request);
  REQUIRE(result.strategies.size() == 1);
  const auto all = gpus_wanted(request, result, result.strategies[0].strategy);
  REQUIRE(all.size() == 2);
  CHECK(std::max(all[0].needed, all[1].needed) == result.strategies[0].tiers.process);
  CHECK(all[0].needed != all[1].needed);  // the last stage has the head
  CHECK(all[0].product == find_gpu("A6000", nullptr).id);
  request.cluster = parse_gpus("2xV100");
  check_mentions(error_text<InputError>([&] { gpus_wanted(request, result, result.strategies[0].strategy); }), "V100");
}

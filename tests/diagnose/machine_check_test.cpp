// gpuplan doctor on machines that the fake driver, a folder in the place of /proc and one in the place of /sys play.
#include "diagnose/machine_check.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "environment_variable.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

using test::ScratchFolder;
using test::Variable;

/// A machine for as long as this lives.
class PlayedMachine {
 public:
  explicit PlayedMachine(const std::string& name)
      : nvml_("GPUPLAN_NVML", GPUPLAN_FAKE_NVML),
        scenario_("GPUPLAN_FAKE_NVML_MACHINE",
                  (std::string(GPUPLAN_TEST_DIR) + "/data/nvml/" + name + ".json").c_str()),
        proc_("GPUPLAN_PROC", (folder.path() / "proc").c_str()),
        sys_("GPUPLAN_SYS", (folder.path() / "sys").c_str()),
        path_("PATH", (folder.path() / "bin").c_str()) {
    folder.write("proc/meminfo", "MemTotal:  67108864 kB\nMemAvailable:  60000000 kB\n");
    folder.write("proc/cpuinfo", "model name : Test CPU\nflags : avx2\n");
    folder.write("proc/cmdline", "quiet\n");
  }

  /// A bridge whose extended settings begin with a capability of another kind and go on to ACS.
  void add_bridge(const std::string& name, bool redirects) const {
    std::string config(4096, '\0');
    const auto put = [&](std::size_t at, std::uint32_t word) {
      for (std::size_t i = 0; i < 4; ++i) config[at + i] = char(word >> (8 * i));
    };
    put(0x100, 0x0001 | 1U << 16 | 0x148U << 20);
    put(0x148, 0x000d | 1U << 16);
    put(0x148 + 4, (redirects ? 1U << 2 : 0U) << 16);
    folder.write("sys/bus/pci/devices/" + name + "/class", "0x060400\n");
    folder.write("sys/bus/pci/devices/" + name + "/config", config);
  }

  ScratchFolder folder;

 private:
  Variable nvml_, scenario_, proc_, sys_, path_;
  Variable venv_{"VIRTUAL_ENV", nullptr}, conda_{"CONDA_PREFIX", nullptr}, visible_{"CUDA_VISIBLE_DEVICES", nullptr};
};

bool mentions(const MachineCheck& c, const std::string& part) {
  return std::ranges::any_of(c.findings,
                             [&](const MachineFinding& f) { return f.what.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("doctor: cards without peer-to-peer, one in a narrow slot") {
  const PlayedMachine machine("2x4090");
  const MachineCheck c = check_machine();
  REQUIRE(c.machine);
  CHECK(c.machine->gpus.size() == 2);
  CHECK(c.host->memory == Bytes{std::int64_t{64} << 30});
  CHECK(mentions(c, "do not reach each other's memory, as cards of this kind do not"));
  CHECK(mentions(c, "GPU 1 has 4 of its 16 PCIe lanes"));
  CHECK_FALSE(mentions(c, "GPU 0 has"));
  CHECK_FALSE(mentions(c, "ACS"));
}

TEST_CASE("doctor: bridges that redirect requests are named, others are not") {
  const PlayedMachine machine("2x4090");
  machine.add_bridge("0000:3a:00.0", true);
  machine.add_bridge("0000:3b:00.0", false);
  machine.folder.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");  // a card
  machine.folder.write("sys/kernel/iommu_groups/0/devices/x", "");
  const MachineCheck c = check_machine();
  CHECK(c.pci.num_bridges == 2);
  CHECK(c.pci.redirecting == std::vector<std::string>{"0000:3a:00.0"});
  CHECK(mentions(c, "1 PCIe bridge redirect"));
  CHECK(mentions(c, "the IOMMU translates"));
  machine.folder.write("proc/cmdline", "quiet iommu=pt\n");
  CHECK_FALSE(mentions(check_machine(), "the IOMMU translates"));
}

TEST_CASE("doctor: variables that slow training down") {
  const PlayedMachine machine("4xa6000");
  const Variable off("NCCL_P2P_DISABLE", "1"), harmless("NCCL_SHM_DISABLE", "0");
  const MachineCheck c = check_machine();
  CHECK(mentions(c, "NCCL_P2P_DISABLE=1"));
  CHECK_FALSE(mentions(c, "NCCL_SHM_DISABLE"));
}

TEST_CASE("doctor: the Python on PATH is read, and never run") {
  const PlayedMachine machine("8xh100");
  machine.folder.write("bin/python3", "#!/bin/sh\ntouch /tmp/gpuplan-doctor-ran-python\n");
  machine.folder.write("lib/python3.11/site-packages/transformers-5.15.0.dist-info/METADATA",
                       "Name: transformers\nVersion: 5.15.0\n");
  const MachineCheck c = check_machine();
  CHECK(c.python.contains("transformers"));
  CHECK(mentions(c, "flash-linear-attention is not installed"));
  CHECK_FALSE(std::filesystem::exists("/tmp/gpuplan-doctor-ran-python"));
}

TEST_CASE("doctor: a machine without GPUs says why") {
  const PlayedMachine machine("denied");
  const MachineCheck c = check_machine();
  CHECK_FALSE(c.machine);
  CHECK_FALSE(c.no_gpus.empty());
}

}  // namespace gpuplan

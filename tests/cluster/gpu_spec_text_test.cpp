// --gpu-spec: a card described on the command line is planned with what it says, and everything else is said aloud.
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_spec_text.h"
#include "environment_variable.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

std::string error_of(const std::string& gpus, const std::string& specs) {
  try {
    parse_gpus(gpus, specs);
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

bool starts(const std::string& text, const char* with) { return text.starts_with(with); }

}  // namespace

TEST_CASE("gpu spec: a new card has the figures that are stated, and stated defaults") {
  const ClusterSpec cluster = parse_gpus("2xRTX 3065", "RTX 3065:12GiB,360GB/s,25.8TFLOPS");
  REQUIRE(cluster.num_gpus() == 2);
  const GpuSpec& gpu = cluster.gpus.front();
  CHECK(gpu.id == "rtx-3065");
  CHECK(gpu.device_memory == 12_GiB);
  CHECK(gpu.framework_memory == 12_GiB - 482_MiB);
  CHECK(gpu.memory_bandwidth.value == doctest::Approx(360e9));
  CHECK(gpu.fp16.value == doctest::Approx(25.8e12));
  CHECK(gpu.bf16 == gpu.fp16);
  CHECK(gpu.fp32.value == doctest::Approx(6.45e12));  // a quarter
  CHECK(gpu.fp8.value == 0);
  CHECK(gpu.sm_count == 30);  // 25.8 / 0.87
  CHECK(gpu.architecture == "ampere");
  CHECK(cluster.fabric == FabricKind::PcieHostStaged);
  CHECK(!cluster.price_per_gpu_hour);
  REQUIRE(!cluster.assumptions.empty());
  CHECK(
      cluster.assumptions.front() ==
      "RTX 3065 has 12GiB, 360GB/s, 25.8TFLOPS by --gpu-spec; assumed are compute capability 8.6, 482 MiB kept by the "
      "driver, 6.45 TFLOPS of fp32, no fp8, 30 multiprocessors, PCIe 4.0 x16, no peer-to-peer");
}

TEST_CASE("gpu spec: multiprocessors are those of the compute capability, and no more than any card has") {
  const auto sms = [](const std::string& spec) { return parse_gpus("1xmine", "mine:" + spec).gpus.front().sm_count; };
  CHECK(sms("80GiB,3350GB/s,989TFLOPS,cc=9.0") == 132);     // an H100's
  CHECK(sms("80GiB,2039GB/s,312TFLOPS,cc=8.0") == 108);     // an A100's
  CHECK(sms("192GiB,8000GB/s,2250TFLOPS,cc=10.0") == 148);  // a B200's
  CHECK(sms("80GiB,3350GB/s,989TFLOPS") == 192);            // of no capability that makes sense
}

TEST_CASE("gpu spec: what is stated is not assumed") {
  const ClusterSpec cluster = parse_gpus(
      "1xX1",
      "X1: 48 GB, 1.2 TB/s, 0.2 PFLOP/s, link=pcie5x16, cc=8.9, fp8=400TFLOPS, fp32=50TFLOPS, sms=100, p2p=yes");
  const GpuSpec& gpu = cluster.gpus.front();
  CHECK(gpu.device_memory.count == 48'000'000'000);
  CHECK(gpu.memory_bandwidth.value == doctest::Approx(1.2e12));
  CHECK(gpu.fp16.value == doctest::Approx(200e12));
  CHECK(gpu.fp8.value == doctest::Approx(400e12));
  CHECK(gpu.fp32.value == doctest::Approx(50e12));
  CHECK(gpu.sm_count == 100);
  CHECK(gpu.pcie_generation == 5);
  CHECK(gpu.pcie_lanes == 16);
  CHECK(gpu.has_p2p_over_pcie);
  CHECK(gpu.architecture == "ada");
  CHECK(cluster.assumptions.front().ends_with("; assumed are 482 MiB kept by the driver"));
}

TEST_CASE("gpu spec: a card of the catalogue keeps what is not stated") {
  const GpuSpec known = find_gpu("3090", nullptr);
  const ClusterSpec cluster = parse_gpus("3090", "RTX 3090:48GiB,link=pcie3x8");
  const GpuSpec& gpu = cluster.gpus.front();
  CHECK(gpu.id == "rtx-3090-changed");
  CHECK(gpu.device_memory == 48_GiB);
  CHECK(gpu.device_memory - gpu.framework_memory == known.device_memory - known.framework_memory);
  CHECK(gpu.memory_bandwidth == known.memory_bandwidth);
  CHECK(gpu.gemm_bf16 == known.gemm_bf16);
  CHECK(gpu.pcie_generation == 3);
  CHECK(!cluster.price_per_gpu_hour);  // nobody rents that card
  CHECK(cluster.assumptions.front() == "RTX 3090 is rtx-3090 with 48GiB, link=pcie3x8 by --gpu-spec");
  // a rate scales every other one: 142.4 is twice 71.2
  const GpuSpec faster = parse_gpus("3090", "3090:142.4TFLOPS").gpus.front();
  CHECK(faster.gemm_bf16.value == doctest::Approx(2 * known.gemm_bf16.value));
  CHECK(faster.sm_count == known.sm_count);
}

TEST_CASE("gpu spec: a name of several products is a card of its own when everything is stated") {
  CHECK(parse_gpus("3080", "3080:20GiB,760GB/s,59TFLOPS").gpus.front().id == "3080");
  CHECK(starts(error_of("3080", "3080:20GiB"), "--gpu-spec: '3080' may be several GPUs"));
}

TEST_CASE("gpu spec: old and AMD cards are planned, not run") {
  const GpuSpec volta = parse_gpus("X", "X:32GiB,900GB/s,112TFLOPS,cc=7.0").gpus.front();
  CHECK(volta.is_plan_only);
  CHECK(volta.bf16.value == 0);
  const GpuSpec amd = parse_gpus("X", "X:48GiB,864GB/s,122TFLOPS,cc=gfx1100").gpus.front();
  CHECK(amd.vendor == "amd");
  CHECK(amd.is_plan_only);
  CHECK(amd.bf16 == amd.fp16);
}

TEST_CASE("gpu spec: fp32 that nobody states is the share of the datasheets of the same capability") {
  const auto share = [](const std::string& capability) {
    const GpuSpec gpu = parse_gpus("X", "X:48GiB,864GB/s,100TFLOPS" + capability).gpus.front();
    return gpu.fp32 / gpu.fp16;
  };
  CHECK(share("") == doctest::Approx(0.25));             // as 8.6: RTX A6000
  CHECK(share(",cc=8.9") == doctest::Approx(0.25));      // RTX 6000 Ada
  CHECK(share(",cc=8.0") == doctest::Approx(0.0625));    // A100: 19.5 of 312
  CHECK(share(",cc=9.0") == doctest::Approx(0.068));     // H100: 67 of 989
  CHECK(share(",cc=10.0") == doctest::Approx(0.032));    // GB200: 80 of 2500
  CHECK(share(",cc=7.5") == doctest::Approx(0.125));     // T4: 8.1 of 65
  CHECK(share(",cc=gfx942") == doctest::Approx(0.125));  // MI300X: 163.4 of 1307
  for (const GpuSpec& gpu : list_gpus()) {
    CAPTURE(gpu.id);
    const bool is_describable = gpu.vendor == "amd" || parse_number(gpu.compute_capability, "test") >= 7;
    if (is_describable) CHECK(gpu.fp32 / gpu.fp16 > 0.9 * share(",cc=" + gpu.compute_capability));
  }
}

TEST_CASE("gpu spec: a name may begin with digits and an x, as AMD's do") {
  for (const char* name : {"7900xtx", "9070xt", "7900xt", "6800 xt"}) {
    CAPTURE(name);
    const std::string spec = std::string(name) + ":24GiB,960GB/s,123TFLOPS";
    CHECK(parse_gpus(name, spec).num_gpus() == 1);
    CHECK(parse_gpus(std::string("2x") + name, spec).num_gpus() == 2);
    CHECK(parse_gpus(name, spec).gpus.front().device_memory == 24_GiB);
  }
}

TEST_CASE("gpu spec: several cards, mixed with known ones, and another number of them") {
  const ClusterSpec mixed = parse_gpus("2xA1,A9,4090", "A1:12GiB,360GB/s,25TFLOPS;A9:24GiB,700GB/s,60TFLOPS");
  CHECK(mixed.num_gpus() == 4);
  CHECK(mixed.is_mixed());
  CHECK(mixed.gpus[2].device_memory == 24_GiB);
  CHECK(mixed.gpus[3].id == "rtx-4090");
  const ClusterSpec more = resized(parse_gpus("2xRTX 3065", "RTX 3065:12GiB,360GB/s,25TFLOPS"), 4);
  CHECK(more.num_gpus() == 4);
  CHECK(more.gpus.front() == parse_gpus("RTX 3065", "RTX 3065:12GiB,360GB/s,25TFLOPS").gpus.front());
  CHECK(resized(parse_gpus("2x3090", "3090:48GiB"), 3).gpus.front().device_memory == 48_GiB);
}

TEST_CASE("gpu spec: every slip gets one message that says what would be right") {
  struct Row {
    const char *specs, *begins;
  };
  for (const Row& row :
       {Row{"", "--gpu-spec: is empty"},
        {"X", "--gpu-spec: 'X' has no ':' after the name"},
        {":12GiB", "--gpu-spec: ':12GiB' has no name before the ':'"},
        {"X:", "--gpu-spec: 'X:' has an empty item"},
        {"X:12GiB,,25TFLOPS", "--gpu-spec: 'X:12GiB,,25TFLOPS' has an empty item"},
        {"X:12GiB,360GB/s", "--gpu-spec: 'X' is not in the catalogue and lacks its dense 16-bit rate (25TFLOPS)"},
        {"X:25TFLOPS", "--gpu-spec: 'X' is not in the catalogue and lacks its memory (12GiB), bandwidth (360GB/s)"},
        {"X:12GiB,360GB,25TFLOPS", "--gpu-spec: '360GB' is a second amount of memory\n  bandwidth ends in /s: 360GB/s"},
        {"X:12,360GB/s,25TFLOPS", "--gpu-spec: '12' is no memory, bandwidth or rate"},
        {"X:12MiB,360GB/s,25TFLOPS", "--gpu-spec: '12MiB' is out of range"},
        {"X:12GiB,360MB/s,25TFLOPS", "--gpu-spec: '360MB/s' is out of range"},
        {"X:12GiB,360GB/s,25000TFLOPS,9e9TFLOPS", "--gpu-spec: '9e9TFLOPS' is out of range"},
        {"X:12GiB,360GB/s,25TFLOPS,30TFLOPS", "--gpu-spec: '30TFLOPS' is a second rate"},
        {"X:12GiB,360GB/s,manyTFLOPS", "--gpu-spec: 'many' is not a number"},
        {"X:12GiB,360GB/s,25TFLOPS,tdp=3", "--gpu-spec: unknown key 'tdp'\n  keys are link, cc, fp8"},
        {"X:12GiB,360GB/s,25TFLOPS,link=", "--gpu-spec: link has no value"},
        {"X:12GiB,360GB/s,25TFLOPS,link=nvlink", "--gpu-spec: link: 'nvlink' is not known"},
        {"X:12GiB,360GB/s,25TFLOPS,link=pcie9x16", "--gpu-spec: link: there is no 'pcie9x16'"},
        {"X:12GiB,360GB/s,25TFLOPS,link=pcie4x3", "--gpu-spec: link: there is no 'pcie4x3'"},
        {"X:12GiB,360GB/s,25TFLOPS,cc=6.1", "--gpu-spec: cc: '6.1' is not modelled"},
        {"X:12GiB,360GB/s,25TFLOPS,fp8=50TFLOPS", "--gpu-spec: fp8: compute capability 8.6 has none"},
        {"X:12GiB,360GB/s,25TFLOPS,fp8=50", "--gpu-spec: fp8: '50' is not a rate"},
        {"X:12GiB,360GB/s,25TFLOPS,p2p=maybe", "--gpu-spec: p2p: 'maybe' is not known"},
        {"X:12GiB,360GB/s,25TFLOPS,sms=0", "--gpu-spec: 0 is too small"},
        {"2xX:12GiB,360GB/s,25TFLOPS", "--gpu-spec: '2xX' is a number of cards"},
        {"cpu:12GiB,360GB/s,25TFLOPS", "--gpu-spec: 'cpu' cannot be the name of a card"},
        {"X:12GiB,360GB/s,25TFLOPS;x:13GiB,360GB/s,25TFLOPS", "--gpu-spec: 'x' is described twice"},
        {"Y:12GiB,360GB/s,25TFLOPS", "--gpu-spec: describes 'Y', which --gpus does not name"},
        {"A16:20GiB", "--gpu-spec: one A16 is 4 devices"},
        {"3090:cc=9.0", "--gpu-spec: cc: rtx-3090 has 8.6"}}) {
    CAPTURE(row.specs);
    const std::string error = row.specs[0] ? error_of("X", row.specs) : [] {
      try {
        read_described_gpus("");
      } catch (const InputError& empty) { return std::string(empty.what()); }
      return std::string();
    }();
    CAPTURE(error);
    CHECK(starts(error, row.begins));
  }
  CHECK(starts(error_of("local", "X:12GiB,360GB/s,25TFLOPS"), "--gpu-spec: describes 'X'"));
}

TEST_CASE("gpu spec: watts are taken and said to be of no use") {
  CHECK(parse_gpus("X", "X:12GiB,360GB/s,25TFLOPS,watts=170")
            .assumptions.front()
            .ends_with("; no formula uses the watts"));
}

TEST_CASE("user's folder: a file there is a GPU, and stands in place of one of the catalogue") {
  const test::ScratchFolder folder;
  const auto gpus = folder.path() / "gpuplan" / "gpus";
  std::filesystem::create_directories(gpus);
  const std::string text = read_file(data_dir() / "gpus" / "rtx-3090.yaml");
  write_file_atomically(gpus / "rtx-3090.yaml", text);
  std::string other = text;
  other.replace(other.find("id: rtx-3090"), 12, "id: my-card1");
  other.replace(other.find("aliases: ["), 10, "aliases: [my card, ");
  write_file_atomically(gpus / "my-card1.yaml", other);

  const test::Variable data("XDG_DATA_HOME", folder.path().c_str());
  std::size_t num_3090 = 0, num_own = 0;
  for (const GpuNames& names : list_gpu_names()) {
    num_3090 += names.id == "rtx-3090" ? 1 : 0;
    num_own += names.id == "my-card1" ? 1 : 0;
  }
  const std::string source = read_gpu_file(gpu_path("rtx-3090")).spec.source;
  CHECK(num_3090 == 1);
  const std::string replaced = (gpus / "rtx-3090.yaml").string();
  CHECK(resolve_gpu("3090").assumption == "rtx-3090 is read from " + replaced + ", not from the catalogue");
  CHECK(resolve_gpu("4090").assumption.empty());
  CHECK(num_own == 1);
  CHECK(source == (gpus / "rtx-3090.yaml").string());
}

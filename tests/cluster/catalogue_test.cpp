// The GPUs of data/gpus: every file loads, names are unambiguous, figures arrive in the right units.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_catalogue.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

GpuSpec gpu(const std::string& text) { return find_gpu(text, nullptr); }

std::string error_of(const std::string& text) {
  try {
    find_gpu(text, nullptr);
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

}  // namespace

TEST_CASE("catalogue: every GPU loads and has sane figures") {
  const auto all = list_gpus();
  CHECK(all.size() >= 94);
  for (const GpuSpec& spec : all) {
    CAPTURE(spec.id);
    CHECK(!spec.name.empty());
    CHECK((spec.vendor == "nvidia" || spec.vendor == "amd"));
    CHECK(spec.framework_memory > 7_GiB);
    CHECK(spec.framework_memory <= spec.device_memory);
    CHECK(spec.memory_bandwidth > 100.0_GBps);
    CHECK(spec.memory_bandwidth < 9000.0_GBps);
    CHECK(spec.fp32 > 4.0_TFLOPs);
    CHECK(spec.fp16 >= spec.fp32);
    CHECK(spec.gemm_bf16.value <= 1.2 * std::max(spec.bf16, 15.0_TFLOPs).value);  // consumer cards boost above nominal
    CHECK(spec.sm_count >= 10);
    CHECK((spec.pcie_lanes == 16 || spec.pcie_lanes == 8 || spec.id == "a16"));
    CHECK(!spec.is_cpu);
  }
}

TEST_CASE("catalogue: the index says what the files say") {
  const std::filesystem::path folder = data_dir() / "gpus";
  std::vector<GpuNames> from_files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml" && entry.path().stem() != "index")
      from_files.push_back(read_gpu_file(entry.path()).names);
  std::sort(from_files.begin(), from_files.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  if (std::getenv("GPUPLAN_UPDATE_GOLDEN")) write_file_atomically(folder / "index.yaml", render_gpu_index(from_files));
  CHECK(read_file(folder / "index.yaml") == render_gpu_index(from_files));
}

TEST_CASE("catalogue: no name means two GPUs, unless each that it may mean lists it") {
  std::map<std::string, std::set<std::string>> owners, assumed, doubtful;
  for (const GpuNames& names : list_gpu_names()) {
    owners[squash(names.id)].insert(names.id);
    for (const std::string& name : names.aliases) owners[squash(name)].insert(names.id);
    for (const std::string& name : names.assumed_for) assumed[squash(name)].insert(names.id);
    for (const std::string& name : names.ambiguous) doubtful[squash(name)].insert(names.id);
  }
  for (const auto& [name, ids] : owners) {
    CAPTURE(name);
    CHECK(ids.size() == 1);
    CHECK(!assumed.contains(name));
    CHECK(!doubtful.contains(name));
  }
  for (const auto& [name, ids] : assumed) {
    CAPTURE(name);
    CHECK(ids.size() == 1);
    if (doubtful.contains(name)) doubtful[name].insert(ids.begin(), ids.end());
  }
  for (const auto& [name, ids] : doubtful) {
    CAPTURE(name);
    CHECK(ids.size() >= 2);
  }
}

TEST_CASE("catalogue: every alias finds its GPU") {
  for (const GpuNames& names : list_gpu_names())
    for (const std::string& alias : names.aliases) {
      CAPTURE(alias);
      CHECK(gpu(alias).id == names.id);
    }
}

TEST_CASE("catalogue: people and drivers spell names in many ways") {
  struct Row {
    const char *text, *id;
  };
  for (const Row& row : {Row{"A6000", "rtx-a6000"},
                         {"rtx a6000", "rtx-a6000"},
                         {"RTX_A6000", "rtx-a6000"},
                         {"NVIDIA RTX A6000", "rtx-a6000"},
                         {"4090", "rtx-4090"},
                         {"RTX4090", "rtx-4090"},
                         {"rtx-4090", "rtx-4090"},
                         {"GeForce RTX 4090", "rtx-4090"},
                         {"NVIDIA GeForce RTX 4090", "rtx-4090"},
                         {"RTX4090-24GB", "rtx-4090"},
                         {"RTX 4090 (24 GB)", "rtx-4090"},
                         {"6000 Ada", "rtx-6000-ada"},
                         {"RTX6000Ada", "rtx-6000-ada"},
                         {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
                         {"2080ti", "rtx-2080-ti"},
                         {"NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"},
                         {"3090", "rtx-3090"},
                         {"5090", "rtx-5090"},
                         {"H100-SXM", "h100-sxm"},
                         {"H100-SXM-80GB", "h100-sxm"},
                         {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                         {"H100 PCIe", "h100-pcie"},
                         {"NVIDIA H100 NVL", "h100-nvl"},
                         {"H200", "h200-sxm"},
                         {"NVIDIA H200", "h200-sxm"},
                         {"B200", "b200-sxm"},
                         {"A100-SXM4-80GB", "a100-sxm-80gb"},
                         {"A100-SXM-40GB", "a100-sxm-40gb"},
                         {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
                         {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
                         {"Tesla T4", "t4"},
                         {"T4", "t4"},
                         {"L4", "l4"},
                         {"L40", "l40"},
                         {"L40S-48GB", "l40s"},
                         {"A10G-24GB", "a10g"},
                         {"A10", "a10"},
                         {"A40", "a40"},
                         {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
                         {"V100-SXM2-32GB", "v100-sxm2-32gb"},
                         {"PRO 6000", "rtx-pro-6000-blackwell"},
                         {"RTX-PRO-6000", "rtx-pro-6000-blackwell"},
                         {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"},
                         {"MI300X", "mi300x"},
                         {"AMD Instinct MI300X", "mi300x"},
                         {"GB200", "gb200"},
                         {"NVIDIA GH200 480GB", "gh200-96gb"},
                         {"A800-SXM4-80GB", "a800-sxm-80gb"},
                         {"A100 SXM 80G", "a100-sxm-80gb"}}) {
    CAPTURE(row.text);
    CHECK(resolve_gpu(row.text).id == row.id);
    CHECK(resolve_gpu(row.text).assumption.empty());
  }
}

TEST_CASE("catalogue: a name that leaves something open is taken to mean the usual product, and said") {
  struct Row {
    const char *text, *id;
  };
  for (const Row& row : {Row{"H100", "h100-sxm"},
                         {"A100", "a100-sxm-80gb"},
                         {"A100-80GB", "a100-sxm-80gb"},
                         {"A100-40GB", "a100-sxm-40gb"},
                         {"V100", "v100-sxm2-16gb"},
                         {"V100-16GB", "v100-sxm2-16gb"},
                         {"V100 32GB", "v100-sxm2-32gb"},
                         {"GH200", "gh200-96gb"},
                         {"A100 PCIe", "a100-pcie-80gb"},
                         {"H100-80GB", "h100-sxm"},
                         {"H800", "h800-sxm"},
                         {"A800", "a800-sxm-80gb"}}) {
    CAPTURE(row.text);
    std::string assumption;
    CHECK(find_gpu(row.text, &assumption).id == row.id);
    CHECK(assumption.starts_with(std::string(row.text) + " means " + row.id + " (NVIDIA "));
  }
}

TEST_CASE("catalogue: different products under one name are refused with their memory") {
  CHECK(error_of("A6000 Ada") ==
        "'A6000 Ada' may be several GPUs\n  write '6000 Ada' (rtx-6000-ada, 48 GB, ada) or 'A6000' (rtx-a6000, 48 GB, "
        "ampere)");
  CHECK(
      error_of("6000") ==
      "'6000' may be several GPUs\n  write '6000 Ada' (rtx-6000-ada, 48 GB, ada) or 'A6000' (rtx-a6000, 48 GB, ampere)"
      " or 'PRO 6000' (rtx-pro-6000-blackwell, 96 GB, blackwell)");
  CHECK(error_of("RTX 6000").starts_with("'RTX 6000' may be several GPUs"));
}

TEST_CASE("catalogue: an unknown name is told how to describe the card") {
  CHECK(error_of("RTX 3065") ==
        "unknown GPU 'RTX 3065'\n  describe it by --gpu-spec 'RTX 3065:12GiB,360GB/s,25TFLOPS', with its own memory, "
        "bandwidth and dense 16-bit rate, or in a file of ~/.local/share/gpuplan/gpus; 'gpuplan gpus' lists what is "
        "known");
  CHECK(error_of("").starts_with("unknown GPU ''\n  describe it"));
  CHECK(error_of("abacus").find("did you mean") == std::string::npos);
}

TEST_CASE("catalogue: a name with another number is never taken for a slip") {
  // all of these are products of their own, or none; each differs from a GPU of the catalogue in one digit or letter
  for (const char* text :
       {"RTX 3065", "3065",     "RTX 3095",    "RTX 3050", "RTX 2080",  "RTX 2060", "RTX 4050", "RTX 6090",
        "RTX 500",  "GTX 1080", "GTX 1080 Ti", "B100",     "B20",       "A4",       "L2",       "T40",
        "MI100",    "MI350",    "RX 7900",     "A1000",    "RTX A2000", "V10"}) {
    CAPTURE(text);
    const std::string error = error_of(text);
    CHECK(error.starts_with("unknown GPU '"));
    CHECK(error.find("did you mean") == std::string::npos);
    CHECK(error.find(std::string("--gpu-spec '") + text + ":12GiB") != std::string::npos);
  }
}

TEST_CASE("catalogue: a slip in the letters, or a number that lacks its last digit, gets a suggestion") {
  struct Row {
    const char *text, *meant;
  };
  for (const Row& row : {Row{"A600", "'A6000'"},
                         {"L40 S X", "'L40S'"},
                         {"RXT 4090", "'RTX 4090'"},
                         {"RTX 409", "'RTX 4090'"},
                         {"H100 NLV", "'H100 NVL'"},
                         {"3900", "'3090'"},  // two digits have changed places
                         {"RTX 4900", "'RTX 4090'"},
                         {"4070 Ti Supr", "'4070 Ti Super'"}}) {
    CAPTURE(row.text);
    CHECK(error_of(row.text).find(std::string("\n  did you mean ") + row.meant +
                                  "? Another card is described by --gpu-spec '") != std::string::npos);
  }
}

TEST_CASE("catalogue: a name with its memory in any spelling is the product that has it") {
  struct Row {
    const char *text, *id;
  };
  for (const Row& row : {Row{"A100-80", "a100-sxm-80gb"},
                         {"A100-40", "a100-sxm-40gb"},
                         {"A100_80G", "a100-sxm-80gb"},
                         {"A100 (40 GiB)", "a100-sxm-40gb"},
                         {"A100-80-PCIe", "a100-pcie-80gb"},
                         {"NVIDIA A100 PCIe 40G", "a100-pcie-40gb"},
                         {"80GB A100", "a100-sxm-80gb"},
                         {"24 GB RTX 4090", "rtx-4090"},
                         {"H100-94GB", "h100-nvl"},
                         {"H100 96", "h100-sxm-96gb"},
                         {"V100-32", "v100-sxm2-32gb"},
                         {"4090-24GB", "rtx-4090"},
                         {"4090-48G", "rtx-4090-48gb"},
                         {"RTX 4090 D 24", "rtx-4090-d"},
                         {"4080-laptop-12gb", "rtx-4080-laptop"},
                         {"3080-20G", "rtx-3080-20gb"},
                         {"H20-141G", "h20-141gb"},
                         {"H20 96", "h20-96gb"},
                         {"B200-192GB", "b200-sxm"},
                         {"L4 24", "l4"}}) {
    CAPTURE(row.text);
    CHECK(resolve_gpu(row.text).id == row.id);
  }
  // the number may leave the form open still, which is said as without it
  CHECK(resolve_gpu("A100-80").assumption == "A100-80 means a100-sxm-80gb");
  CHECK(resolve_gpu("4090-24GB").assumption.empty());
  CHECK(error_of("RTX 6000 48GB") ==
        "'RTX 6000 48GB' may be several GPUs\n  write '6000 Ada' (rtx-6000-ada, 48 GB, ada) or 'A6000' (rtx-a6000, 48 "
        "GB, ampere)");
}

TEST_CASE("catalogue: a memory that no product of a name has is told with those that exist") {
  CHECK(error_of("A100-64GB") ==
        "unknown GPU 'A100-64GB'\n  A100 is known with 40 or 80 GB; a card with other memory is --gpus 'A100' "
        "--gpu-spec 'A100:64GiB'");
  // a number alone may be one of cards
  CHECK(error_of("H100-8") ==
        "unknown GPU 'H100-8'\n  H100 is known with 80, 94 or 96 GB; 8 of them are '8xH100'; a card with other memory "
        "is --gpus 'H100' --gpu-spec 'H100:8GiB'");
  CHECK(error_of("RTX 3060 8GB").starts_with("unknown GPU 'RTX 3060 8GB'\n  RTX 3060 is known with 12 GB; a card"));
  CHECK(error_of("3080 16GB").find("--gpus '3080 10GB' --gpu-spec '3080 10GB:16GiB'") != std::string::npos);
  for (const char* text : {"RTX 3065 24GB", "A 100", "RTX 500", "4 A6000"}) {  // no name with memory
    CAPTURE(text);
    CHECK(error_of(text).find(" is known with ") == std::string::npos);
  }
}

TEST_CASE("catalogue: accelerators of other makers are refused with the reason") {
  for (const char* text :
       {"Ascend 910B", "910B", "910B3", "Ascend-910C 64GB", "TPU v5e", "Gaudi 3", "M4 Max", "trn2"}) {
    CAPTURE(text);
    const std::string error = error_of(text);
    CHECK(error.starts_with(std::string("unknown GPU '") + text + "'\n  gpuplan plans GPUs of NVIDIA and AMD, and "));
    CHECK(error.find(std::string("--gpu-spec '") + text + ":12GiB") != std::string::npos);
  }
  CHECK(error_of("910B").find("and Huawei's Ascend NPUs are none;") != std::string::npos);
  for (const char* text : {"M40", "M4000", "MI100"})  // of NVIDIA and AMD
    CHECK(error_of(text).find("are none;") == std::string::npos);
}

TEST_CASE("catalogue: cards of the Chinese market, modified ones and older ones are found") {
  struct Row {
    const char *text, *id;
  };
  for (const Row& row : {Row{"H20", "h20-96gb"},
                         {"NVIDIA H20", "h20-96gb"},
                         {"NVIDIA H20-3e", "h20-141gb"},
                         {"NVIDIA L20", "l20"},
                         {"4090D", "rtx-4090-d"},
                         {"NVIDIA GeForce RTX 4090 D", "rtx-4090-d"},
                         {"4090D 48G", "rtx-4090-d-48gb"},
                         {"RTX 5090 D", "rtx-5090-d"},
                         {"NVIDIA A800 80GB PCIe", "a800-pcie-80gb"},
                         {"NVIDIA H800 PCIe", "h800-pcie"},
                         {"NVIDIA H200 NVL", "h200-nvl"},
                         {"NVIDIA GB300", "gb300"},
                         {"Tesla P40", "p40"},
                         {"Tesla P100-PCIE-16GB", "p100-pcie-16gb"},
                         {"Quadro RTX 8000", "quadro-rtx-8000"},
                         {"2080 Ti 22G", "rtx-2080-ti-22gb"}}) {
    CAPTURE(row.text);
    CHECK(resolve_gpu(row.text).id == row.id);
  }
  CHECK(gpu("H20").bf16.value == doctest::Approx(148e12));  // of the H100's 989
  CHECK(gpu("H20").nvlink_per_direction == gpu("H100").nvlink_per_direction);
  CHECK(gpu("P40").is_plan_only);
  CHECK(gpu("P40").fp16 == gpu("P40").fp32);  // no path of its own that is of use
}

TEST_CASE("catalogue: consumer cards are found by the names that people type") {
  struct Row {
    const char *text, *id;
  };
  for (const Row& row : {Row{"3060", "rtx-3060-12gb"},
                         {"RTX 3060 12GB", "rtx-3060-12gb"},
                         {"NVIDIA GeForce RTX 3060", "rtx-3060-12gb"},
                         {"3080-12g", "rtx-3080-12gb"},
                         {"RTX 3080 10 GB", "rtx-3080-10gb"},
                         {"3080ti", "rtx-3080-ti"},
                         {"NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"},
                         {"4060", "rtx-4060"},
                         {"4060 Ti", "rtx-4060-ti-16gb"},
                         {"4060ti 8gb", "rtx-4060-ti-8gb"},
                         {"4070ti-super", "rtx-4070-ti-super"},
                         {"NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"},
                         {"RTX 4070 Super", "rtx-4070-super"},
                         {"rtx4080", "rtx-4080"},
                         {"NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"},
                         {"5060 Ti 16GB", "rtx-5060-ti-16gb"},
                         {"5070_ti", "rtx-5070-ti"},
                         {"GeForce RTX 5080", "rtx-5080"},
                         {"NVIDIA RTX 4000 Ada Generation", "rtx-4000-ada"},
                         {"NVIDIA A30", "a30"},
                         {"NVIDIA A2", "a2"},
                         {"DGX Spark", "gb10"},
                         {"NVIDIA GB10", "gb10"},
                         {"NVIDIA B300 SXM6 AC", "b300-sxm"},
                         {"AMD Instinct MI355X", "mi355x"}}) {
    CAPTURE(row.text);
    CHECK(resolve_gpu(row.text).id == row.id);
  }
  CHECK(error_of("RTX 3080").starts_with("'RTX 3080' may be several GPUs\n  write '3080 10GB' (rtx-3080-10gb, 10 GB"));
  CHECK(error_of("5060 Ti").starts_with("'5060 Ti' may be several GPUs"));
  CHECK(error_of("RTX 4000").starts_with("'RTX 4000' may be several GPUs"));
}

TEST_CASE("catalogue: rates and bandwidths follow from the chip") {
  struct Row {
    const char* id;
    double bus_bits, gbit_s;  // of the memory
    double sms, mhz, flops;   // operations per multiprocessor and clock, 16 bit with fp32 accumulation
  };
  // GeForce from Ampere on: 512, half of the rate with fp16 accumulation. Others: 1024; GA100: 2048; CDNA 4: 4096.
  for (const Row& row : {Row{"rtx-3060-12gb", 192, 15, 28, 1777, 512},
                         {"rtx-3060-ti", 256, 14, 38, 1665, 512},
                         {"rtx-3070", 256, 14, 46, 1725, 512},
                         {"rtx-3070-ti", 256, 19, 48, 1770, 512},
                         {"rtx-3080-10gb", 320, 19, 68, 1710, 512},
                         {"rtx-3080-12gb", 384, 19, 70, 1710, 512},
                         {"rtx-3080-ti", 384, 19, 80, 1665, 512},
                         {"rtx-3080-laptop-16gb", 256, 14, 48, 1710, 512},
                         {"rtx-3090", 384, 19.5, 82, 1695, 512},
                         {"rtx-3090-ti", 384, 21, 84, 1860, 512},
                         {"rtx-4060", 128, 17, 24, 2460, 512},
                         {"rtx-4060-ti-8gb", 128, 18, 34, 2535, 512},
                         {"rtx-4060-ti-16gb", 128, 18, 34, 2535, 512},
                         {"rtx-4070", 192, 21, 46, 2475, 512},
                         {"rtx-4070-super", 192, 21, 56, 2475, 512},
                         {"rtx-4070-ti", 192, 21, 60, 2610, 512},
                         {"rtx-4070-ti-super", 256, 21, 66, 2610, 512},
                         {"rtx-4080", 256, 22.4, 76, 2505, 512},
                         {"rtx-4080-super", 256, 23, 80, 2550, 512},
                         {"rtx-4080-laptop", 192, 18, 58, 2280, 512},
                         {"rtx-4090", 384, 21, 128, 2520, 512},
                         {"rtx-4090-d", 384, 21, 114, 2520, 512},
                         {"rtx-4090-48gb", 384, 21, 128, 2520, 512},
                         {"rtx-4090-d-48gb", 384, 21, 114, 2520, 512},
                         {"rtx-4090-laptop", 256, 18, 76, 2040, 512},
                         {"rtx-5060", 128, 28, 30, 2497, 512},
                         {"rtx-5060-ti-8gb", 128, 28, 36, 2572, 512},
                         {"rtx-5060-ti-16gb", 128, 28, 36, 2572, 512},
                         {"rtx-5070", 192, 28, 48, 2512, 512},
                         {"rtx-5070-ti", 256, 28, 70, 2452, 512},
                         {"rtx-5080", 256, 30, 84, 2617, 512},
                         {"rtx-5080-laptop", 256, 25.36, 60, 2287, 512},
                         {"rtx-3080-20gb", 320, 19, 68, 1710, 512},
                         {"rtx-5090", 512, 28, 170, 2407, 512},
                         {"rtx-5090-laptop", 256, 25.36, 82, 2160, 512},
                         {"rtx-2000-ada", 128, 14, 22, 2130, 1024},
                         {"rtx-4000-ada", 160, 18, 48, 2175, 1024},
                         {"rtx-4500-ada", 192, 18, 60, 2580, 1024},
                         {"rtx-5000-ada", 256, 18, 100, 2550, 1024},
                         {"a2", 128, 12.5, 10, 1770, 1024},
                         {"a16", 128, 12.5, 10, 1755, 1024},  // one of its four devices
                         {"a30", 3072, 2.43, 56, 1440, 2048},
                         {"gb10", 256, 8.533, 48, 2525, 1024},
                         {"mi355x", 8192, 7.8125, 256, 2400, 4096}}) {
    CAPTURE(row.id);
    const GpuSpec spec = read_gpu_file(gpu_path(row.id)).spec;
    CHECK(spec.memory_bandwidth.value == doctest::Approx(row.bus_bits / 8 * row.gbit_s * 1e9).epsilon(0.003));
    CHECK(double(spec.sm_count) == row.sms);
    CHECK(spec.fp16.value == doctest::Approx(row.sms * row.mhz * 1e6 * row.flops).epsilon(0.004));
    CHECK(spec.bf16 == spec.fp16);
    const bool has_fp8 = spec.architecture != "ampere";
    CHECK(spec.fp8.value == doctest::Approx(has_fp8 ? 2 * spec.fp16.value : 0).epsilon(0.002));
  }
  // the datasheet of the B300 states a rate below that of its boost clock
  CHECK(gpu("B300").bf16.value == doctest::Approx(2250e12));
}

TEST_CASE("catalogue: memory is MiB from the driver and GiB from the framework") {
  const GpuSpec a6000 = gpu("A6000");
  CHECK(a6000.device_memory == 49140_MiB);                               // nvidia-smi
  CHECK(a6000.framework_memory == Bytes{std::int64_t(47.27 * 0x1p30)});  // 47.27 GiB: the lower of 47.27 and 47.54
  CHECK(gpu("H100-SXM").device_memory == 81559_MiB);                     // not 80 GB, not 80 GiB
  CHECK(gpu("A6000").memory_bandwidth.value == doctest::Approx(768e9));  // decimal GB/s
}

TEST_CASE("catalogue: rates are dense and for fp32 accumulation") {
  CHECK(gpu("RTX 3090").fp16.value ==
        doctest::Approx(71.2e12).epsilon(0.01));             // not 142, the rate with fp16 accumulation
  CHECK(gpu("A100").bf16.value == doctest::Approx(312e12));  // not 624, the sparse rate
  CHECK(gpu("H100").fp8.value == doctest::Approx(1979e12).epsilon(0.01));
  CHECK(gpu("T4").bf16.value == 0);  // no such path
  CHECK(gpu("T4").fp16.value == doctest::Approx(65e12));
}

TEST_CASE("catalogue: the best GEMM is the middle of the reports, and not that of another product") {
  CHECK(gpu("A6000").gemm_bf16.value == doctest::Approx(123.3e12));
  CHECK(gpu("4090").gemm_bf16.value == doctest::Approx(167.5e12));      // (162 + 173) / 2
  CHECK(gpu("H800").gemm_bf16.value == 0);                              // only the PCIe card was measured
  CHECK(gpu("A40").gemm_bf16.value == 0);                               // nothing published
  CHECK(gpu("6000 Ada").gemm_bf16.value == doctest::Approx(250.5e12));  // estimated from the L40S
}

TEST_CASE("catalogue: links and what can only be planned") {
  CHECK(gpu("A100").nvlink_per_direction.value == doctest::Approx(300e9));  // half of 600
  CHECK(gpu("4090").nvlink_per_direction.value == 0);
  CHECK(!gpu("4090").has_p2p_over_pcie);
  CHECK(gpu("6000 Ada").has_p2p_over_pcie);
  CHECK(!gpu("A10G").has_p2p_over_pcie);  // null: not known
  CHECK(gpu("V100").is_plan_only);
  CHECK(gpu("MI300X").is_plan_only);
  CHECK(!gpu("T4").is_plan_only);
}

TEST_CASE("catalogue: one MI250X is two devices, each with half of the card") {
  const GpuSpec device = gpu("MI250X");
  CHECK(device.device_memory == 65520_MiB);
  CHECK(device.memory_bandwidth.value == doctest::Approx(1638.5e9));  // 3277 / 2
  CHECK(device.bf16.value == doctest::Approx(191.5e12));              // 383 / 2
  CHECK(device.sm_count == 110);
}

TEST_CASE("catalogue: the usual price is the lowest on-demand one that has a date and is sold so") {
  const auto usd = [](const char* id, std::int64_t num_gpus = 1) {
    return usual_price(list_prices(id), num_gpus)->usd_per_gpu_hour;
  };
  CHECK(list_prices("rtx-4090").size() == 2);
  CHECK(usd("rtx-4090") == doctest::Approx(0.60));          // 0.34 is the community price
  CHECK(usd("a100-sxm-80gb", 8) == doctest::Approx(2.79));  // 1.39 is a community price, 3.43 that of aws
  CHECK(usd("h100-sxm") == doctest::Approx(2.69));
  CHECK(usd("b200-sxm") == doctest::Approx(4.49));  // the only on-demand price has no date
  CHECK(usd("p40") == doctest::Approx(0.11));       // nobody offers it on demand
  CHECK(describe_price(*usual_price(list_prices("rtx-4090"), 1))
            .starts_with("runpod on-demand: deploybase.ai RunPod pricing guide, 2026-03-10"));
  CHECK(list_prices("rtx-6000-ada").empty());
  CHECK(usual_price({}, 1) == nullptr);
  const GpuPrice community{.provider = "market", .kind = "community", .source = "a list", .usd_per_gpu_hour = 0.2};
  CHECK(describe_price(*usual_price({community}, 1)) == "market community: a list");
  const GpuPrice eights{.provider = "v 8x", .kind = "on-demand", .usd_per_gpu_hour = 1, .date = "2026"};
  const GpuPrice single{.provider = "v", .kind = "on-demand", .usd_per_gpu_hour = 2, .date = "2026"};
  CHECK(usual_price({eights, single}, 1)->usd_per_gpu_hour == 2);
  CHECK(usual_price({eights, single}, 8)->usd_per_gpu_hour == 1);
  CHECK_THROWS_AS(list_prices("no such card"), InputError);
}

TEST_CASE("catalogue: several kinds of GPUs have the prices of one vendor where one offers all of them") {
  const auto vendors = [](std::initializer_list<const char*> ids) {
    std::vector<GpuFile> kinds;
    for (const char* id : ids) kinds.push_back(read_gpu_file(gpu_path(id)));
    std::string text;
    for (const GpuPrice& price : compared_prices(kinds, 2)) text += (text.empty() ? "" : " ") + price.vendor;
    return text;
  };
  CHECK(vendors({"rtx-4090", "rtx-3090"}) == "runpod runpod");
  CHECK(vendors({"t4", "a10g"}) == "aws aws");
  CHECK(vendors({"rtx-a6000", "rtx-4090"}) == "lambda runpod");  // none offers both
  CHECK(vendors({"rtx-4090", "rtx-6000-ada"}).empty());
}

TEST_CASE("catalogue: every price has a provider, a kind and a source") {
  for (const GpuSpec& spec : list_gpus())
    for (const GpuPrice& price : list_prices(spec.id)) {
      CAPTURE(spec.id);
      CHECK(!price.provider.empty());
      CHECK(!price.source.empty());
      CHECK(!price.date.empty());
      CHECK(price.vendor.empty() == (price.kind == "range"));
      CHECK(price.usd_per_gpu_hour > 0);
      CHECK(std::set<std::string>{"on-demand", "community", "serverless", "range"}.contains(price.kind));
    }
}

// Profiles: the shipped classes and files people calibrate.
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/profile/profile.h"
#include "cluster/profile/profile_store.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

std::string profile_error(const std::string& text) {
  const test::ScratchFolder folder;
  const std::string file = folder.write("mine.yaml", text).string();
  try {
    load_profile(file);
  } catch (const InputError& error) {
    std::string message = error.what();
    for (auto at = message.find(file); at != std::string::npos; at = message.find(file))
      message.replace(at, file.size(), "F");
    return message;
  }
  return "no error";
}

const ProfileValue* find(const Profile& profile, const std::string& name) {
  for (const auto& [key, value] : profile.values)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

TEST_CASE("profile: architecture and form factor choose the class") {
  struct Row {
    const char *gpu, *id;
  };
  for (const Row& row : {Row{"a100-sxm-80gb", "default-ampere"},
                         {"a800-sxm-80gb", "default-ampere"},
                         {"a10g", "default-ampere"},
                         {"h100-sxm", "default-hopper"},
                         {"h100-pcie", "default-hopper"},
                         {"b200-sxm", "default-hopper"},
                         {"gb200", "default-hopper"},
                         {"rtx-4090", "default-consumer-pcie"},
                         {"rtx-a6000", "default-workstation"},
                         {"rtx-6000-ada", "default-workstation"},
                         {"l40s", "default-consumer-pcie"},
                         {"rtx-5090", "default-consumer-pcie"},
                         {"t4", "default-turing"},
                         {"v100-sxm2-32gb", "default-volta"},
                         {"mi300x", "default-amd"},
                         {"cpu", "default-cpu"}}) {
    CAPTURE(row.gpu);
    CHECK(default_profile(std::string(row.gpu)).id == row.id);
  }
}

TEST_CASE("profile: every GPU has a complete one, every number with unit, kind and source") {
  for (const GpuSpec& gpu : list_gpus()) {
    CAPTURE(gpu.id);
    const Profile profile = default_profile(gpu);
    CHECK(profile.values.size() == 34);
    CHECK(profile.gemm_efficiency > 0.5);
    for (const auto& [name, value] : profile.values) {
      CAPTURE(name);
      CHECK(!value.unit.empty());
      CHECK(
          (value.kind == "fitted" || value.kind == "measured" || value.kind == "datasheet" || value.kind == "derived"));
      CHECK(value.source.size() > 10);  // a text, not the short id of one
    }
  }
}

TEST_CASE("profile: the fitted numbers arrive in base units, and classes differ where cards do") {
  const Profile a100 = default_profile(std::string("a100-sxm-80gb")), h100 = default_profile(std::string("h100-sxm")),
                rtx = default_profile(std::string("rtx-4090"));
  const auto stated = [&](const char* name) { return find(a100, name)->value; };
  CHECK(a100.gemm_efficiency == stated("gemm_efficiency"));
  CHECK(a100.kernel_overhead.value == doctest::Approx(stated("kernel_overhead") * 1e-6));
  CHECK(a100.dispatch_eager.value == doctest::Approx(stated("dispatch_eager") * 1e-6));
  CHECK(a100.cpu_optimizer_bandwidth.value == doctest::Approx(stated("cpu_optimizer_bandwidth") * 1e9));
  CHECK(a100.torch_cpu_optimizer_bandwidth.value == doctest::Approx(4e9));
  for (const Profile* p : {&a100, &h100, &rtx}) {  // shares of what was measured
    CHECK(p->gemm_efficiency > 0.6);
    CHECK(p->gemm_efficiency < 1.05);
    CHECK(p->flash_efficiency < 1);
  }
  CHECK(h100.flash_efficiency < a100.flash_efficiency);  // flash attention 2 does not know Hopper's instructions
  CHECK(h100.cudnn_attention_efficiency > h100.flash_efficiency);
  CHECK(a100.host_link_efficiency == 1);  // of the effective rate
  CHECK(a100.nccl == 1_GiB);
  CHECK(a100.context == Bytes{std::int64_t(0.45 * 0x1p30)});
  CHECK(a100.blas_workspace == 8320_KiB);  // 8.125 MiB = 2 x 4096 KiB + 8 x 16 KiB
  CHECK(h100.blas_workspace == 32_MiB);
  CHECK(a100.margin == doctest::Approx(0.03));
  CHECK(a100.time_error == doctest::Approx(0.15));
}

TEST_CASE("profile: a CPU rank has no device context") {
  const Profile cpu = default_profile(std::string("cpu"));
  CHECK(cpu.context == 0_B);
  CHECK(cpu.nccl == 0_B);
  CHECK(cpu.dispatch_eager.value == 0);
}

TEST_CASE("profile: it says which file it came from") {
  const Profile profile = default_profile(std::string("rtx-4090"));
  CHECK(profile.sha256 == sha256_hex(read_file(data_dir() / "profiles" / "default.yaml")));
  CHECK(profile.file == (data_dir() / "profiles" / "default.yaml").string());
  CHECK(find(profile, "eager_sm_bandwidth")->source.find("open speed points") != std::string::npos);
}

TEST_CASE(
    "profile: a card's measured memory rate stands in the place of its class's, and a class named keeps its own") {
  const Profile measured = default_profile(std::string("rtx-4090"));
  CHECK(measured.memory_efficiency == doctest::Approx((912 + 922) / 2.0 / 1008));
  CHECK(find(measured, "memory_efficiency")->kind == "measured");
  CHECK(find(measured, "memory_efficiency")->source.find("data/gpus/rtx-4090.yaml") != std::string::npos);
  CHECK(default_profile(std::string("rtx-4080")).memory_efficiency == doctest::Approx(0.85));
  const test::ScratchFolder folder;
  const auto file = folder.write("mine.yaml", "id: my-box\nbased_on: default-consumer-pcie\nvalues: {}\n");
  CHECK(load_profile(file).memory_efficiency == doctest::Approx(0.85));
}

TEST_CASE("profile: one's own file may change a few numbers of a class") {
  const test::ScratchFolder folder;
  const auto file = folder.write("mine.yaml", R"(
id: my-box
based_on: default-consumer-pcie
values:
  gemm_efficiency: {value: 0.64, unit: share, kind: measured, source: gpuplan calibrate}
  kernel_overhead: {value: 0.005, unit: ms, kind: measured, source: gpuplan calibrate}
)");
  const Profile profile = load_profile(file);
  CHECK(profile.id == "my-box");
  CHECK(profile.gemm_efficiency == doctest::Approx(0.64));
  CHECK(profile.kernel_overhead.value == doctest::Approx(5e-6));
  CHECK(profile.flash_efficiency == default_profile(std::string("rtx-4090")).flash_efficiency);
  CHECK(profile.values.size() == 34);
  CHECK(find(profile, "gemm_efficiency")->kind == "measured");
  CHECK(profile.sha256 == sha256_hex(read_file(file)));
}

TEST_CASE("profile: mistakes are named with their line") {
  const std::string hint = "\n  a profile names every value, or a class to start from: 'based_on: default-ampere'";
  const std::string head = "id: x\nbased_on: default-ampere\nvalues:\n";
  CHECK(profile_error(head + "  gemm_eficiency: {value: 1, unit: share, kind: measured, source: me}\n") ==
        "F:4: values.gemm_eficiency: is not a known key; did you mean one of 'gemm_efficiency', 'memory_efficiency'?" +
            hint);
  CHECK(profile_error(head + "  kernel_overhead: {value: 1, unit: share, kind: measured, source: me}\n") ==
        "F:4: values.kernel_overhead.unit: 'share' is not a unit for this" + hint);
  for (const char* number : {"0", "-1", "1e-9", "1e9", "nan"}) {
    CAPTURE(std::string(number));
    const std::string error = profile_error(
        head + fmt::format("  gemm_efficiency: {{value: {}, unit: share, kind: measured, source: me}}\n", number));
    CHECK(error.find("gemm_efficiency") != std::string::npos);
  }
  CHECK(profile_error(head + "  margin: {value: 1, unit: share, kind: measured}\n") ==
        "F:4: values.margin.source: is missing" + hint);
  CHECK(profile_error("id: x\nbased_on: default-amper\nvalues: {}\n")
            .find("F:2: based_on: 'default-amper' is not a class of data/profiles/default.yaml") != std::string::npos);
  CHECK(profile_error("id: x\nvalues: {}\n")
            .starts_with("F: 32 problems:\n  F:2: values: 'gemm_efficiency' is missing\n"));
}

TEST_CASE("profile: the shipped ones are those that GPUs are given, and each is found by its id") {
  const std::vector<Profile> shipped = shipped_profiles();
  std::set<std::string> ids, given{"default-cpu"};
  for (const Profile& profile : shipped) ids.insert(profile.id);
  for (const GpuSpec& gpu : list_gpus()) given.insert(default_profile(gpu).id);
  CHECK(ids == given);
  CHECK(ids.size() == shipped.size());
  for (const Profile& profile : shipped) {
    CAPTURE(profile.id);
    CHECK(find_profile(profile.id)->gemm_efficiency == profile.gemm_efficiency);
    CHECK(profile.values.size() == 34);
  }
  CHECK(shipped_profiles().front().gemm_efficiency == default_profile(std::string("a100-sxm-80gb")).gemm_efficiency);
}

TEST_CASE("profile: a shipped class as a file of its own is read back with the same values") {
  for (const Profile& shipped : shipped_profiles()) {
    CAPTURE(shipped.id);
    const Profile read = parse_profile(profile_text(shipped), "own.yaml");
    CHECK(read.id == shipped.id);
    CHECK(read.title == shipped.title);
    REQUIRE(read.values.size() == shipped.values.size());
    for (std::size_t i = 0; i < read.values.size(); ++i) {
      CHECK(read.values[i].first == shipped.values[i].first);
      CHECK(read.values[i].second.value == doctest::Approx(shipped.values[i].second.value).epsilon(1e-5));
      CHECK(read.values[i].second.source == shipped.values[i].second.source);
    }
  }
}

TEST_CASE("profile: a file of one's own is exported as it is, under the line that says who wrote it") {
  const test::ScratchFolder folder;
  const auto file = folder.write("mine.yaml", "id: mine\nbased_on: default-ampere\nvalues: {}  # nothing yet\n");
  const std::string text = profile_text(load_profile(file));
  CHECK(text == std::string(kProfileBegins) + read_file(file));
  CHECK(profile_text(load_profile(folder.write("again.yaml", text))) == text);
}

TEST_CASE("profile: an unknown id is refused with the nearest, and the place it was given") {
  try {
    find_profile("default-hoper", "place");
    FAIL("found");
  } catch (const InputError& error) {
    CHECK(error.where() == "place");
    CHECK(error.hint().find("'default-hopper'") != std::string::npos);
  }
}

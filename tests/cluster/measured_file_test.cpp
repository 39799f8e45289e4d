#include "cluster/profile/measured.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/profile/profile_store.h"
#include "measured_machine.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

ProfileDraft draft() {
  ProfileDraft d{.id = "mine",
                 .title = "my \"box\"",
                 .based_on = "default-hopper",
                 .measured = test::two_devices("h100-sxm", "nvswitch")};
  d.measured.loads[0].gemm[0].correction =
      LocalCorrection({.reach = 4, .alignment = 0.5}, {{{256, 1024, 64, 1}, -0.125}, {{512, 512, 512, 8}, 0.0625}});
  d.measured.collectives[1].correction = LocalCorrection({.reach = 2}, {{correction_sizes(Bytes{65536}), 0.25}});
  d.measured.loads[0].kernels[1].curve = {{Bytes{65536}, Seconds{2e-6}}, {Bytes{1 << 20}, Seconds{40e-6}}};
  d.measured.held_out = {{"fp32 GEMM shapes", 120, 0.04, 0.11}};
  d.values.emplace_back("memory_efficiency", ProfileValue{.value = 0.9,
                                                          .unit = "share: of it",
                                                          .kind = "measured",
                                                          .source = "me",
                                                          .low = 0.88,
                                                          .high = 0.92,
                                                          .num_samples = 12,
                                                          .residual = 0.01});
  d.values.emplace_back("kernel_overhead",
                        ProfileValue{.value = 4.5, .unit = "us", .kind = "measured", .source = "me"});
  return d;
}

/// The message of a file's mistakes.
std::string measured_error(const std::string& text) {
  const test::ScratchFolder folder;
  try {
    load_profile(folder.write("p.yaml", text));
  } catch (const InputError& error) { return error.what(); }
  return "";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("measured profile: what is written is read back, number by number") {
  const test::ScratchFolder folder;
  const std::string text = profile_text(draft());
  const Profile read = load_profile(folder.write("mine.yaml", text));
  CHECK(read.id == "mine");
  CHECK(read.title == "my \"box\"");
  CHECK(read.memory_efficiency == doctest::Approx(0.9));
  CHECK(read.kernel_overhead.value == doctest::Approx(4.5e-6));
  REQUIRE(read.measured);
  CHECK(measured_text(*read.measured) == measured_text(draft().measured));
  CHECK(read.measured->loads[0].gemm[4].rate.low == doctest::Approx(0.9e12));
  CHECK(read.measured->loads[0].gemm[0].range.most.k == 4096);
  CHECK(read.measured->collectives[2].segments[1].from.count == 1 << 20);
  CHECK(read.measured->loads[0].gemm[0].correction.at({256, 1024, 64, 1}) ==
        draft().measured.loads[0].gemm[0].correction.at({256, 1024, 64, 1}));
  CHECK(read.measured->collectives[1].correction.metric().reach == 2);
  CHECK(read.measured->held_out[0].num_points == 120);
  REQUIRE(read.measured->loads[0].kernels[1].curve.size() == 2);
  CHECK(read.measured->loads[0].kernels[1].time(1 << 20).value == doctest::Approx(40e-6));
  CHECK(read.measured->loads[0].kernels[0].curve.empty());
  CHECK(read.measured->on.versions[1].second == "2.28");
  CHECK(read.measured->samples == "{\"probe\": 1}\n{\"probe\": 2}\n");
  for (const auto& [name, value] : read.values)
    if (name == "memory_efficiency") {
      CHECK(value.low == doctest::Approx(0.88));
      CHECK(value.num_samples == 12);
    }
}

TEST_CASE("measured profile: what the file does not change is the class's") {
  const test::ScratchFolder folder;
  const Profile read = load_profile(folder.write("mine.yaml", profile_text(draft())));
  CHECK(read.eager_sm_bandwidth == default_profile(std::string("h100-sxm")).eager_sm_bandwidth);
}

TEST_CASE("measured profile: mistakes in its measured part are named with their line") {
  const std::string text = profile_text(draft());
  CHECK(measured_error(with(text, "type: fp32", "type: fp31")).find("unknown GEMM type 'fp31'") != std::string::npos);
  CHECK(measured_error(with(text, "kind: all-gather", "kind: all-gathers")).find("unknown collective") !=
        std::string::npos);
  CHECK(measured_error(with(text, "m_half: [0, 0, 0]", "m_half: [0, 0]")).find("must be a list of 3 numbers") !=
        std::string::npos);
  CHECK(measured_error(with(text, "correction: [4, 0.5, 256, ", "correction: [4, 0.5, "))
            .find("5 numbers for each point") != std::string::npos);
  CHECK(measured_error(with(text, "correction: [4, ", "correction: [0, ")).find("0 is out of range: 0.01 to 100") !=
        std::string::npos);
  CHECK(measured_error(with(text, "curve_bytes_s: [65536, ", "curve_bytes_s: ["))
            .find("must be pairs of bytes and seconds") != std::string::npos);
  CHECK(measured_error(with(text, "curve_bytes_s: [65536, ", "curve_bytes_s: [2000000, ")).find("rising in bytes") !=
        std::string::npos);
  CHECK(measured_error(with(text, "schema_version: 1", "schema_version: 7")).find("this program reads version 1") !=
        std::string::npos);
  CHECK(measured_error(with(text, "launch_s:", "lunch_s:")).find("lunch_s") != std::string::npos);
}

TEST_CASE("measured profile: a load is that of the nearest number of ranks, a curve too") {
  Measured m = test::two_devices("cpu", "shared-memory");
  m.loads.push_back(m.loads.front());
  m.loads.back().num_ranks = 4;
  CHECK(m.load_of(1)->num_ranks == 1);
  CHECK(m.load_of(4)->num_ranks == 4);
  CHECK(m.load_of(16)->num_ranks == 4);
  CHECK(m.curve_of(CollectiveKind::AllReduce, 8)->num_ranks == 2);
  CHECK(Measured{}.load_of(1) == nullptr);
  Measured cpu = m;
  cpu.on.kind = "cpu", cpu.on.num_cores = 2;
  CHECK(cpu.load_of(4)->num_ranks == cpu.load_of(2)->num_ranks);  // ranks without a core of their own take turns
  CHECK(Measured{}.curve_of(CollectiveKind::AllReduce, 2) == nullptr);
}

TEST_CASE(
    "measured profile: the sync latency is that of the nearest number of ranks that also have, or lack, a core each") {
  Measured m = test::two_devices("cpu", "shared-memory");
  CHECK(m.sync_latency_of(2) == nullptr);
  for (const std::int64_t num_ranks : {2, 4, 8})
    m.scalars.push_back(
        {.name = "dispatch meeting", .unit = "s", .num_ranks = num_ranks, .value = test::exactly(1e-5)});
  CHECK(m.sync_latency_of(3)->num_ranks == 4);
  m.on.kind = "cpu", m.on.num_cores = 4;
  CHECK(m.sync_latency_of(4)->num_ranks == 4);
  CHECK(m.sync_latency_of(5)->num_ranks == 8);
  CHECK(m.sync_latency_of(100)->num_ranks == 8);
}

TEST_CASE("a kernel's time: as measured at the points, by their ratio between them, in proportion beyond") {
  KernelRate rate{.launch = test::exactly(1e-6), .bandwidth = test::exactly(10e9)};
  CHECK(rate.time(1e6).value == doctest::Approx(101e-6));  // no points: the line
  CHECK(rate.time(0).value == 0);
  rate.curve = {{Bytes{10'000}, Seconds{2e-6}}, {Bytes{1'000'000}, Seconds{50e-6}}};
  CHECK(rate.time(10'000).value == doctest::Approx(2e-6));
  CHECK(rate.time(100'000).value == doctest::Approx(10e-6));  // half way in both logarithms
  CHECK(rate.time(2'000'000).value == doctest::Approx(100e-6));
  CHECK(rate.time(7'500).value == doctest::Approx(1.5e-6));
  CHECK(rate.time(100).value == doctest::Approx(1e-6));  // a launch at least
}

}  // namespace gpuplan

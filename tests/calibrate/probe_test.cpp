// Probes and samples in words and in JSON.
#include <set>

#include <doctest/doctest.h>

#include "base/error.h"
#include "calibrate/plan.h"
#include "cluster/profile/probe.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

DeviceFacts facts(DeviceKind kind) {
  return {.kind = kind,
          .architecture = "avx512_core_amx",
          .memory = 64_GiB,
          .memory_free = 60_GiB,
          .num_cores = kind == DeviceKind::Cpu ? 2 : 132,
          .gemm_types = {GemmType::F32, GemmType::BF16}};
}

std::string error_of(const std::string& line) {
  try {
    sample_from_json(line, "journal:3");
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

}  // namespace

TEST_CASE("a probe's key says what is measured") {
  CHECK(Probe{.shape{512, 2048, 512}}.key() == "gemm fp32 forward 512x2048x512 ranks=1");
  CHECK(
      Probe{.num_ranks = 2, .type = GemmType::BF16, .layout = GemmLayout::InputGradient, .shape{64, 32, 16, 8}}.key() ==
      "gemm bf16 input-gradient 64x32x16 batch=8 ranks=2");
  CHECK(
      Probe{
          .family = ProbeFamily::Collective, .num_ranks = 4, .scope = RankScope::Pair, .group_ranks = 2, .bytes = 1_KiB}
          .key() == "nccl all-gather pair of 2 fp32 1024 B ranks=4");
}

TEST_CASE("every planned probe survives JSON, and says the same afterwards") {
  for (const DeviceKind kind : {DeviceKind::Cpu, DeviceKind::Cuda})
    for (const Probe& probe : plan_probes(facts(kind), {.rank_counts = {1, 4}})) {
      const Probe back = probe_from_json(to_json_line(probe), "test");
      CHECK(back.key() == probe.key());
      CHECK(to_json_line(back) == to_json_line(probe));
    }
}

TEST_CASE("a sample survives JSON to the last bit") {
  const Sample sample{.probe{.family = ProbeFamily::Overlap, .num_ranks = 2, .shape{8, 8, 8}, .bytes = 1_MiB},
                      .median = 0.1,
                      .low = 0.0999999999999,
                      .high = 1.0 / 3,
                      .num_runs = 9,
                      .num_outliers = 2,
                      .is_converged = false,
                      .overlapped = 1.25};
  const Sample back = sample_from_json(to_json_line(sample), "test");
  CHECK(back.probe.key() == sample.probe.key());
  CHECK(back.median == sample.median);
  CHECK(back.low == sample.low);
  CHECK(back.high == sample.high);
  CHECK(back.num_runs == 9);
  CHECK(back.num_outliers == 2);
  CHECK_FALSE(back.is_converged);
  CHECK(back.overlapped == 1.25);
  CHECK(back.is_ok());
}

TEST_CASE("a failure is a sample, whatever bytes its reason holds") {
  const Sample back = sample_from_json(to_json_line(Sample{.failure = "died:\n\"\xff\""}), "test");
  CHECK_FALSE(back.is_ok());
  CHECK(back.failure.starts_with("died:\\x0a\""));  // as it will be shown, in one line
  CHECK(to_json_line(back).find('\n') == std::string::npos);
}

TEST_CASE("a line that is no sample is refused with its place") {
  const std::string good =
      to_json_line(Sample{.probe{.shape{1, 2, 3}}, .median = 1, .low = 1, .high = 1, .num_runs = 7});
  CHECK(error_of(good) == "no error");
  CHECK(error_of(good.substr(0, good.size() / 2)).find("journal:3") != std::string::npos);
  CHECK(error_of("[]").find("expected an object") != std::string::npos);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  CHECK(error_of(changed("\"fp32\"", "\"fp33\"")).find("fp33") != std::string::npos);
  CHECK(error_of(changed("\"m\":1", "\"m\":-1")).find("m") != std::string::npos);
  CHECK(error_of(changed("\"m\":1", "\"q\":1")).find("q") != std::string::npos);
  CHECK(error_of(changed("\"median\":1.0", "\"median\":-1.0")).find("median") != std::string::npos);
  CHECK(error_of(changed("\"median\":1.0", "\"median\":1e999")) != "no error");
}

TEST_CASE("work and traffic of probes") {
  const Probe product{.type = GemmType::BF16, .shape{100, 200, 300, 2}};
  CHECK(product.flops() == 2.0 * 100 * 200 * 300 * 2);
  CHECK(product.traffic().count == 2 * 2 * (100 * 300 + 200 * 300 + 100 * 200));  // 2 bytes, 2 problems
  const Probe attention{.family = ProbeFamily::Attention, .shape{.m = 128, .n = 128, .k = 64, .batch = 4}};
  CHECK(attention.flops() == 4.0 * 4 * 128 * 128 * 64);
  const auto kernel = [](MemoryKernel which, Dtype dtype) {
    return Probe{.family = ProbeFamily::Memory, .kernel = which, .dtype = dtype, .rows = 10, .width = 64}
        .traffic()
        .count;
  };
  CHECK(kernel(MemoryKernel::Copy, Dtype::F32) == 2 * 640 * 4);
  CHECK(kernel(MemoryKernel::SwiGlu, Dtype::BF16) == 3 * 640 * 2);
  CHECK(kernel(MemoryKernel::AdamW, Dtype::BF16) == 640 * (24 + 2));
  CHECK(kernel(MemoryKernel::Nf4Dequantise, Dtype::BF16) == 320 + 10 * 4 + 640 * 2);
  const Probe all_reduce{.family = ProbeFamily::Collective,
                         .num_ranks = 4,
                         .collective = CollectiveKind::AllReduce,
                         .group_ranks = 4,
                         .bytes{1000}};
  CHECK(all_reduce.traffic().count == 1500);  // 2 (4 - 1) / 4
}

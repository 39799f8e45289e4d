// What is offloaded lies in the host's memory, is copied when it is needed and stepped by the host; what is learnt is
// the same.
#include <cmath>
#include <cstring>
#include <fstream>

#include <doctest/doctest.h>

#include "run/thread_ranks.h"
#include "sanitized.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr Offload kOptimizer{.optimizer = OffloadTarget::Cpu};
constexpr Offload kAll{.optimizer = OffloadTarget::Cpu, .params = OffloadTarget::Cpu};
constexpr Offload kActivations{.activations = true};

/// Whatever the executor offloads, on 1, 2 and 4 ranks.
std::vector<NativeCase> offloading_cases() {
  struct Row {
    std::string strategy;
    std::vector<std::int64_t> ranks;
    Offload offload;
  };
  std::vector<NativeCase> out;
  for (const Row& row :
       {Row{"zero1", {1, 2, 4}, kOptimizer}, Row{"zero2", {1, 2}, kOptimizer}, Row{"zero3", {1, 2, 4}, kOptimizer},
        Row{"zero3", {2}, kAll}, Row{"fsdp", {2, 4}, kAll}, Row{"fsdp-grad-op", {2}, kAll}, Row{"hsdp", {4}, kAll},
        Row{"single", {1}, kActivations}, Row{"ddp", {2}, kActivations}, Row{"fsdp", {2}, kActivations},
        Row{"mp", {2}, kActivations}, Row{"zero1", {2}, kActivations}, Row{"zero2", {2}, kActivations},
        Row{"zero3", {2}, kActivations}, Row{"fsdp-grad-op", {2}, kActivations}, Row{"hsdp", {4}, kActivations}})
    for (const std::int64_t ranks : row.ranks)
      for (const Method method : kMethods) {
        if (method == Method::Qlora && row.offload.params != OffloadTarget::None) continue;  // refused
        NativeCase c{.strategy = row.strategy, .method = method, .ranks = ranks, .offload = row.offload};
        if (row.offload.activations) c.checkpointing = Checkpointing::Full;
        out.push_back(c);
      }
  return out;
}

NativeCase without_offload(NativeCase c) {
  c.offload = {};
  if (c.ranks == 1) c.strategy = "single";
  return c;
}

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The largest difference between the numbers of two saved models; infinite where anything else differs.
double worst_weight(const std::filesystem::path& a, const std::filesystem::path& b) {
  const std::string first = content(a), second = content(b);
  std::uint64_t header = 0;
  if (first.size() != second.size() || first.size() < sizeof header) return 1e300;
  std::memcpy(&header, first.data(), sizeof header);
  const std::size_t begin = sizeof header + header;
  if (first.substr(0, begin) != second.substr(0, begin)) return 1e300;
  double worst = 0;
  for (std::size_t at = begin; at + 4 <= first.size(); at += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, first.data() + at, 4);
    std::memcpy(&y, second.data() + at, 4);
    worst = std::max(worst, double(std::abs(x - y)));
  }
  return worst;
}

std::filesystem::path saved(const std::filesystem::path& folder, const NativeCase& c) {
  return folder / (c.method == Method::Full ? "model.safetensors" : "adapter_model.safetensors");
}

constexpr std::int64_t kSteps = kIsSanitized ? 2 : 6;

}  // namespace

TEST_CASE(
    "offload: the losses and the saved model are those without it, in fp32 and where the device keeps 16-bit weights" *
    needs_cpu()) {
  const int every = num_rounds(7, 7, 1);  // 3 methods, 4 of precision and accumulation: each in turn
  int num_asked = 0;
  for (NativeCase c : offloading_cases())
    for (const Precision precision : {Precision::Fp32, Precision::Bf16Mixed})
      for (const std::int64_t accumulation : {1, 3}) {
        if (num_asked++ % every != 0) continue;
        c.precision = precision, c.grad_accum = accumulation;
        CAPTURE(c.name());
        const ScratchFolder scratch;
        TrainingOptions o = short_run(kSteps);
        o.output = scratch.path() / "plain";
        const auto plain = train_on_threads(without_offload(c), o, cpu_backend()).losses();
        o.output = scratch.path() / "offloaded";
        const auto offloaded = train_on_threads(c, o, cpu_backend()).losses();
        CHECK(worst_relative(offloaded, plain) < 1e-5);  // norms are summed in another order
        CHECK(worst_weight(saved(scratch.path() / "plain", c), saved(scratch.path() / "offloaded", c)) < 1e-5);
      }
}

TEST_CASE("offload: memory of the device and the host is the predicted one" * needs_cpu()) {
  for (NativeCase c : offloading_cases()) {
    c.model = tiny_llama(4);
    c.seq_len = 64, c.micro_batch = 2;
    CAPTURE(c.name());
    const ThreadRun run = train_on_threads(c, short_run(1), cpu_backend()),
                    plain = train_on_threads(without_offload(c), short_run(1), cpu_backend());
    for (const RankOutcome& rank : run.ranks) {
      CHECK(rank.outcome.persistent == rank.predicted.resident);
      CHECK(rank.counted_peak == rank.outcome.peak);
      CHECK(double(rank.counted_peak.count) <= 1.03 * double(rank.predicted.tensors.count));
      CHECK(rank.outcome.host >= rank.predicted.host);
      CHECK(double(rank.outcome.host.count) <= 1.03 * double(rank.predicted.host.count));
      CHECK(rank.left == Bytes{});
    }
    CHECK(run.ranks[0].outcome.host.count > 0);
    if (c.method == Method::Full && c.offload.optimizer != OffloadTarget::None)
      CHECK(run.ranks[0].counted_peak < plain.ranks[0].counted_peak);
  }
}

TEST_CASE("offload: nothing but copies and kernels touches the device's memory, and a run that was stopped goes on" *
          needs_cpu()) {
  const int every = num_rounds(4, 4, 1);  // 3 methods: each in turn
  int num_asked = 0;
  for (NativeCase c : offloading_cases()) {
    if (c.ranks == 4 || num_asked++ % every != 0) continue;
    c.precision = c.method == Method::Full ? Precision::Bf16Mixed : Precision::Fp32;
    CAPTURE(c.name());
    const ScratchFolder scratch;
    TrainingOptions o = short_run(4);
    o.output = scratch.path() / "plain";
    const auto expected = train_on_threads(c, o, cpu_backend()).losses();
    o.output = scratch.path() / "guarded";
    o.save_every = 2;
    CHECK(train_on_threads(c, o, cpu_backend(), RankMemoryKind::Guarded).losses() == expected);
    std::filesystem::remove(saved(o.output, c));
    o.resumes = true;
    CHECK(train_on_threads(c, o, cpu_backend(), RankMemoryKind::Guarded).losses() ==
          std::vector<double>(expected.begin() + 2, expected.end()));
    CHECK(content(saved(scratch.path() / "guarded", c)) == content(saved(scratch.path() / "plain", c)));
  }
}

TEST_CASE("offload: 8-bit states are stepped on the host as well" * needs_cpu()) {
  NativeCase c{
      .strategy = "zero2", .ranks = 2, .optimizer = "adamw-8bit", .model = tiny_llama(2), .offload = kOptimizer};
  const auto offloaded = train_on_threads(c, short_run(kSteps), cpu_backend()).losses();
  CHECK(worst_relative(offloaded, train_on_threads(without_offload(c), short_run(kSteps), cpu_backend()).losses()) <
        1e-5);
}

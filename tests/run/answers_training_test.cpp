// Training on answers that are compared: every strategy computes what one rank computes, the loss is the one that its
// definition gives, and memory is the predicted one.
#include <cmath>

#include <doctest/doctest.h>

#include "run/files/error_text.h"
#include "run/thread_ranks.h"
#include "sanitized.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kSteps = kIsSanitized ? 3 : 6;

std::string list_of(std::uint32_t begin, std::uint32_t step, std::uint32_t count) {
  std::string text = "[";
  for (std::uint32_t k = 0; k < count; ++k) text += (k == 0 ? "" : ",") + std::to_string((begin + k * step) % 101);
  return text + "]";
}

/// Answers of very different lengths; some are cut.
TrainingOptions answers(const ScratchFolder& scratch, const NativeCase& c, std::int64_t steps) {
  std::string lines;
  for (std::uint32_t line = 0; line < 48; ++line)
    lines += R"({"prompt":)" + list_of(line, 7, 1 + line % 5) + R"(,"chosen":)" + list_of(line, 1, 1 + line * 5 % 13) +
             R"(,"rejected":)" + list_of(line, 98, 1 + line * 3 % 11) + R"(,"completion":)" +
             list_of(line, 1, 1 + line * 5 % 13) + R"(,"advantage":)" + std::to_string(double(line % 3) - 0.5) + "}\n";
  TrainingOptions o = short_run(steps);
  o.data = DataOptions{.file = scratch.write("answers.jsonl", lines),
                       .tokenizer_folder = {},
                       .token_dtype = {},
                       .vocab_size = c.model.vocab_size,
                       .seq_len = c.seq_len};
  ask_for_answers(*o.data, recipe_of(c));
  return o;
}

std::vector<double> norms(const ThreadRun& run) {
  std::vector<double> out;
  for (const StepMetrics& m : run.ranks.front().outcome.steps) out.push_back(m.grad_norm);
  return out;
}

/// The first steps of a run on one rank that sees the rows of all.
NativeCase alone(NativeCase c) {
  if (c.strategy != "mp") c.micro_batch *= c.ranks / (c.pp * c.tp);
  c.strategy = "single", c.ranks = c.pp = c.tp = 1;
  c.splits_sequence = false;
  return c;
}

/// Sums of both signs round to more than each of them.
void compare_with_one_rank(NativeCase c, double tolerance = 2e-5) {
  CAPTURE(c.name());
  const ScratchFolder scratch;
  const TrainingOptions options = answers(scratch, c, kSteps);
  const ThreadRun one = train_on_threads(alone(c), options, cpu_backend());
  const ThreadRun run = train_on_threads(c, options, cpu_backend());
  CHECK(worst_relative(run.losses(), one.losses()) < tolerance);
  CHECK(worst_relative(norms(run), norms(one)) < 10 * tolerance);
  for (const RankOutcome& rank : run.ranks) {
    CHECK(rank.outcome.persistent == rank.predicted.resident);
    CHECK(rank.counted_peak == rank.outcome.peak);
    CHECK(rank.counted_peak >= rank.predicted.tensors);
    CHECK(double(rank.counted_peak.count) <= 1.05 * double(rank.predicted.tensors.count));
    CHECK(rank.left == Bytes{});
  }
}

}  // namespace

TEST_CASE("answers: every strategy gives the losses of one rank, with a reference as copy and with adapters off" *
          needs_cpu()) {
  const int every = num_rounds(2, 2, 1);  // 3 methods: each in turn
  int count = 0;
  for (const char* const trained_for : {"dpo", "reward", "grpo"})
    for (const NativeCase& each : every_case({2})) {
      if (count++ % every != 0) continue;
      NativeCase c = each;
      if (c.strategy == "mp" && c.method == Method::Full) continue;  // as below, under another schedule
      c.trained_for = trained_for, c.grad_accum = 2;
      compare_with_one_rank(c);
    }
}

TEST_CASE("answers: ranks that share layers, stages of a pipeline and recomputation give the losses of one rank" *
          needs_cpu()) {
  for (const Method method : {Method::Full, Method::Lora}) {
    NativeCase c{.method = method, .ranks = 2, .grad_accum = 2, .model = even_llama(4), .trained_for = "dpo"};
    c.tp = 2;
    compare_with_one_rank(c);
    c.splits_sequence = true;
    compare_with_one_rank(c);
    c.splits_sequence = false, c.tp = 1, c.pp = 2, c.schedule = Schedule::OneFOneB;
    compare_with_one_rank(c);
    NativeCase recomputed{.strategy = "fsdp", .method = method, .ranks = 2, .trained_for = "dpo"};
    recomputed.checkpointing = Checkpointing::Full;
    compare_with_one_rank(recomputed);
  }
}

TEST_CASE("answers: a policy that is its reference loses log 2, and learns to prefer" * needs_cpu()) {
  const ScratchFolder scratch;
  for (const Method method : kMethods) {
    NativeCase c{.method = method, .micro_batch = 4, .trained_for = "dpo"};
    const std::vector<double> losses = train_on_threads(c, answers(scratch, c, 12), cpu_backend()).losses();
    CAPTURE(c.name());
    CHECK(losses.front() == doctest::Approx(std::log(2.0)).epsilon(1e-6));
    CHECK(losses.back() < losses.front());
  }
}

TEST_CASE("answers: with a beta of nothing nobody learns; a larger one moves the loss more" * needs_cpu()) {
  const ScratchFolder scratch;
  const NativeCase c{.method = Method::Lora, .micro_batch = 2, .trained_for = "dpo"};
  TrainingOptions o = answers(scratch, c, 4);
  o.beta = 0;
  const ThreadRun still = train_on_threads(c, o, cpu_backend());
  for (const StepMetrics& m : still.ranks.front().outcome.steps) CHECK(m.grad_norm == 0);
  const auto first_norm = [&](double beta) {
    o.beta = beta;
    return norms(train_on_threads(c, o, cpu_backend())).front();
  };
  CHECK(first_norm(0.4) == doctest::Approx(4 * first_norm(0.1)).epsilon(1e-4));
}

TEST_CASE("answers: a score's head is one number per token, and is trained beside adapters" * needs_cpu()) {
  const ScratchFolder scratch;
  for (const Method method : {Method::Full, Method::Lora}) {
    NativeCase c{.method = method, .micro_batch = 48, .trained_for = "reward"};
    const std::vector<double> losses = train_on_threads(c, answers(scratch, c, 8), cpu_backend()).losses();
    CHECK(losses.back() < losses.front());
  }
}

TEST_CASE("answers: what the policy thought of them before is what it thinks where nothing is given" * needs_cpu()) {
  // all ratios are 1, so that the loss is minus the mean advantage and, at first, no distance from the reference
  const ScratchFolder scratch;
  NativeCase c{.method = Method::Lora, .micro_batch = 6, .trained_for = "grpo"};
  TrainingOptions o = answers(scratch, c, 2);
  o.shuffles = false;
  const ThreadRun run = train_on_threads(c, o, cpu_backend());
  CHECK(run.losses().front() == doctest::Approx(-0.5));  // advantages -0.5, 0.5, 1.5, -0.5, 0.5, 1.5
  CHECK(norms(run).front() > 0.01);
  c.trained_for = "dapo";  // of tokens: lengths 1, 6, 11, 3, 8, 13 of which the prompt's last predicts the first
  o = answers(scratch, c, 1);
  o.shuffles = false;
  const double tokens = 1 + 6 + 11 + 3 + 8 + 13, sum = -0.5 * (1 + 3) + 0.5 * (6 + 8) + 1.5 * (11 + 13);
  // the last row has 1 + 13 tokens, the sequence 16: nothing is cut
  CHECK(train_on_threads(c, o, cpu_backend()).losses().front() == doctest::Approx(-sum / tokens));
}

TEST_CASE("answers: in bf16 strategies agree to its 8 bits" * needs_cpu()) {
  for (const Method method : {Method::Full, Method::Lora}) {
    NativeCase c{.strategy = "fsdp", .method = method, .ranks = 2, .trained_for = "dpo"};
    c.precision = Precision::Bf16Mixed;
    compare_with_one_rank(c, 2e-2);
  }
}

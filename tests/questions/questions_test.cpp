// Random questions to the program's entry point. GPUPLAN_QUESTIONS is how many, GPUPLAN_QUESTIONS_SEED where they
// begin, GPUPLAN_QUESTIONS_SECONDS how long at most; a failure is printed as a command line.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "questions/laws.h"
#include "questions/random_question.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::uint64_t number_in(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text ? std::stoull(text) : usual;
}

/// What random questions found, at its shortest.
const char* const kFound[] = {
    // scores of an evaluation batch beyond 63 bits, and their bytes
    "gpuplan estimate --model smollm2-135m --gpus 1xA6000 --framework ms-swift --seq-len 67108864 --eval-batch 64 "
    "--attention eager",
    "gpuplan simulate --model gpt-oss-20b --qlora=r=4,dtype=bf16,base=fp32 --gpus 1xA6000 --seq-len 67108864 "
    "--eval-batch 64",
    // logits of an evaluation batch beyond 63 bits, in the layer's program
    "gpuplan simulate --model smollm2-135m --gpus 1xA6000 --seq-len 67108864 --eval-batch 1000000",
    // one tensor fewer than none: a tower's gradients bear the names of the language model's and are of another size
    "gpuplan estimate --model smolvlm2-2.2b --gpus 8xH200 --train-vision all --grad-accum 8 --checkpointing every=2 "
    "--json",
    // walked turn by turn: stages that wait for nobody ran ahead of the others, so that no two turns were found alike
    "gpuplan estimate --model smolvlm2-256m --lora --gpus 8x4090 --grad-accum 100000 --json",
    // a row of mp was not that of the GPU whose process is nearest to its limit
    "gpuplan estimate --model apertus-70b --lora=r=8,save=lm_head+embed_tokens --gpus 8xA100-80GB --json",
    // adapters of a model without attention: 0 of 0
    "gpuplan estimate --model mamba-1.4b --qlora=r=16,dora,targets=in_proj --gpus 1xA6000 --explain",
    // tensors of less than no bytes at the peak
    "gpuplan estimate --model smollm2-135m --lora --gpus 2xA6000 --grad-accum 2 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --grad-accum 2 --json",
    "gpuplan estimate --model smollm2-135m --lora --gpus 8xT4 --json",
    "gpuplan estimate --model gemma-3-1b --gpus 2xA6000 --framework deepspeed --json",
    "gpuplan estimate --model olmo2-32b --gpus 2xA6000 --optimizer muon --json",
    // 64 bits and 106 days of picoseconds were not enough; each is refused or has its answer
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --eval-generate 922337203685477 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --tokens-per-row 9223372036854775807 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --epochs 1e308 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --price-per-gpu-hour 1e308 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2049xH100 --seq-len 1000000 --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --straggler 0=1e12 --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --what-if memory=1e-9 --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --what-if gemm=1e-9 --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --jitter 1e300 --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --chart-from 1e9s",
    "gpuplan estimate --model gemma-2-9b --gpus 2x3090 --full --seq-len 67108864 --eval-logits kept --loss chunked=4 "
    "--json",
    // a printed command with --micro-batch twice
    "gpuplan plan --model smollm2-135m --gpus 2xT4 --micro-batch 3 --max context --json",
    // logits of an evaluation that wrapped around
    "gpuplan estimate --model nemotron-nano-9b-v2 --qlora=r=8 --gpus 1024xH100 --seq-len 67108864 --packing dynamic "
    "--rows 10000 --tokens-per-row 1 --eval-batch 64 --json",
    // bytes of a replay that wrapped around
    "gpuplan estimate --model llama-3.3-70b --lora --gpus 4xH100 --framework litgpt --seq-len 67108864 --attention "
    "eager --json",
    // a command that plan prints and estimate refuses: what steps in backward cannot accumulate
    "gpuplan plan --model bloom-7b1 --gpus 4xA6000 --seq-len 128 --precision fp32 --optimizer-in-backward --json",
    // a copy between kernels ended twice, as a kernel and as a copy
    "gpuplan simulate --model llama-3-70b --lora --gpus 4xA6000 --framework llmq --offload params:nvme --strategy "
    "zero3 "
    "--json",
    // too much work: messages of a ring whose ranks are not in step; two gigabytes of plans
    "gpuplan simulate --model glm-4-9b-0414 --qlora --gpus 256xA100-80GB --seq-len 32768 --straggler 0=0.001 --json",
    "gpuplan plan --model t5-large --cluster gb200-nvl72 --global-batch 65536 --json",
    "gpuplan plan --model qwen2-vl-7b --gpus 1024xH100 --grad-accum 64 --shard-size 4 --global-batch 1 --under 6h "
    "--min "
    "gpus --json",
    // a last machine with fewer GPUs than the others: the trees of an all-reduce left the list of its ranks
    // flags and names that random questions leave out
    "gpuplan estimate --model smollm2-135m --full --gpus 2xA6000 --tokens 100B --epochs 0.5 --tokens-per-row 200 "
    "--json",
    "gpuplan plan --model smollm2-135m --lora --gpus H100 --num-gpus 8 --tokens 1 --json",
    "gpuplan simulate --model smollm2-135m --qlora=64 --gpus H20 --num-gpus 4 --zero 3 --json",
    "gpuplan simulate --model smollm2-135m --qlora=r=1,targets=q_proj+v_proj --cluster gb200-nvl72 --num-gpus 824",
    "gpuplan simulate --model smollm2-135m --cluster dgx-h100 --num-gpus 9 --strategy ddp --json",
    "gpuplan simulate --model smollm2-135m --cluster dgx-h100 --num-gpus 9 --strategy zero1 --no-fold --json",
    "gpuplan simulate --model smollm2-135m --cluster dgx-h100 --num-gpus 146 --strategy hsdp --json",
    "gpuplan simulate --model smollm2-135m --cluster dgx-h100 --num-gpus 24 --shard-size 3 --strategy hsdp --json",
    // another cut, whose fullest stage has less of the allocator's cache
    "gpuplan estimate --model olmo2-13b --gpus 8xT4 --framework ms-swift --seq-len 4096 --json",
    // the fullest stage of a smaller card is another one
    "gpuplan estimate --model gpt-oss-120b --qlora=r=8 --gpus 8xA100-80GB --micro-batch 4 --json",
    // saved and then refused: the plan's reader had a limit of its own
    "gpuplan estimate --model smollm2-135m --gpus 131072xH100 --strategy ddp --save saved.json --json",
    // a window in which a strategy has no span
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --strategy mp --chart-from 1ms --chart-to 2ms",
};

std::string verdict_on(const Question& question) { return check_all({question}, first_broken).front(); }

/// Slow questions shrink slowly, so not for ever.
Question shortest_failing(const Question& question) {
  int attempts = 30;
  return shrunk(question, [&](const Question& q) { return --attempts >= 0 && !verdict_on(q).empty(); });
}

void tell(const Question& question, const std::string& law) {
  std::cout << fmt::format("{}\n  {}\n", law, question.line()) << std::flush;  // before it is made shorter
  if (law.starts_with("hangs")) FAIL(fmt::format("question {}: {}\n  {}", question.number, law, question.line()));
  const Question shortest = shortest_failing(question);
  FAIL_CHECK(fmt::format("question {}: {}\n  {}\n  {}", question.number, law, shortest.line(), verdict_on(shortest)));
}

/// A line a minute: a run that is stopped counts too.
void print_progress(std::uint64_t seed, std::uint64_t next, int failures) {
  static auto last = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  if (now - last < std::chrono::minutes(1)) return;
  last = now;
  std::cout << fmt::format(
                   "so far: seed {} up to {}, {} questions asked, {} refused, {:.0f} s of a processor, {} found\n",
                   seed, next, tally().num_asked, tally().num_refused, tally().seconds, failures)
            << std::flush;
}

void print_tally() {
  const Tally& t = tally();
  for (const Tally::OfCommand& command : t.commands)
    if (command.num_asked > 0)
      std::cout << fmt::format("{:<12}{:>9} asked  {:>8.1f} ms each\n", command.name, command.num_asked,
                               1e3 * command.seconds / double(command.num_asked));
  std::cout << fmt::format(
      "{} questions, {} refused, in {:.0f} s of a processor, of which {} that took more than 0.25 s had {:.0f} s; "
      "most memory {} MiB\n",
      t.num_asked, t.num_refused, t.seconds, t.num_long, t.long_seconds, t.memory_bytes >> 20);
  for (int i = 0; i < kNumWorks; ++i)
    std::cout << fmt::format("most {} {}: {}\n", to_string(Work(i)), t.most[std::size_t(i)].amount,
                             t.most[std::size_t(i)].line);
}

}  // namespace

TEST_CASE("questions that found a defect keep the laws") {
  for (const char* const line : kFound) {
    Question question = question_of(line);
    CHECK(question.line() == line);
    CAPTURE(std::string(line));
    const std::uint64_t num_relations = question.command == "estimate" ? 4 : 1;
    for (question.number = 0; question.number < num_relations; ++question.number) CHECK(verdict_on(question) == "");
  }
}

TEST_CASE("what a user typed reaches the terminal without its escape sequences") {
  for (const char* const command : {"gpus", "models"})
    for (const char* const flag : {"", "--json"}) {
      Question question{.command = command, .flags = {{"", "\x1b[31mred"}}};
      if (*flag) question.flags.push_back({flag, ""});
      CHECK(verdict_on(question) == "");
    }
  const Question job{.command = "run",
                     .flags = {{"", "lora.json"},
                               {"--engine", "slurm"},
                               {"--dry-run", ""},
                               {"--job", "\x1b[31mred"},
                               {"--data", "rows.jsonl"}}};
  CHECK(verdict_on(job) == "");
}

TEST_CASE("an export that is refused has one message") {
  const Question question{.command = "export",
                          .flags = {{"", "tight.json"}, {"--for", "skypilot"}, {"--output", "exported twice"}}};
  CHECK(check_all({question}, [](const Question& q) -> std::string {
          if (ask(q).code != 0) return "the first is refused";
          const Answered again = ask(q);
          return again.code == 2 ? broken_law(q, again) : "the second is not refused";
        }).front() == "");
}

TEST_CASE("a plan for cores differs with the memory that is free, and with nothing else of the moment") {
  const Question question =
      question_of("gpuplan estimate --model smollm2-135m --gpus 2xcpu --strategy ddp --optimizer paged-adamw --json");
  CHECK(check_all({question}, [](const Question& q) -> std::string {
          const std::string first = ask(q).out;
          if (ask(q).out != first) return "asked twice, it has two answers";
          std::filesystem::create_directory("small");
          std::ofstream("small/meminfo") << "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n";
          std::filesystem::copy_file("proc/cpuinfo", "small/cpuinfo");
          setenv("GPUPLAN_PROC", "small", 1);
          const auto process_bytes = [](const std::string& answer) -> std::int64_t {
            return nlohmann::json::parse(answer).at("strategies")[0].at("process_bytes");
          };
          // paged states take what is left of it
          return process_bytes(ask(q).out) < process_bytes(first) ? "" : "less free memory changes nothing";
        }).front() == "");
}

TEST_CASE("a failing question shrinks to what makes it fail") {
  const Question question = question_of(
      "gpuplan estimate --model llama-3-8b --full --gpus 8xH100 --seq-len 512 --rows 1 --explain --epochs 2 --json");
  Question needed = question;
  for (GivenFlag& flag : needed.flags) flag.is_needed = flag.name == "--model" || flag.name == "--gpus";
  const Question shortest = shrunk(needed, [](const Question& q) { return q.has("--rows"); });
  CHECK(shortest.line() == "gpuplan estimate --model smollm2-135m --gpus 1xA6000 --rows 1");
}

TEST_CASE("a question that ends the process is named, and the next ones are asked") {
  const std::vector<Question> questions{{.command = "models"}, {.command = "gpus"}, {.command = "profiles"}};
  const auto verdicts = check_all(questions, [](const Question& q) -> std::string {
    if (q.command == "gpus") std::raise(SIGKILL);
    return q.command == "profiles" ? "said" : "";
  });
  CHECK(verdicts[0] == "");
  CHECK(verdicts[1].starts_with("signal 9"));
  CHECK(verdicts[2] == "said");
}

TEST_CASE("every question has an answer that keeps the laws") {
  const std::uint64_t count = number_in("GPUPLAN_QUESTIONS", kIsSanitized ? 150 : 400),
                      seed = number_in("GPUPLAN_QUESTIONS_SEED", 1),
                      seconds = number_in("GPUPLAN_QUESTIONS_SECONDS", 60);
  constexpr std::uint64_t kBatch = kIsSanitized ? 50 : 200;  // the time is looked at between batches
  int failures = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count && failures < 20; i += kBatch) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds)) break;
    std::vector<Question> batch;
    for (std::uint64_t q = i; q < std::min(count, i + kBatch); ++q) batch.push_back(random_question(seed, q));
    const std::vector<std::string> verdicts = check_all(batch, first_broken);
    for (std::size_t q = 0; q < batch.size() && failures < 20; ++q)
      if (!verdicts[q].empty()) ++failures, tell(batch[q], verdicts[q]);
    print_progress(seed, i + batch.size(), failures);
  }
  print_tally();
}

namespace {

/// A random question of `simulate` as one that `estimate` answers too; nothing for other commands.
std::optional<Question> analytic_question(std::uint64_t seed, std::uint64_t number) {
  Question q = random_question(seed, number);
  if (q.command != "simulate") return {};
  for (const char* flag : {"--jitter", "--straggler", "--what-if", "--scaling", "--compare", "--no-fold",
                           "--chart-from", "--chart-to", "--trace", "--html", "--seed"})
    q = q.without(flag);
  return q.with("--network", "analytic").with("--json", "");
}

/// `simulate` and `estimate` read the same program with the same costs, so they agree. Where the optimizer steps in
/// backward, `estimate` has slowed its steps before it knows of all the collectives beside them.
std::string broken_equality(const Question& question) {
  const Answered answered = ask(question);
  const auto difference = difference_of_engines(question, answered);
  if (!difference) return "";
  const bool is_estimated_ahead = question.has("--optimizer-in-backward");
  Tally& t = tally();
  ++t.num_compared;
  t.num_far += !is_estimated_ahead && std::abs(*difference) > 0.001;
  t.farthest = std::max(t.farthest, std::abs(*difference));
  const double most = is_estimated_ahead ? 0.05 : 0.01;
  return std::abs(*difference) < most ? "" : fmt::format("{:+.2f} % apart", 100 * *difference);
}

}  // namespace

TEST_CASE("the analytic simulation takes as long as the estimate says") {
  const std::uint64_t count = number_in("GPUPLAN_EQUAL", num_rounds(20, 60, 200)),
                      seed = number_in("GPUPLAN_QUESTIONS_SEED", 1);
  std::vector<Question> questions;
  for (std::uint64_t i = 0; questions.size() < count; ++i)
    if (const auto q = analytic_question(seed, i)) questions.push_back(*q);
  const std::vector<std::string> verdicts = check_all(questions, broken_equality);
  for (std::size_t q = 0; q < questions.size(); ++q) {
    CAPTURE(questions[q].line());
    CHECK(verdicts[q] == "");
  }
  const Tally& t = tally();
  std::cout << fmt::format("compared {} times, {} beyond 0.1 %, at most {:.1f} %\n", t.num_compared, t.num_far,
                           100 * t.farthest);
  CHECK(t.num_compared >= count / 4);  // methods that generate have no single step to compare
  CHECK(double(t.num_far) <= 0.05 * double(t.num_compared));
}

// Random questions to the program's entry point. GPUPLAN_QUESTIONS is how many, GPUPLAN_QUESTIONS_SEED where they
// begin, GPUPLAN_QUESTIONS_SECONDS how long at most; a failure is printed as a command line.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "questions/laws.h"
#include "sanitized.h"

using namespace gpuplan::test;

namespace {

std::uint64_t number_in(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text ? std::stoull(text) : usual;
}

/// Questions asked so far, and the worst of them.
struct Tally {
  std::uint64_t num_questions = 0, num_refused = 0, num_compared = 0, num_far = 0, num_slow = 0;
  double slowest = 0, farthest = 0;
  std::int64_t memory_bytes = 0;
  std::string slowest_line;
};

std::string first_broken(const Question& question, Tally& tally) {
  const Answered answered = ask(question);
  ++tally.num_questions;
  tally.num_refused += answered.code == 2;
  if (answered.seconds > tally.slowest) tally.slowest = answered.seconds, tally.slowest_line = question.line();
  tally.memory_bytes = std::max(tally.memory_bytes, answered.memory_bytes);
  if (answered.signal == SIGALRM) {
    ++tally.num_slow;
    std::cout << fmt::format("longer than {} s\n  {}\n", most_seconds(), question.line()) << std::flush;
    return "";
  }
  std::string law = broken_law(question, answered);
  if (law.empty()) law = broken_relation(question, answered);
  if (!law.empty()) return law;
  if (const auto difference = difference_of_engines(question, answered)) {
    ++tally.num_compared;
    tally.num_far += std::abs(*difference) > 0.01;
    if (std::abs(*difference) > 0.01 && std::getenv("GPUPLAN_QUESTIONS_SHOW_FAR"))
      std::cout << fmt::format("{:+.2f} % {}\n", 100 * *difference, question.line());
    tally.farthest = std::max(tally.farthest, std::abs(*difference));
  }
  return "";
}

/// What random questions found, at its shortest.
const char* const kFound[] = {
    // tensors of less than no bytes at the peak
    "gpuplan estimate --model smollm2-135m --lora --gpus 2xA6000 --grad-accum 2 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --grad-accum 2 --json",
    "gpuplan estimate --model smollm2-135m --lora --gpus 8xT4 --json",
    "gpuplan estimate --model gemma-3-1b --gpus 2xA6000 --framework deepspeed --json",
    "gpuplan estimate --model olmo2-32b --gpus 2xA6000 --optimizer muon --json",
};

}  // namespace

TEST_CASE("questions that found a defect keep the laws") {
  Tally ignored;
  for (const char* const line : kFound) {
    const Question question = question_of(line);
    CHECK(question.line() == line);
    CHECK_MESSAGE(first_broken(question, ignored) == "", line);
  }
}

TEST_CASE("a failing question shrinks to what makes it fail") {
  const Question question = random_question(1, 34);
  REQUIRE(question.flags.size() > 4);
  const Question shortest =
      shrunk(question.with("--rows", "1").with("--epochs", "2"), [](const Question& q) { return q.has("--rows"); });
  CHECK(shortest.line() == "gpuplan estimate --model smollm2-135m --gpus 1xA6000 --rows 1");
}

TEST_CASE("every question has an answer that keeps the laws") {
  const std::uint64_t count = number_in("GPUPLAN_QUESTIONS", kIsSanitized ? 150 : 600),
                      seed = number_in("GPUPLAN_QUESTIONS_SEED", 1),
                      seconds = number_in("GPUPLAN_QUESTIONS_SECONDS", 60);
  Tally tally;
  int failures = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count && failures < 20; ++i) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds)) break;
    const Question question = random_question(seed, i);
    const std::string law = first_broken(question, tally);
    if (law.empty()) continue;
    ++failures;
    Tally ignored;
    std::cout << fmt::format("{}\n  {}\n", law, question.line()) << std::flush;
    int attempts = 60;  // slow questions shrink slowly
    const auto fails = [&](const Question& q) { return --attempts >= 0 && !first_broken(q, ignored).empty(); };
    const Question shortest = shrunk(question, fails);
    FAIL_CHECK(fmt::format("seed {}, question {}: {}\n  {}\n  {}", seed, i, law, shortest.line(),
                           first_broken(shortest, ignored)));
  }
  std::cout << fmt::format(
      "{} questions, {} refused; {} slow, the slowest {:.1f} s: {}\nmost memory {} MiB; estimate and analytic "
      "simulation compared "
      "{} "
      "times, {} beyond 1 %, at most {:.1f} %\n",
      tally.num_questions, tally.num_refused, tally.num_slow, tally.slowest, tally.slowest_line,
      tally.memory_bytes >> 20, tally.num_compared, tally.num_far, 100 * tally.farthest);
  // Simulations of the largest models, every rank apart and of several strategies at once, may take longer.
  CHECK(tally.num_slow <= 2 + tally.num_questions / 50);
  // Known to differ where ranks wait for each other; no more than that, and not by more.
  CHECK(tally.farthest < 0.3);
}

// A trainer's record offers nothing that its own files cannot say: each strategy that is not refused under it, the
// recommended one among them, is exported to its trainer, whose rules it obeys, and is read back as the same plan
// (which `export` checks itself). Plain PyTorch has no file but the script of `export --for torch`, which runs DDP and
// ZeRO-1 alone, and refuses others with a way out.
#include <array>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/strategy.h"
#include "questions/ask.h"
#include "questions/question.h"
#include "sanitized.h"

namespace {

using namespace gpuplan::test;
using nlohmann::json;

struct OwnFiles {
  const char *framework, *target;
};
constexpr std::array kOwn{OwnFiles{"trl", "trl"},
                          OwnFiles{"axolotl", "axolotl"},
                          OwnFiles{"llama-factory", "llama-factory"},
                          OwnFiles{"torchtune", "torchtune"},
                          OwnFiles{"hf-trainer", "accelerate"},
                          OwnFiles{"hf-deepspeed", "accelerate"}};
constexpr std::array kAsked{"--model llama-3.2-1b --full --gpus 4xA6000", "--model llama-3.2-1b --lora --gpus 4xA6000",
                            "--model llama-3.1-8b --qlora --gpus 2x4090", "--model llama-3.1-8b --full --gpus 8xH100",
                            "--model qwen2.5-0.5b --lora --gpus 1x3060",  "--model llama-3.2-1b --qlora --gpus 2xT4"};

/// Where what is not given must be chosen to save memory, and is then written too.
constexpr std::array kTight{"--model llama-3.1-8b --full --gpus 1x4090",
                            "--model llama-3.1-8b --full --gpus 2xA100-80GB",
                            "--model qwen2.5-14b --lora --gpus 2x3090 --seq-len 8192",
                            "--model llama-3.1-8b --lora --gpus 8xH100 --seq-len 65536",
                            "--model qwen2.5-32b --full --gpus 8xH100",
                            "--model llama-3.2-3b --full --gpus 1x4090 --seq-len 8192"};

std::vector<Question> questions() {
  std::vector<Question> out;
  std::size_t number = 0;
  const auto add = [&](std::string_view asked, const OwnFiles& own, std::string_view strategy) {
    if (!kIsSanitized || number++ % 7 == 0)
      out.push_back(question_of(fmt::format("estimate {} --framework {} --strategy {} --json --save saved.json", asked,
                                            own.framework, strategy)));
  };
  for (const OwnFiles& own : kOwn) {
    for (const char* asked : kAsked)
      for (const std::string_view strategy : gpuplan::strategy_names()) add(asked, own, strategy);
    for (const char* asked : kTight) add(asked, own, "auto");
  }
  return out;
}

const char* target_of(const Question& q) {
  for (const OwnFiles& own : kOwn)
    if (q.value_of("--framework") == own.framework) return own.target;
  return "";
}

std::string is_exported(const Question& q) {
  const Answered estimate = ask(q);
  if (estimate.code == 2) return {};  // no such plan: says why
  if (estimate.code > 1) return fmt::format("exit {}: {}", estimate.code, estimate.err);
  const json answer = json::parse(estimate.out, nullptr, false);
  if (q.value_of("--strategy") == "auto" && estimate.code != 0) return {};
  for (const json& row : answer["strategies"])
    if (row["name"] == q.value_of("--strategy") &&
        (!row["not_applicable"].is_null() || (row["fits"] != "yes" && row["fits"] != "tight")))
      return {};
  const Answered files = ask({.command = "export", .flags = {{"", "saved.json"}, {"--for", target_of(q)}}});
  return files.code == 0 ? std::string()
                         : fmt::format("{}: offered, and its own files refuse it: {}", q.line(), files.err);
}

}  // namespace

TEST_CASE("every strategy that a trainer's record offers is exported to that trainer") {
  const std::vector<std::string> violations = check_all(questions(), is_exported);
  for (const std::string& violation : violations) CHECK(violation == "");
}

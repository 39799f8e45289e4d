// Answers about divided models and about GPUs that nobody measured, as the program gives them.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "golden/command_line.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

nlohmann::json divided_answer(const std::string& command) {
  const test::Ran ran = test::run_line(command + " --json");
  CAPTURE(ran.err);
  REQUIRE(ran.code <= 1);
  return nlohmann::json::parse(ran.out);
}

}  // namespace

TEST_CASE("what export writes for torchtitan is read back from its launcher, with the model") {
  const test::ScratchFolder scratch;
  const std::string plan = (scratch.path() / "plan.json").string(), files = (scratch.path() / "files").string();
  const std::string question = "estimate --model llama3-8b --framework torchtitan --gpus 8xH100 --full --seq-len 4096";
  REQUIRE(test::run_line(fmt::format("{} --offline --save '{}'", question, plan)).code == 0);
  REQUIRE(test::run_line(fmt::format("export '{}' --for torchtitan --output '{}'", plan, files)).code == 0);
  const nlohmann::json saved = divided_answer(fmt::format("estimate '{}'", plan));
  const nlohmann::json read =
      divided_answer(fmt::format("estimate --from '{}/launch.sh' --gpus 8xH100 --offline", files));
  CHECK(read["recommended"]["strategy"] == saved["recommended"]["strategy"]);
  CHECK(read["model"]["name"] == saved["model"]["name"]);
}

TEST_CASE("ranks that have the same experts are all of a stage where no experts are shared") {
  const auto ranks = [](const std::string& flags) {
    const nlohmann::json answer =
        divided_answer("estimate --full --framework megatron --strategy zero1 --gpus 8xH100 --offline " + flags);
    return answer["strategies"][0]["mesh"]["expert_data"].get<int>();
  };
  CHECK(ranks("--model llama3-8b --tp 2 --pp 2") == 4);
  CHECK(ranks("--model qwen3-30b-a3b --ep 4") == 2);
}

TEST_CASE("no run on cards of AMD is measured, which widens the ranges and is said") {
  const auto answer = [](const std::string& gpus) {
    return test::run_line("estimate --model llama3-8b --full --explain --offline --gpus " + gpus).out;
  };
  CHECK(answer("8xMI300X").find("no measured run with AMD") != std::string::npos);
  CHECK(answer("8xH100").find("no measured run") == std::string::npos);
}

}  // namespace gpuplan

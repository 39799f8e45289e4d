// Advice of answers, followed: engines that a trainer starts, keys that have an effect, time that is counted once.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "golden/command_line.h"
#include "planner/recommend.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

json json_answer(const std::string& line) {
  const test::Ran ran = test::run_line(line);
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return json::parse(ran.out);
}

std::string refusal_of(const std::string& line) {
  const test::Ran ran = test::run_line(line);
  CHECK(ran.code == 2);
  return ran.err;
}

}  // namespace

TEST_CASE("plan offers no engine to a method whose answers the trainer writes itself, and its command runs") {
  for (const std::string trainer : {"trl", "ms-swift"}) {
    const json plan =
        json_answer("plan --model qwen2.5-0.5b --method ppo --gpus 2xA100-80 --framework " + trainer + " --json");
    for (const json& row : plan.at("frontier")) {
      const std::string command = row.at("command");
      CAPTURE(command);
      CHECK(command.find("--rollout-engine") == std::string::npos);
      CHECK(test::run_line(command.substr(std::string("gpuplan ").size())).code == 0);
    }
  }
}

TEST_CASE("an engine in a place that the trainer has not is refused with the place that it has") {
  const std::string error = refusal_of(
      "estimate --model qwen2.5-0.5b --method grpo --framework prime-rl --gpus 2xA100-80 --rollout-engine "
      "vllm:colocate");
  CHECK(error.find("engines of prime-rl have GPUs of their own") != std::string::npos);
  CHECK(error.find("vllm:server") != std::string::npos);
}

TEST_CASE("log-probs of a reference before training are part of the time and the cost, and no saving at one epoch") {
  const std::string line =
      "estimate --model qwen2.5-0.5b --method dpo --full --gpus 2xA100-80 --framework trl --strategy ddp --micro-batch "
      "4 "
      "--rows 10000 --as-given --json";
  const json each = json_answer(line).at("strategies")[0],
             once = json_answer(line + " --ref precomputed").at("strategies")[0];
  const double before = once.at("total_seconds").get<double>() - once.at("epoch_seconds").get<double>();
  CHECK(before > 0.1 * once.at("epoch_seconds").get<double>());
  CHECK(once.at("total_seconds").get<double>() ==
        doctest::Approx(each.at("total_seconds").get<double>()).epsilon(0.05));
  CHECK(once.at("cost_usd").get<double>() / once.at("total_seconds").get<double>() ==
        doctest::Approx(each.at("cost_usd").get<double>() / each.at("total_seconds").get<double>()));
  const json thrice = json_answer(line + " --ref precomputed --epochs 3").at("strategies")[0];
  CHECK(thrice.at("total_seconds").get<double>() - 3 * thrice.at("epoch_seconds").get<double>() ==
        doctest::Approx(before).epsilon(1e-6));
}

TEST_CASE("a teacher with another vocabulary is refused where the trainer stops") {
  const std::string line =
      "estimate --model qwen2.5-0.5b --teacher qwen2.5-7b --method on-policy-distill --gpus 1xH100 ";
  CHECK(refusal_of(line + "--framework trl").find("152,064") != std::string::npos);  // 151,936 of the student
  CHECK(test::run_line(line + "--framework ms-swift").code == 0);
}

TEST_CASE("of plans that may not fit the likelier is starred where the times are alike") {
  const auto tight = [](double chance, double tokens_per_second, int simplicity) {
    StrategyEstimate e;
    e.fit = Fit::Tight;
    e.chance = chance;
    e.tokens_per_second = tokens_per_second;
    e.num_gpus_used = 4;
    e.strategy.simplicity = simplicity;
    return e;
  };
  const std::vector<StrategyEstimate> rows{tight(0.24, 9538, 1), tight(0.68, 9084, 2)};
  CHECK(best_of(rows, Preference::Speed, 0.15) == &rows[1]);
  const std::vector<StrategyEstimate> alike{tight(0.62, 9538, 1), tight(0.68, 9084, 2)};
  CHECK(best_of(alike, Preference::Speed, 0.15) == &alike[0]);  // the simpler
  const std::vector<StrategyEstimate> slow{tight(0.24, 9538, 1), tight(0.68, 5000, 2)};
  CHECK(best_of(slow, Preference::Speed, 0.15) == &slow[0]);
}

TEST_CASE("a verl script gets the keys without which an offload has no effect, and half of one is not counted") {
  const test::ScratchFolder folder;
  const std::string text =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
      "data.max_prompt_length=512 data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
      "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 "
      "actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.rollout.name=vllm "
      "actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=8";
  const auto file = [&](const std::string& name, const std::string& more) {
    return folder.write(name, text + more + "\n").string();
  };
  const test::Ran fixed = test::run_line("fix " + file("small.sh", "") + " --gpus 4xA100-40GB");
  CHECK(fixed.out.find("+") != std::string::npos);
  CHECK(fixed.out.find("actor_rollout_ref.actor.fsdp_config.offload_policy=True") != std::string::npos);
  CHECK(fixed.out.find("actor_rollout_ref.actor.strategy=fsdp2") != std::string::npos);
  const auto gib = [&](const std::string& name, const std::string& more) {
    return json_answer("estimate --from " + file(name, more) + " --gpus 8xH100 --strategy fsdp --as-given --json")
        .at("strategies")[0]
        .at("process_bytes")
        .get<double>();
  };
  const std::string params = " actor_rollout_ref.actor.fsdp_config.param_offload=True",
                    states = " actor_rollout_ref.actor.fsdp_config.optimizer_offload=True";
  const double none = gib("none.sh", "");
  CHECK(gib("params.sh", params) == none);
  CHECK(gib("states.sh", states) == none);
  CHECK(gib("both.sh", params + states) < none);
  CHECK(gib("policy.sh", " actor_rollout_ref.actor.fsdp_config.offload_policy=True") == none);  // of FSDP2 alone
}

TEST_CASE("rows that are padded far beyond their length are told, and fix says the key") {
  const test::ScratchFolder folder;
  std::string rows;
  for (int i = 0; i < 400; ++i) rows += "{\"text\": \"one two three four five six seven eight nine ten\"}\n";
  const std::string data = folder.write("rows.jsonl", rows).string();
  const std::string file =
      folder
          .write("axolotl.yaml",
                 "base_model: Qwen/Qwen2.5-0.5B\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n"
                 "datasets:\n  - path: " +
                     data +
                     "\n    type: completion\nsequence_len: 2048\nsample_packing: false\n"
                     "pad_to_sequence_len: true\nmicro_batch_size: 2\n"
                     "gradient_accumulation_steps: 2\nnum_epochs: 2\noptimizer: adamw_torch_fused\n"
                     "bf16: true\ngradient_checkpointing: true\nflash_attention: true\n")
          .string();
  CHECK(test::run_line("estimate --from " + file + " --gpus 1xA6000").out.find("--packing dynamic") !=
        std::string::npos);
  CHECK(test::run_line("fix " + file + " --gpus 1xA6000 --goal fast").out.find("+pad_to_sequence_len: false") !=
        std::string::npos);
}

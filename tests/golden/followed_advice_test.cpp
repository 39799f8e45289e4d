// Advice of answers, followed: engines that a trainer starts, keys that have an effect, time that is counted once.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
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

TEST_CASE("a verl script gets the keys without which an offload has no effect, and each of two offloads counts alone") {
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
  // of weights W and optimizer states O the host takes one, the other, or both: the GPUs generate with what is left
  const double of_weights = none - gib("params.sh", params), of_states = none - gib("states.sh", states);
  CHECK(of_weights > 0);
  CHECK(of_states == doctest::Approx(2 * of_weights));        // fp32 weights, two fp32 states of Adam
  CHECK(gib("both.sh", params + states) < none - of_states);  // then another moment is the highest
  CHECK(gib("policy.sh", " actor_rollout_ref.actor.fsdp_config.offload_policy=True") == none);  // of FSDP2 alone
}

constexpr const char* kTrlFile =
    "model_name_or_path: Qwen/Qwen2.5-1.5B\ndataset_name: trl-lib/Capybara\ndtype: bfloat16\nbf16: true\n"
    "gradient_checkpointing: true\nper_device_train_batch_size: 2\nmax_length: 1024\n";

TEST_CASE("a file alone under FSDP is what it is with accelerate's file: weights loaded in bf16 are turned into fp32") {
  // huggingface/accelerate @16cb6eb8: fsdp2_prepare_model upcasts where mixed_precision is not "no"; DDP does not
  const test::ScratchFolder folder;
  const std::string trainer = folder.write("trl.yaml", kTrlFile).string();
  const std::string launcher =
      folder
          .write("accelerate.yaml",
                 "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
                 "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                 "  fsdp_reshard_after_forward: true\n")
          .string();
  const auto bytes = [&](const std::string& more) {
    return json_answer("estimate --from " + trainer + " --gpus 4xA100-80 --as-given --json " + more)
        .at("strategies")[0]
        .at("process_bytes")
        .get<double>();
  };
  CHECK(bytes("--strategy fsdp") == bytes("--from " + launcher));
  CHECK(bytes("--strategy fsdp") == bytes("--strategy fsdp --precision bf16-mixed"));
  CHECK(bytes("--strategy zero2") == bytes("--strategy zero2 --precision bf16-mixed"));
  CHECK(bytes("--strategy ddp") == bytes("--strategy ddp --precision bf16-true"));
}

TEST_CASE("accelerate's file beside a trainer's file leaves checkpointing to the trainer's own switch") {
  const test::ScratchFolder folder;
  const std::string trainer = folder.write("trl.yaml", kTrlFile).string();
  const std::string plan = (folder.path() / "plan.json").string(), out = (folder.path() / "out").string();
  json_answer("estimate --from " + trainer + " --gpus 4xA100-80 --strategy fsdp --as-given --json --save " + plan);
  REQUIRE(test::run_line("export " + plan + " --for accelerate --output " + out).code == 0);
  const std::string launcher = read_file(std::filesystem::path(out) / "accelerate.yaml");
  CHECK(launcher.find("fsdp_activation_checkpointing: false") != std::string::npos);
  // both together are read: R13 refuses two switches
  CHECK(test::run_line("estimate --from " + trainer + " --from " + out + "/accelerate.yaml --gpus 4xA100-80").code ==
        0);
}

TEST_CASE("the commands that fix, estimate and plan print run as they stand") {
  const test::ScratchFolder folder;
  const std::string trainer =
      folder
          .write("trl.yaml",
                 "model_name_or_path: Qwen/Qwen2.5-1.5B\ndataset_name: trl-lib/Capybara\ndtype: bfloat16\nbf16: true\n"
                 "gradient_checkpointing: true\nper_device_train_batch_size: 2\nmax_length: 1024\nmax_steps: 100\n")
          .string();
  const std::string plan = (folder.path() / "plan.json").string();
  for (const std::string& asked : {"fix " + trainer + " --gpus 4xA100-80", "fix " + trainer + " --gpus 2x3090",
                                   "estimate --from " + trainer + " --gpus 2x3060 --explain",
                                   "plan " + trainer + " --gpus 2x3090,4xA100-80 --explain"}) {
    CAPTURE(asked);
    std::string text = std::regex_replace(test::run_line(asked).out, std::regex("\\\\?\n +"), " ");
    std::size_t num_commands = 0;
    for (std::size_t at = text.find("gpuplan "); at != std::string::npos; at = text.find("gpuplan ", at + 1)) {
      const std::string line = text.substr(at + 8, text.find_first_of(",;:)\n", at) - at - 8);
      const bool is_command = line.starts_with("estimate ") || line.starts_with("export ") ||
                              line.starts_with("fix ") || line.starts_with("models ") || line.starts_with("plan ");
      if (!is_command) continue;
      CAPTURE(line);
      const std::string command = std::regex_replace(line, std::regex("plan\\.json"), plan);
      const test::Ran ran = test::run_line(command.substr(0, command.find_last_not_of(" ") + 1));
      CAPTURE(ran.err);
      CHECK(ran.code != 2);
      ++num_commands;
    }
    CHECK(num_commands > 0);
  }
}

TEST_CASE("plan holds the optimizer step of the files where one of its two numbers is given") {
  const test::ScratchFolder folder;
  const std::string trainer = folder
                                  .write("axolotl.yaml",
                                         "base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 16\nlora_alpha: 32\n"
                                         "lora_target_linear: true\ndatasets:\n  - path: tatsu-lab/alpaca\n    type: "
                                         "alpaca\nsequence_len: 2048\nsample_packing: true\nmicro_batch_size: 2\n"
                                         "gradient_accumulation_steps: 4\nmax_steps: 500\nbf16: true\n")
                                  .string();
  const json held = json_answer("plan " + trainer + " --micro-batch 2 --json");
  for (const json& row : held.at("frontier"))
    CHECK(row.at("settings").at("micro_batch").get<int>() * row.at("settings").at("grad_accum").get<int>() *
              row.at("num_gpus").get<int>() ==
          8);
  const json both = json_answer("plan " + trainer + " --micro-batch 2 --grad-accum 4 --json");
  const std::string assumed = both.at("assumptions").dump();
  CHECK(assumed.find("fewer steps than the 500 of the files") != std::string::npos);
}

TEST_CASE("fix writes a key that two changes want once, and new adapters with their size") {
  // axolotl @067b021c: src/axolotl/utils/schemas/peft.py has no default for lora_r, and PEFT stops without one
  const test::ScratchFolder folder;
  const std::string file = folder.write("q.yml", "base_model: meta-llama/Llama-3.1-8B\nload_in_4bit: false\n").string();
  const test::Ran fixed = test::run_line("fix " + file + " --gpus 2x3090 --allow method");
  CHECK(fixed.code == 0);
  const auto lines = [&](const std::string& line) {
    std::size_t count = 0;
    for (std::size_t at = fixed.out.find(line); at != std::string::npos; at = fixed.out.find(line, at + 1)) ++count;
    return count;
  };
  CHECK(lines("\n-load_in_4bit: false\n") == 1);
  CHECK(lines("\n+load_in_4bit: true\n") == 1);
  CHECK(lines("\n+lora_r: 8\n") == 1);
  CHECK(lines("\n+lora_alpha: 16\n") == 1);
  CHECK(test::run_line("fix " + file + " --gpus 2x3090").code == 1);  // it was exit code 4
}

TEST_CASE("fix says what stops the files where that is not the memory of the GPUs") {
  const test::ScratchFolder folder;
  const std::string text =
      "base_model: NousResearch/Meta-Llama-3.1-8B\ndatasets:\n  - path: tatsu-lab/alpaca\n    type: alpaca\n"
      "sequence_len: 2048\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: true\n"
      "gradient_checkpointing: true\n";
  const std::string fp8 = folder.write("fp8.yaml", text + "fp8: true\n").string();
  const test::Ran why = test::run_line("fix " + fp8 + " --gpus 2x3090");
  CHECK(why.out.find("these GPUs have no fp8 units") != std::string::npos);
  CHECK(why.out.find("take GPUs with more memory") == std::string::npos);
  const std::string big =
      folder
          .write(
              "big.yaml",
              "base_model: meta-llama/Llama-3.1-70B\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_alpha: 16\n"
              "lora_target_linear: true\ndatasets:\n  - path: tatsu-lab/alpaca\n    type: alpaca\nsequence_len: 512\n"
              "micro_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: true\ngradient_checkpointing: true\n"
              "fsdp_version: 2\nfsdp_config:\n  offload_params: true\n  cpu_ram_efficient_loading: true\n"
              "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  reshard_after_forward: true\n")
          .string();
  const test::Ran host = test::run_line("fix " + big + " --gpus 2x3090 --host-memory 64GiB");
  CHECK(host.out.find("the host needs") != std::string::npos);
  CHECK(host.out.find("take GPUs with more memory") == std::string::npos);
}

TEST_CASE("changes that are advised together name one method, and fix says what its hints name") {
  const test::ScratchFolder folder;
  const std::string full =
      folder
          .write("full.yaml",
                 "base_model: NousResearch/Meta-Llama-3.1-8B\ndatasets:\n  - path: "
                 "tatsu-lab/alpaca\n    type: alpaca\nsequence_len: 8192\nsample_packing: true\n"
                 "micro_batch_size: 1\ngradient_accumulation_steps: 8\noptimizer: "
                 "paged_adamw_8bit\nbf16: auto\ngradient_checkpointing: true\nattn_implementation: "
                 "flash_attention_2\nval_set_size: 0.05\nevals_per_epoch: 2\n"
                 "gradient_checkpointing_kwargs:\n  use_reentrant: false\n")
          .string();
  const std::string advice = test::run_line("estimate --from " + full + " --gpus 2x3090").out;
  CHECK(advice.find("--loss fused + --qlora r=8") != std::string::npos);
  CHECK(advice.find("--lora r=8 + --qlora") == std::string::npos);
  const std::string dpo = folder
                              .write("dpo.yaml",
                                     "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: a/b\nbeta: 0.1\nbf16: "
                                     "true\nper_device_train_batch_size: 1\nmax_length: 512\n")
                              .string();
  CHECK(test::run_line("fix " + dpo + " --gpus 2x3090").err.find("--method NAME") != std::string::npos);
  CHECK(test::run_line("fix " + dpo + " --gpus 2x3090").err.find("not modelled") == std::string::npos);
  CHECK(test::run_line("fix " + dpo + " --gpus 2x3090 --method dpo").code == 0);
}

TEST_CASE("rows that are padded far beyond their length are told, and fix says the key") {
  const test::ScratchFolder folder;
  std::string rows;
  for (int i = 0; i < 400; ++i) rows += "{\"text\": \"one two three four five six seven eight nine ten\"}\n";
  const std::string data = folder.write("rows.jsonl", rows).string();
  const std::string file =
      folder
          .write("axolotl.yaml",
                 "base_model: Qwen/Qwen2.5-0.5B\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n"
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

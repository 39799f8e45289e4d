// fix of files that say how they are started, of other trainers, and by its goals.
#include <doctest/doctest.h>

#include "base/error.h"
#include "mend/fix_reader.h"
#include "mend/ways.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// A run of OpenRLHF on eight GPUs: the models together, or each with GPUs of its own.
ConfigFile openrlhf(const std::string& place) {
  return {"train.sh",
          "python3 -m openrlhf.cli.train_ppo_ray --ref_num_nodes 1 --ref_num_gpus_per_node 8 --actor_num_nodes 1 "
          "--actor_num_gpus_per_node 8 --vllm_num_engines 4 --vllm_tensor_parallel_size 2 " +
              place +
              " --advantage_estimator group_norm --pretrain Qwen/Qwen2.5-1.5B --micro_train_batch_size 4 "
              "--train_batch_size 128 --rollout_batch_size 128 --n_samples_per_prompt 8 --prompt_max_len 1024 "
              "--generate_max_len 1024 --zero_stage 3 --init_kl_coef 0.01 --remote_rm_url http://127.0.0.1:5000 "
              "--vllm_gpu_memory_utilization 0.5 --vllm_enable_sleep --gradient_checkpointing\n"};
}

}  // namespace

TEST_CASE("models that share the GPUs of those that train are started on as many, and the engines take all of them") {
  for (const char* gpus : {"4xH100", "16xH100"}) {
    CAPTURE(gpus);
    Reader reader(gpus);
    const ConfigFile file = openrlhf("--colocate_all_models");
    const FixQuestion question = reader.question({file});
    const FixAnswer answer = find_fix(question);
    REQUIRE(answer.after);
    CHECK(names(answer.mended, "vllm_num_engines"));
    const ReadFiles after = reader.read(with({file}, answer.mended));
    const std::int64_t num_gpus = question.given.request.cluster.num_gpus();
    CHECK(*after.reading.setup.num_processes == num_gpus);
    CHECK(*after.reading.setup.engine_count * *after.reading.setup.engine_tp == num_gpus);
    CHECK(*after.reading.setup.reference_gpus * *after.reading.setup.reference_machines == num_gpus);
    CHECK(find_fix(reader.question(with({file}, answer.mended))).mended.files.empty());
  }
}

TEST_CASE("a reference with GPUs of its own is no division that fix can write, and the answer says so") {
  Reader reader("4xH100");
  const FixAnswer answer = find_fix(reader.question({openrlhf("--colocate_critic_reward")}));
  CHECK(answer.mended.files.empty());
  CHECK_FALSE(answer.fits());
  CHECK(answer.not_started.find("the reference has GPUs of its own") != std::string::npos);
}

TEST_CASE("OpenRLHF's programs are mended by the flags that each of them has") {
  // openrlhf/cli/train_dpo.py:191, train_sft.py:168 have model.gradient_checkpointing_enable, train_ppo_ray.py:309 has
  // actor.gradient_checkpointing_enable @3c3be623
  const auto mended = [](const char* gpus, const std::string& text) {
    Reader reader(gpus);
    const FixAnswer answer = find_fix(reader.question({{"a.sh", text}}));
    CAPTURE(answer.not_started);
    REQUIRE(answer.mended.files.size() == 1);
    CHECK(answer.fits());
    return answer.mended.files.front().after;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string common =
      " --ckpt.output_dir ./out --train.batch_size 64 --train.micro_batch_size 4 --model.model_name_or_path "
      "Qwen/Qwen2.5-7B --ds.param_dtype bf16 --train.max_epochs 1 --data.max_len 4096 --ds.attn_implementation "
      "flash_attention_2 --ds.zero_stage ";
  const std::string dpo = mended("8xH100", "deepspeed --module openrlhf.cli.train_dpo" + common + "2\n");
  CHECK(has(dpo, " --model.gradient_checkpointing_enable\n"));
  CHECK_FALSE(has(dpo, "--actor"));
  const std::string sft = mended("4xA6000", "deepspeed --module openrlhf.cli.train_sft" + common + "3\n");
  CHECK(has(sft, " --model.gradient_checkpointing_enable"));
  CHECK(has(sft, "--data.max_len 4096"));
  CHECK_FALSE(has(sft, "{"));
}

TEST_CASE("a key of a file that a script names and nobody gave is asked for by the file's name") {
  Reader reader("2x3090");
  const ConfigFile script{"dpo.sh", "accelerate launch --num_processes 2 --multi_gpu dpo.py --config dpo.yaml\n"};
  const ConfigFile file{"dpo.yaml",
                        "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 4\n"
                        "gradient_accumulation_steps: 4\nmax_length: 2048\ngradient_checkpointing: false\n"
                        "use_peft: true\nlora_r: 32\nbf16: true\ndtype: bfloat16\n"};
  FixQuestion question = reader.question({script, file});
  question.given.files = {script};
  const FixAnswer answer = find_fix(question);
  CAPTURE(answer.unsayable);
  CHECK(answer.unsayable.find("is in dpo.yaml: give it too") != std::string::npos);
}

TEST_CASE("prime-rl's TOML file is started on fewer GPUs, and all else in it stays") {
  // keys: packages/prime-rl-configs/src/prime_rl/configs/rl.py @559b44772
  Reader reader("1xH100");  // that trains, beside the engine's
  const ConfigFile file{"rl.toml",
                        "max_steps = 50 # short\n\n[model]\nname = \"Qwen/Qwen2.5-0.5B\"\n\n[deployment]\n"
                        "num_train_gpus = 4\nnum_infer_gpus = 4\n\n[orchestrator]\nbatch_size = 512\n"
                        "group_size = 8\nseq_len = 2048\n\n[orchestrator.train.sampling]\n"
                        "max_completion_tokens = 1024\n"};
  const FixAnswer answer = find_fix(reader.question({file}));
  REQUIRE_MESSAGE(answer.fits(), answer.not_started);
  REQUIRE(answer.mended.files.size() == 1);
  std::string wanted = file.text;
  wanted.replace(wanted.find("num_train_gpus = 4"), 18, "num_train_gpus = 1");
  CHECK(names(answer.mended, "deployment.num_train_gpus"));
  CHECK(answer.mended.files.front().after.starts_with(wanted.substr(0, wanted.find("num_infer_gpus"))));
  CHECK(answer.mended.files.front().after.ends_with(wanted.substr(wanted.find("\n[orchestrator]"))));
}

TEST_CASE("an evaluation by the micro batch shrinks with it, without a key of its own") {
  Reader reader("2x3090");
  ConfigFile file = kLora;
  file.text += "val_set_size: 0.1\n";
  const FixQuestion question = reader.question({file});
  CHECK(question.given.request.eval_batch == 4);
  const FixAnswer answer = find_fix(question);
  REQUIRE(answer.after);
  REQUIRE(names(answer.mended, "micro_batch_size"));
  CHECK_FALSE(names(answer.mended, "eval_batch_size"));
  CHECK(answer.asks->eval_batch == answer.asks->recipe.micro_batch);
}

TEST_CASE("a file of DeepSpeed that a trainer ships is named with what brings it") {
  Reader reader("4x3090");
  ConfigFile full = kLora;
  full.text.erase(full.text.find("adapter: lora"),
                  std::string("adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\n").size());
  const FixAnswer answer = find_fix(reader.question({full}));
  REQUIRE(answer.after);
  REQUIRE(names(answer.mended, "deepspeed"));
  CHECK(std::ranges::any_of(answer.notes, [](const std::string& note) {
    return note.find("has to be there: axolotl fetch deepspeed_configs") != std::string::npos;
  }));
}

TEST_CASE("context is cut to the longest known row first, and a fix that cuts rows says how many") {
  Reader reader("A100-80");
  ConfigFile full = kLora;
  full.text.replace(full.text.find("sequence_len: 4096"), 18, "sequence_len: 1048576");
  full.text.replace(full.text.find("micro_batch_size: 4"), 19, "micro_batch_size: 1");
  FixQuestion question = reader.question({full});
  question.allowed.context = true;
  question.given.rows = {.rows_of = {{1000, 90}, {3000, 10}}, .is_about = true};
  const auto lengths = [&] {
    std::vector<std::string> out;
    for (const MendWay& way : find_ways(question, std::nullopt, 1))
      for (const Setting& setting : way.settings)
        if (setting.change->name == "seq-len") out.push_back(setting.value);
    return out;
  };
  const std::vector<std::string> tried = lengths();
  REQUIRE_FALSE(tried.empty());
  CHECK(tried.front() == "3392");  // 3000 + 300 + 64, in whole 64s
  CHECK(std::ranges::find(tried, "512") != tried.end());
  question.given.rows = {.rows_of = {{1000, 90}, {1'000'000, 10}}, .is_about = true};
  const FixAnswer cut = find_fix(question);
  REQUIRE(cut.after);
  CHECK(
      std::ranges::any_of(cut.notes, [](const std::string& note) { return note.find(" rows are longer than ") < 4; }));
}

TEST_CASE("files that name no strategy are shown as they start without one, too") {
  Reader reader("4xH100");
  const ConfigFile grpo{"grpo.yaml",
                        "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nreward_funcs: [accuracy_reward]\nbf16: true\n"
                        "per_device_train_batch_size: 8\ngradient_accumulation_steps: 4\nnum_generations: 8\n"
                        "max_prompt_length: 512\nmax_completion_length: 2048\ngradient_checkpointing: true\n"
                        "use_vllm: true\nvllm_mode: colocate\nvllm_gpu_memory_utilization: 0.4\nbeta: 0.0\n"};
  const FixAnswer answer = find_fix(reader.question({grpo}));
  REQUIRE(answer.before);
  REQUIRE(answer.plain);
  CHECK(answer.plain->strategy.name == "ddp");
  CHECK(answer.before->strategy.name != "ddp");
  CHECK_FALSE(answer.plain->fits());                                   // 7.6 B x 16 bytes are 122 GB
  CHECK_FALSE(find_fix(Reader("2xA100-80").question({kLora})).plain);  // axolotl's is ddp
}

TEST_CASE("two keys that exclude each other, and an optimizer that FSDP fails with, are mended by the one key") {
  const std::string fsdp =
      "fsdp_config:\n  fsdp_version: 2\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  reshard_after_forward: true\n";
  const auto changed = [&](const std::string& more, const std::string& optimizer) {
    Reader reader("8xH100");
    ConfigFile file = kLora;
    file.text.replace(file.text.find("adamw_torch_fused"), 17, optimizer);
    file.text += fsdp + more;
    const FixQuestion question = reader.question({file});
    CHECK_FALSE(question.given.why_refused.empty());
    CHECK_THROWS_AS(reader.read({file}), InputError);
    const FixAnswer answer = find_fix(question);
    REQUIRE(answer.after);
    CHECK_NOTHROW(reader.read(with({file}, answer.mended)));
    std::string keys;
    for (const KeyChange& change : answer.mended.keys)
      keys += change.key + ": " + change.before + " -> " + change.after + "; ";
    return keys;
  };
  CHECK(changed("  activation_checkpointing: true\ngradient_checkpointing: true\n", "adamw_torch_fused") ==
        "gradient_checkpointing: true -> false; ");
  // whose masks FSDP2's own checkpointing draws anew
  CHECK(changed("  activation_checkpointing: true\ngradient_checkpointing: true\nlora_dropout: 0.05\n",
                "adamw_torch_fused") == "fsdp_config.activation_checkpointing: true -> false; ");
  CHECK(changed("gradient_checkpointing: true\n", "adamw_bnb_8bit") ==
        "optimizer: adamw_bnb_8bit -> adamw_torch_fused; ");
}

TEST_CASE("what rests on a host of which nothing is known is made faster by another batch, and asks no more of it") {
  Reader reader("2x3090");
  const ConfigFile file{"qlora.yaml",
                        "base_model: meta-llama/Llama-3.1-70B\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\n"
                        "lora_alpha: 16\nlora_target_linear: true\nsequence_len: 512\nsample_packing: false\n"
                        "gradient_accumulation_steps: 4\nmicro_batch_size: 1\noptimizer: adamw_torch\nbf16: true\n"
                        "gradient_checkpointing: true\nflash_attention: true\nfsdp: [full_shard, auto_wrap]\n"
                        "fsdp_config:\n  fsdp_offload_params: true\n"
                        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                        "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"};
  FixQuestion question = reader.question({file});
  question.goal = Goal::Fast;
  const FixAnswer answer = find_fix(question);
  REQUIRE(answer.before);
  REQUIRE(answer.before->fit == Fit::IfHost);
  REQUIRE(answer.after);
  CHECK(names(answer.mended, "micro_batch_size"));
  CHECK(answer.after->tokens_per_second > 1.3 * answer.before->tokens_per_second);
  CHECK(answer.after->host.needed() <= answer.before->host.needed());
}

TEST_CASE("a key that ZeRO reads at stage 3 alone stays as it is where the stage becomes another") {
  Reader reader("2xH100");
  const ConfigFile trainer{"full.yaml",
                           "model_name_or_path: meta-llama/Llama-3.2-1B\nstage: sft\ndo_train: true\n"
                           "finetuning_type: full\ndeepspeed: z3.json\ntemplate: llama3\ncutoff_len: 2048\n"
                           "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nbf16: true\n"};
  const ConfigFile zero{
      "z3.json",
      "{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false,\n"
      "  \"stage3_gather_16bit_weights_on_model_save\": true},\n \"bf16\": {\"enabled\": \"auto\"}}\n"};
  FixQuestion question = reader.question({trainer, zero});
  question.goal = Goal::Fast;
  const FixAnswer answer = find_fix(question);
  CAPTURE(answer.unsayable);
  REQUIRE(answer.after);
  REQUIRE(names(answer.mended, "zero_optimization.stage"));
  CHECK_FALSE(names(answer.mended, "zero_optimization.stage3_gather_16bit_weights_on_model_save"));
}

// Laws of a training on answers that a trainer's file states: a flag beside it moves the answer or is refused with a
// reason, and the batch of all ranks is that of the file under every strategy.
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/json_file.h"
#include "base/names.h"
#include "cli/program.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

struct TrainerFile {
  const char *name, *text;
  std::int64_t batch;  // sequences of an optimizer step
};

// Settings of examples of these trainers: verl examples/grpo_trainer/run_qwen2-7b_math.sh @b178a3cd, NeMo RL
// examples/configs/grpo_math_1B.yaml @7ea279ab, prime-rl examples/basic/hendrycks-sanity/rl.toml @559b4477,
// OpenRLHF's train_ppo_ray @3c3be623, TRL's GRPOConfig @f2cd5771
constexpr std::array kFiles{
    TrainerFile{"verl.sh",
                "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 "
                "data.max_prompt_length=512 data.max_response_length=512 "
                "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct "
                "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.use_kl_loss=True "
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.rollout.name=vllm "
                "actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.n=8 "
                "trainer.n_gpus_per_node=8 trainer.nnodes=1\n",
                512},
    TrainerFile{"grpo.yaml",
                "grpo: {num_prompts_per_step: 64, num_generations_per_prompt: 16}\n"
                "policy: {model_name: Qwen/Qwen2.5-0.5B-Instruct, train_global_batch_size: 512, "
                "train_micro_batch_size: 4, max_total_sequence_length: 512}\n"
                "cluster: {gpus_per_node: 8, num_nodes: 1}\n",
                512},
    TrainerFile{"rl.toml",
                "[deployment]\nnum_train_gpus = 4\nnum_infer_gpus = 4\n[model]\nname = "
                "\"Qwen/Qwen2.5-0.5B-Instruct\"\n"
                "[orchestrator]\nbatch_size = 512\ngroup_size = 8\nseq_len = 1024\n[trainer.model]\nseq_len = 4096\n",
                512},
    TrainerFile{"openrlhf.sh",
                "python3 -m openrlhf.cli.train_ppo_ray --pretrain Qwen/Qwen2.5-0.5B-Instruct --prompt_max_len 512 "
                "--generate_max_len 512 --advantage_estimator group_norm --micro_train_batch_size 4 "
                "--train_batch_size 128 --rollout_batch_size 64 --n_samples_per_prompt 8 --colocate_all_models "
                "--actor_num_gpus_per_node 8 --vllm_num_engines 8 --zero_stage 3\n",
                128},
    TrainerFile{"trl.sh",
                "trl grpo --model_name_or_path Qwen/Qwen2.5-0.5B-Instruct --per_device_train_batch_size 8 "
                "--gradient_accumulation_steps 4 --num_generations 8 --max_completion_length 512 --beta 0.04 "
                "--use_vllm --vllm_mode colocate --bf16\n",
                0}};

struct Outcome {
  int code = 0;
  std::string figures;  // of the strategies
  std::string problem;
  nlohmann::json answer;
};

Outcome asked(const std::string& file, const std::string& flags) {
  std::ostringstream out, err;
  Outcome o;
  std::vector<std::string> words = split("estimate --gpus 8xH100 --json --from", ' ');
  words.push_back(file);
  for (const std::string& word : split(flags, ' '))
    if (!word.empty()) words.push_back(word);
  o.code = run(words, out, err);
  o.problem = err.str();
  if (o.code < 2) o.answer = parse_json(out.str(), ""), o.figures = o.answer.at("strategies").dump();
  return o;
}

}  // namespace

TEST_CASE("each flag of a training on answers moves the answer of a trainer's file, or is refused by its name") {
  const test::ScratchFolder folder;
  const std::array kFlags{"--generations 4",
                          "--updates 8",
                          "--iterations 2",
                          "--prompt-len 100",
                          "--completion-len 300",
                          "--completion-len 100,400",
                          "--reward-time 90s",
                          "--ref none",
                          "--ref copy",
                          "--rollout-engine vllm:util=0.2,tp=2",
                          "--reward-model qwen2.5-1.5b",
                          "--critic qwen2.5-1.5b",
                          "--qlora r=16",
                          "--lora r=16",
                          "--optimizer adamw-8bit",
                          "--precision bf16-true",
                          "--micro-batch 2"};
  for (const TrainerFile& file : kFiles) {
    const std::string name = folder.write(file.name, file.text).string();
    const Outcome plain = asked(name, "");
    CHECK_MESSAGE(plain.code < 2, file.name, ": ", plain.problem);
    const std::string reference =  // a file may ask for none
        plain.figures == asked(name, "--ref none").figures ? "--ref none" : "--ref copy";
    for (const char* flag : kFlags) {
      CAPTURE(std::string(file.name));
      CAPTURE(std::string(flag));
      const Outcome changed = asked(name, flag);
      CHECK(changed.code <= 2);
      if (changed.code == 2)
        CHECK_MESSAGE(changed.problem.find(split(flag, ' ')[0]) != std::string::npos, changed.problem);
      else if (flag != reference && !(std::string_view(flag).starts_with("--ref") && file.batch != 0))
        CHECK(changed.figures != plain.figures);
    }
  }
}

TEST_CASE("the batch of all ranks that a trainer's file states is that of every strategy and of every better way") {
  const test::ScratchFolder folder;
  for (const TrainerFile& file : kFiles) {
    if (file.batch == 0) continue;  // it states passes of each rank
    const std::string name = folder.write(file.name, file.text).string();
    for (const char* flags : {"", "--strategy auto", "--strategy single"}) {
      CAPTURE(std::string(file.name));
      CAPTURE(std::string(flags));
      const Outcome o = asked(name, flags);
      CHECK_MESSAGE(o.code < 2, o.problem);
      if (o.code > 1) continue;
      for (const nlohmann::json& row : o.answer.at("strategies"))
        if (!row.value("global_batch", nlohmann::json()).is_null())  // of what may be
          CHECK(row.at("global_batch") == file.batch);
      if (o.answer.contains("better"))
        for (const nlohmann::json& way : o.answer.at("better"))
          if (way.contains("global_batch")) CHECK(way.at("global_batch") == file.batch);
    }
  }
}

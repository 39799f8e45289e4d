// Questions about preference tuning, reinforcement learning, heads and distillation that people asked in public, as
// they would type them: each is answered, or refused by one line that names what is missing. Where somebody measured
// the answer, it is the answer.
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "golden/command_line.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

using test::Ran;
using test::run_line;

/// file: what --from reads; empty: flags alone. code: 0 it fits, 1 it does not, 2 it is refused.
struct AskedQuestion {
  const char *thread, *file, *content, *flags;
  int code;
  const char* says;
};

constexpr AskedQuestion kQuestions[] = {
    {"huggingface/trl#3168", "dpo.sh",
     "accelerate launch trl/scripts/dpo.py --model_name_or_path Qwen/Qwen2-0.5B-Instruct --dataset_name "
     "trl-lib/ultrafeedback_binarized --per_device_train_batch_size 8\n",
     "--gpus 1xA100-80GB", 0, "pass with gradients"},
    {"huggingface/trl#3168: what older releases did is said on the first screen", "dpo.sh",
     "accelerate launch trl/scripts/dpo.py --model_name_or_path Qwen/Qwen2-0.5B-Instruct --dataset_name "
     "trl-lib/ultrafeedback_binarized --per_device_train_batch_size 8\n",
     "--gpus 1xA100-80GB", 0, "bf16 (before trl 0.19.0: fp32); --versions"},
    {"huggingface/trl#3168 with the TRL of its day", "dpo.sh",
     "accelerate launch trl/scripts/dpo.py --model_name_or_path Qwen/Qwen2-0.5B-Instruct --dataset_name "
     "trl-lib/ultrafeedback_binarized --per_device_train_batch_size 8\n",
     "--gpus 1xA100-80GB --versions trl=0.16.0", 0, "fits tightly"},
    {"huggingface/trl#1667, axolotl-ai-cloud/axolotl#1108", "axolotl.yaml",
     "base_model: mistralai/Mistral-7B-v0.1\nrl: dpo\nadapter: qlora\nload_in_4bit: true\nsequence_len: 4096\n"
     "micro_batch_size: 2\nlora_target_linear: true\nlora_r: 32\nlora_alpha: 16\nbf16: true\ngradient_checkpointing: "
     "true\n",
     "--gpus 1xA6000", 0, "log-probs of the reference"},
    {"hiyouga/LLaMA-Factory#10175", "llamafactory.yaml",
     "stage: dpo\nmodel_name_or_path: Qwen/Qwen3-4B\nfinetuning_type: lora\nlora_rank: 8\nlora_target: all\n"
     "per_device_train_batch_size: 2\ncutoff_len: 4096\nbf16: true\npref_loss: sigmoid\n",
     "--gpus 1xA800-80GB", 0, "dpo with the reference as adapter"},
    {"hiyouga/LLaMA-Factory#2263", "llamafactory.yaml",
     "stage: dpo\nmodel_name_or_path: codellama/CodeLlama-34b-hf\nfinetuning_type: lora\nper_device_train_batch_size: "
     "1\n"
     "cutoff_len: 2048\nbf16: true\n",
     "--gpus 8xA100-80GB", 0, "dpo with the reference as adapter"},
    {"hiyouga/LLaMA-Factory#3716", "", "",
     "--model llama-3-8b --method dpo --framework llama-factory --lora r=8 --gpus 1xRTX4090 --seq-len 1024 "
     "--micro-batch 1",
     0, "fits"},
    {"princeton-nlp/SimPO#10", "", "",
     "--model mistral-7b-v0.1 --method simpo --full --gpus 1xA100-80GB --strategy single --micro-batch 1 --seq-len "
     "2048 "
     "--checkpointing full",
     1, "does not fit"},
    {"alignment-handbook zephyr-7b-beta", "", "",
     "--model mistral-7b-v0.1 --method dpo --full --gpus 8xA100-80GB --strategy zero3 --framework trl --seq-len 1024",
     0, "fits"},
    {"OpenRLHF/OpenRLHF#384", "dpo.sh",
     "deepspeed --module openrlhf.cli.train_dpo --train.batch_size 256 --train.micro_batch_size 1 "
     "--model.model_name_or_path google/gemma-2-9b --data.max_len 2048 --ds.zero_stage 3 "
     "--model.gradient_checkpointing_enable\n",
     "--gpus 8xA100-80GB", 0, "log-probs of the reference"},
    {"huggingface/trl#3218", "", "",
     "--model llama-3.1-70b --method reward --full --gpus 8xH20 --framework trl --strategy zero3 --micro-batch 1 "
     "--optimizer adamw-fused",
     1, "does not fit"},
    {"huggingface/trl#3061", "grpo.sh",
     "accelerate launch grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --per_device_train_batch_size 1 "
     "--num_generations 8 --max_completion_length 512\n",
     "--gpus 3xA100-80GB", 2, "8 answers to a prompt do not divide the 3 that are generated at once"},
    {"huggingface/trl#2688", "grpo.sh",
     "accelerate launch --num_processes 8 grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --use_vllm --vllm_mode "
     "colocate --vllm_gpu_memory_utilization 0.3 --num_generations 8 --max_completion_length 1024\n",
     "--gpus 8xH100 --strategy zero3", 0, "generation by vLLM"},
    {"huggingface/trl#2972", "", "",
     "--model qwen2.5-7b --method grpo --full --gpus 4xH20 --framework ms-swift --micro-batch 1 --strategy zero2 "
     "--checkpointing full --rollout-engine hf",
     0, "log-probs of the reference"},
    {"huggingface/trl#3678", "", "",
     "--model qwen2.5-3b --method grpo --qlora --gpus 1xRTX4090 --framework unsloth --micro-batch 8", 0,
     "generation by"},
    {"huggingface/open-r1#161", "", "",
     "--model qwen2.5-7b --method grpo --full --gpus 8xH100 --framework trl --rollout-engine hf --completion-len "
     "600,1024 --strategy zero3",
     0, "generation by generate() of transformers"},
    {"huggingface/open-r1#235, OpenRLHF/OpenRLHF#566", "", "",
     "--model qwen2.5-7b --method grpo --full --gpus 8xH100 --framework trl --rollout-engine vllm:server,gpus=2 "
     "--completion-len 600,2048 --strategy zero3 --generations 6",
     0, "generation by vLLM"},
    {"OpenRLHF/OpenRLHF#254", "", "",
     "--model llama-2-7b --method ppo --full --gpus 4xA100-40GB --strategy zero3 --framework openrlhf --micro-batch 1 "
     "--checkpointing full",
     1, "does not fit"},
    {"PeterGriffinJin/Search-R1#111", "", "",
     "--explain --model llama-3.1-8b --method ppo --full --gpus 8xH100 --strategy zero3 --framework openrlhf "
     "--rollout-engine "
     "vllm:util=0.5,sleep=yes,offload=yes",
     0, "training of the critic"},
    {"volcengine/verl#855, #456", "verl.sh",
     "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
     "data.max_prompt_length=512 data.max_response_length=512 "
     "actor_rollout_ref.model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-14B "
     "actor_rollout_ref.actor.ppo_mini_batch_size=512 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 "
     "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24000 "
     "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.model.enable_gradient_checkpointing=True "
     "actor_rollout_ref.rollout.tensor_model_parallel_size=8 actor_rollout_ref.rollout.name=vllm\n",
     // what the thread shows of it ends before the engine's share, which decides
     "--explain --gpus 8xH100 --versions verl=0.3.0", 0,
     "no share of each GPU is stated for vLLM: 0.5, as verl does; it fits up"},
    {"verl-project/verl#7203", "verl.sh",
     "python -m verl.trainer.main_ppo algorithm.adv_estimator=gae actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 data.train_batch_size=256 trainer.n_gpus_per_node=8\n",
     "--gpus 8xH100", 0, "training of the critic"},
    {"unslothai/unsloth#1880", "", "",
     "--model qwen2.5-7b --method grpo --qlora --gpus 1xRTX4090 --framework unsloth --micro-batch 8 --completion-len "
     "2048",
     0, "generation by"},
    {"pytorch/torchtune#2213, huggingface/trl#3055", "", "",
     "--model qwen2.5-7b --teacher qwen2.5-14b --method distill --full --gpus 2xA100-80GB --strategy zero3", 0,
     "logits of the teacher"},
    {"swift rlhf --rlhf_type gkd", "gkd.sh",
     "swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-7B --teacher_model Qwen/Qwen2.5-14B-Instruct --tuner_type full\n",
     "--gpus 2xA100-80GB", 0, "on-policy-distill from qwen2.5-14b"},
    {"UKPLab/sentence-transformers#3383", "", "",
     "--model qwen3-4b --method embed --full --gpus 1xRTX4090 --micro-batch 4 --strategy single --optimizer "
     "adamw-fused",
     1, "does not fit"},
    {"modelscope/ms-swift examples/train/seq_cls", "seq_cls.sh",
     "swift sft --task_type seq_cls --num_labels 5 --model Qwen/Qwen2.5-7B --tuner_type lora --dataset a\n",
     "--gpus 1xRTX4090", 0, "classify"}};

Ran ask(const AskedQuestion& question, const char* more = "") {
  const test::ScratchFolder folder;
  std::string line = fmt::format("estimate {} --offline{}", question.flags, more);
  if (*question.file) {
    const std::filesystem::path file = folder.path() / question.file;
    write_file_atomically(file, question.content);
    line += fmt::format(" --from '{}'", file.string());
  }
  return run_line(line);
}

double process_gib(const std::string& flags) {
  const Ran ran = run_line(fmt::format("estimate {} --offline --as-given --json", flags));
  const auto answer = nlohmann::json::parse(ran.out);
  return answer["strategies"][0]["process_bytes"].get<double>() / 0x1p30;
}

/// The text without the breaks of its lines.
std::string on_one_line(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (const bool is_space = c == ' ' || c == '\n'; !is_space || !out.ends_with(' ')) out += is_space ? ' ' : c;
  return out;
}

}  // namespace

TEST_CASE("questions that people asked about preference tuning and reinforcement learning are answered") {
  for (const AskedQuestion& question : kQuestions) {
    CAPTURE(question.thread);
    const Ran ran = ask(question, question.code == 1 ? " --as-given" : "");
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    CHECK(ran.code == question.code);
    CHECK(on_one_line(ran.out + ran.err).find(question.says) != std::string::npos);
    if (question.code == 2) CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') <= 3);
  }
}

TEST_CASE("LoRA needs less than full DPO, KTO less than DPO, and ORPO twice what fine-tuning does") {
  // hiyouga/LLaMA-Factory#7833, #3854, #798; xfactlab/orpo#22
  const std::string factory =
      "--model qwen2.5-7b --framework llama-factory --gpus 1xA100-80GB --strategy single --micro-batch 2 --seq-len "
      "2048 "
      "--checkpointing full ";
  CHECK(process_gib(factory + "--method dpo --lora r=8") < 0.5 * process_gib(factory + "--method dpo --full"));
  CHECK(process_gib(factory + "--method kto --lora r=8") < process_gib(factory + "--method dpo --lora r=8"));
  const std::string trl =
      "--model mistral-7b-v0.1 --framework trl --full --gpus 8xA100-80GB --strategy zero3 --seq-len 2048 --micro-batch "
      "4 "
      "--checkpointing full ";
  const double ratio = process_gib(trl + "--method orpo") / process_gib(trl);
  CHECK(ratio > 1.7);
  CHECK(ratio < 2.3);
}

TEST_CASE("PPO of an 8B model by ms-swift on eight GPUs: its example says 65 GiB each") {
  // modelscope/ms-swift examples/train/rlhf/ppo/full.sh @3602360a
  const double predicted = process_gib(
      "--model llama-3.1-8b --method ppo --full --gpus 8xA100-80GB --strategy zero3 --framework ms-swift --micro-batch "
      "1 "
      "--grad-accum 2 --prompt-len 512 --completion-len 512 --checkpointing full");
  CHECK(predicted > 0.85 * 65);
  CHECK(predicted < 1.15 * 65);
}

TEST_CASE(
    "a method that compares answers has several where the trainer's own default is one, and one where it is asked") {
  for (const std::string trainer : {"verl", "prime-rl", "openrlhf"}) {
    CAPTURE(trainer);
    const std::string line = "estimate --model qwen2.5-0.5b --gpus 8xH100 --framework " + trainer + " --method ";
    const Ran ran = run_line(line + "grpo");
    CHECK(ran.code == 0);
    CHECK(on_one_line(ran.out).find("rows (--rows) with 8 answers each") != std::string::npos);
    const Ran ppo = run_line(line + "ppo");  // compares none
    CHECK(ppo.out.find("answers each") == std::string::npos);
    const Ran one = run_line(line + "grpo --generations 1");
    CHECK((one.code == 2) == (trainer == "openrlhf"));
    CHECK(one.out.find("answers each") == std::string::npos);
  }
}

TEST_CASE("--generate refuses by name what says how to train") {
  for (const std::string flag : {"--ep 2", "--tp 2", "--pp 2", "--cp 2", "--lora", "--micro-batch 4", "--strategy fsdp",
                                 "--rows 5", "--method grpo", "--explain", "--html x.html", "--save x.json"}) {
    CAPTURE(flag);
    const Ran ran = run_line("estimate --generate --model qwen2.5-7b --gpus 4xA100 " + flag);
    CAPTURE(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.err.find(flag.substr(0, flag.find(' ')) + ": says nothing to --generate") != std::string::npos);
  }
}

TEST_CASE("--generate names the GPUs that hold a model which one does not, and followed it fits") {
  const std::string question = "estimate --generate --model qwen2.5-72b ";
  const Ran one = run_line(question + "--gpus 1xH100");
  CHECK(one.code == 1);
  const std::string remedy = "--gpus 2xh100-sxm --rollout-engine vllm:tp=2";
  CHECK(one.out.find(remedy) != std::string::npos);
  CHECK(one.out.find("0 tokens") == std::string::npos);
  CHECK(run_line(question + remedy).code == 0);
}

TEST_CASE("a trainer that logs a generation as its step has that beside ours on the first screen") {
  const std::string question =
      "estimate --model qwen2.5-7b --method grpo --gpus 8xH100 --completion-len 1024 --updates 4 --framework ";
  CHECK(run_line(question + "verl").out.find("verl logs 4 of these as one") != std::string::npos);
  CHECK(run_line(question + "trl").out.find(" of these as one") == std::string::npos);
}

TEST_CASE("the usual method plans as if none were named") {
  const std::string line = "estimate --model llama-3-8b --lora --gpus 1xA100 --strategy single --json";
  CHECK(run_line(line + " --method sft").out == run_line(line).out);
}

TEST_CASE("a saved plan keeps the name of another loss, which run refuses and export writes") {
  const test::ScratchFolder folder;
  const std::string plan = (folder.path() / "plan.json").string();
  const std::string line =
      "estimate --model qwen2.5-0.5b --full --gpus 1xA6000 --offline --save " + plan + " --method ";
  for (const auto& [method, trained] : {std::pair{"ipo", "dpo"}, std::pair{"dr-grpo", "grpo"}}) {
    REQUIRE(run_line(line + method + " --framework native").code == 0);
    CHECK(nlohmann::json::parse(run_line("estimate " + plan + " --json").out)["recipe"]["objective"]["method"] ==
          method);
    const Ran refused = run_line("run " + plan + " --init random --max-steps 1");
    CHECK(refused.code == 2);
    CHECK(refused.err.find(fmt::format("the loss {}", method)) != std::string::npos);
    CHECK(process_gib(fmt::format("--model qwen2.5-0.5b --full --gpus 1xA6000 --method {}", method)) ==
          process_gib(fmt::format("--model qwen2.5-0.5b --full --gpus 1xA6000 --method {}", trained)));
  }
  REQUIRE(run_line(line + "ipo --framework trl").code == 0);
  const Ran written = run_line("export " + plan + " --for trl");
  CHECK(written.code == 0);
  CHECK(written.out.find("loss_type: [ipo]") != std::string::npos);
  CHECK(run_line("export " + plan + " --for llama-factory").err.find("no files") != std::string::npos);
}

TEST_CASE("what twice the GPUs are worth to a training on answers is what they do when one follows it") {
  const std::string common =
      " --model qwen2.5-0.5b --method grpo --lora r=8 --rows 2000 --prompt-len 128 --completion-len 128,512 "
      "--checkpointing "
      "full --attention sdpa --rollout-engine vllm:colocate,util=0.3 --optimizer adamw-fused --precision bf16-mixed "
      "--compile";
  const nlohmann::json plan =
      nlohmann::json::parse(run_line("plan" + common + " --gpus 1xA6000 --micro-batch 4 --grad-accum 16 --json").out);
  const auto total = [&](const std::string& flags) {
    const std::string line = "estimate" + common + " --micro-batch 4 --as-given --json " + flags;
    return nlohmann::json::parse(run_line(line).out)["strategies"][0]["total_seconds"].get<double>();
  };
  const double followed =
      total("--gpus 2xA6000 --strategy ddp --grad-accum 8") / total("--gpus 1xA6000 --strategy single --grad-accum 16");
  bool is_there = false;
  for (const auto& knob : plan["knobs"])
    if (knob["change"] == "2 of these GPUs with ddp") {
      is_there = true;
      CHECK(knob["time_ratio"].get<double>() == doctest::Approx(followed).epsilon(0.01));
    }
  CHECK(is_there);
}

}  // namespace gpuplan

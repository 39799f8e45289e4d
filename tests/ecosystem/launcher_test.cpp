// Commands that start a training are read as files of the programs that they start.
#include "ecosystem/launcher.h"

#include <doctest/doctest.h>

#include "models/training_method.h"

#include "base/error.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/launch_rows.h"

namespace gpuplan {

using namespace test;

namespace {

using Files = std::vector<ConfigFile>;

ConfigReading reading_of_files(const Files& files) { return read_configs(files, {}); }
ConfigReading script(const std::string& text) { return reading_of_files({{"train.sh", text}}); }

std::string error_of_files(const Files& files) {
  try {
    reading_of_files(files);
  } catch (const InputError& error) { return error.what(); }
  return "";
}
std::string script_error(const std::string& text) { return error_of_files({{"train.sh", text}}); }

constexpr const char* kSft = " sft.py --model_name_or_path Qwen/Qwen3-8B --use_peft --lora_r 8 --max_length=1024";

}  // namespace

TEST_CASE("flags of TRL's script are its keys: values behind a space or '=', lists, and flags alone") {
  const ConfigReading r = script("torchrun --nproc_per_node 4" + std::string(kSft) +
                                 " --lora_target_modules q_proj v_proj --packing --gradient-checkpointing False\n");
  CHECK(r.model == "Qwen/Qwen3-8B");
  CHECK(r.request.recipe.method == Method::Lora);
  CHECK(r.request.recipe.lora.rank == 8);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(r.request.recipe.seq_len == 1024);
  CHECK(r.setup.packing == true);
  CHECK(r.setup.checkpointing == false);
  CHECK(r.setup.num_processes == 4);
  CHECK(r.request.strategy == "ddp");
}

TEST_CASE("accelerate's flags are keys of its file, and go before those of the file that the command names") {
  const std::string flags =
      "accelerate launch --use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP "
      "--num_processes 4 --mixed_precision bf16" +
      std::string(kSft);
  CHECK(script(flags).request.strategy == "fsdp");
  CHECK(script(flags).setup.num_processes == 4);
  const std::string named = "accelerate launch --config_file conf/fsdp.yaml --num_processes 2" + std::string(kSft);
  const ConfigReading r = reading_of_files({{"train.sh", named}, {"fsdp.yaml", fsdp("")}});
  CHECK(r.request.strategy == "fsdp");
  CHECK(r.setup.num_processes == 2);  // the file says 4
  // fsdp.yaml would be taken as TRL ships it
  const std::string own = "accelerate launch --config_file conf/our_cluster.yaml" + std::string(kSft);
  CHECK(contains(script_error(own), "train.sh:1: names conf/our_cluster.yaml, which is not there"));
}

TEST_CASE("every launcher and trainer of the table is known by its words") {
  const auto processes = [](const std::string& text) { return script(text).setup.num_processes; };
  const std::string flags = " --max_length 64 --model m\n";
  CHECK(processes("deepspeed --num_gpus=2" + std::string(kSft)) == 2);
  CHECK(processes("deepspeed --include localhost:0,3,5" + std::string(kSft)) == 3);
  CHECK(processes("python -m torch.distributed.run --nnodes 2 --nproc-per-node=8" + std::string(kSft)) == 16);
  CHECK(processes("NPROC_PER_NODE=4 swift sft --tuner_type lora" + flags) == 4);
  CHECK(script("CUDA_VISIBLE_DEVICES=0,1 swift sft --tuner_type lora" + flags).setup.distributed == "no");
  CHECK(script("CUDA_VISIBLE_DEVICES=0,1 swift sft --tuner_type lora" + flags).setup.visible_gpus == 2);
  CHECK(processes("trl sft --num_processes 2 --max_length 64 --model_name_or_path m") == 2);
  CHECK(script("python sft.py --max_length 64").request.strategy ==
        script("python3 -u sft.py --max_length 64").request.strategy);
  for (const auto* group : {&command_rows().launchers, &command_rows().programs, &command_rows().others})
    for (const CommandRow& row : *group) CHECK_FALSE(row.source.empty());
}

TEST_CASE("a trainer's file and the flags and pairs behind it are read together") {
  const ConfigFile yaml{"sft.yaml", "stage: sft\nmodel_name_or_path: m\nlora_rank: 4\ncutoff_len: 512\n"};
  const ConfigReading r = reading_of_files(
      {{"train.sh", "llamafactory-cli train conf/sft.yaml lora_rank=16 per_device_train_batch_size=2"}, yaml});
  CHECK(r.request.recipe.lora.rank == 16);
  CHECK(r.request.recipe.seq_len == 512);
  CHECK(r.request.recipe.micro_batch == 2);
  const ConfigFile axolotl{"lora.yml", "base_model: m\nadapter: lora\nlora_r: 4\nlora_alpha: 8\nsequence_len: 512\n"};
  CHECK(reading_of_files({{"a.sh", "axolotl train lora.yml --lora-r 32"}, axolotl}).request.recipe.lora.rank == 32);
}

TEST_CASE("Slurm's GPUs count where no launcher says how many") {
  const std::string head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n";
  CHECK(script(head + "srun accelerate launch" + kSft).setup.num_processes == 16);
  CHECK(script(head + "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE" + kSft)
            .setup.num_processes == 16);
  CHECK(script(head + "#SBATCH --ntasks-per-node=8\nsrun python" + kSft).setup.num_processes == 16);
}

TEST_CASE("files that the script writes itself are read") {
  const std::string text = "cat > ds.json <<EOF\n{\"zero_optimization\": {\"stage\": 3}}\nEOF\ndeepspeed --num_gpus 4" +
                           std::string(kSft) + " --deepspeed ds.json\n";
  CHECK(script(text).request.strategy == "zero3");
}

TEST_CASE("a value that is not known is named where it is needed, and left out where a flag of gpuplan can say it") {
  const std::string unknown = script_error("LEN=$1\npython sft.py --packing --max_length $LEN");
  CHECK(contains(unknown, "train.sh:2: max_length"));
  CHECK(contains(unknown, "depends on $1"));
  const ConfigReading r =
      script("python sft.py --max_length 64 --model_name_or_path $MODEL --learning_rate $LR \"$@\"");
  CHECK_FALSE(r.model.has_value());
  CHECK(has_note(r, "$MODEL"));
  CHECK(has_note(r, "what $@ adds is not known"));
}

TEST_CASE("verl's main_ppo is read: prompts stand for all their answers") {
  const std::string command =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m "
      "data.train_batch_size=64 data.max_prompt_length=512 data.max_response_length=1024 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.rollout.n=5 actor_rollout_ref.rollout.name=vllm "
      "actor_rollout_ref.rollout.gpu_memory_utilization=0.6 +actor_rollout_ref.rollout.max_num_seqs=128 "
      "trainer.n_gpus_per_node=8 trainer.nnodes=1";
  const EstimateRequest r = script(command).request;
  CHECK(r.recipe.objective.method->name == "grpo");
  CHECK(r.recipe.micro_batch == 4);
  CHECK(r.recipe.grad_accum == 5);       // 32 x 5 answers of a step on 8 GPUs in passes of 4
  CHECK(r.rollout.sequences == 64 * 5);  // of a generation, so two steps
  CHECK(to_text(r.rollout.engine) == "vllm:util=0.6,tp=2,seqs=128,sleep=yes");
  const EstimateRequest other = script(command +
                                       " --config-name=ppo_megatron_trainer "
                                       "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2")
                                    .request;
  CHECK(other.recipe.framework->name == "verl-megatron");
  CHECK(other.recipe.checkpointing == Checkpointing::None);  // enable_gradient_checkpointing is FSDP's
  CHECK(other.options.tp == 2);
  CHECK(other.options.splits_sequence);
  CHECK(other.recipe.grad_accum == 10);  // 32 x 5 answers on 4 replicas in passes of 4
}

TEST_CASE("a program and its arguments may stand in arrays, and one that is not known starts the module that is") {
  // verl-project/verl examples/grpo_trainer/run_qwen3_8b_fsdp.sh @1dda039b, what counts of it
  const std::string script =
      "DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\n"
      "INFER_BACKEND=${INFER_BACKEND:-vllm}\nrollout_tp=${ROLLOUT_TP:-}\nNNODES=${NNODES:-}\nEXTRA=()\n"
      "case \"${DEVICE}\" in\n  gpu)\n    rollout_tp=${rollout_tp:-2}\n    ;;\n  npu)\n    rollout_tp=4\n"
      "    EXTRA+=(actor_rollout_ref.actor.ulysses_sequence_parallel_size=4)\n    ;;\nesac\n"
      "DATA=(\n  algorithm.adv_estimator=grpo\n  data.train_batch_size=1024  # prompts\n)\n"
      "ROLLOUT=(actor_rollout_ref.rollout.tensor_model_parallel_size=${rollout_tp} actor_rollout_ref.rollout.n=5)\n"
      "MODEL=(actor_rollout_ref.model.path=\"Qwen/Qwen3-8B\")\n"
      "LAUNCH=(python3)\nif CONDITION; then\n"
      "  LAUNCH=(uv run --frozen --all-packages --extra \"${INFER_BACKEND}\" --extra fsdp python3)\nfi\n"
      "\"${LAUNCH[@]}\" -m verl.trainer.main_ppo \"${DATA[@]}\" \"${MODEL[@]}\" \"${ROLLOUT[@]}\" \"${EXTRA[@]}\" "
      "\"$@\"\n";
  for (const char* condition : {"[ \"${DEVICE:-gpu}\" = gpu ]", "command -v uv", "false"}) {
    CAPTURE(condition);
    std::string text = script;
    text.replace(text.find("CONDITION"), 9, condition);
    const ConfigReading r = read_configs({{"train.sh", text}}, {});
    CHECK(r.request.recipe.framework->name == "verl");
    CHECK(r.model == "Qwen/Qwen3-8B");
    CHECK(r.setup.generations == 5);
    CHECK(r.setup.engine_tp == 2);
    CHECK(r.setup.generation_prompts == 1024);
    CHECK_FALSE(r.setup.context_parallel.has_value());
  }
}

TEST_CASE("a configuration of Hydra that a command names is read below its flags") {
  const std::string command =
      "python3 -m verl.trainer.main_ppo --config-path=$PWD/config --config-name=own algorithm.adv_estimator=grpo "
      "actor_rollout_ref.model.path=m actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=8";
  CHECK(contains(script_error(command), "$PWD/config/own.yaml, which is not there"));
  const ConfigReading r = reading_of_files({{"train.sh", command},
                                            {"own.yaml",
                                             "defaults: [ppo_trainer, _self_]\ndata: {max_response_length: 2048}\n"
                                             "actor_rollout_ref: {rollout: {n: 4}}\n"}});
  CHECK(r.request.rollout.max_completion == 2048);
  CHECK(r.request.rollout.generations == 4);
  CHECK(r.request.recipe.framework->name == "verl");
  const ConfigReading other =
      reading_of_files({{"train.sh", command}, {"own.yaml", "defaults: [ppo_megatron_trainer]\n"}});
  CHECK(other.request.recipe.framework->name == "verl-megatron");
}

TEST_CASE("verl's fine-tuning, and engines of verl on GPUs of their own, are read") {
  const ConfigReading sft = script(
      "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=m data.max_length=2048 "
      "data.train_batch_size=64 data.micro_batch_size_per_gpu=4 ulysses_sequence_parallel_size=2 "
      "use_remove_padding=true model.lora_rank=32");
  CHECK(sft.request.recipe.framework->name == "verl");
  CHECK(sft.request.recipe.seq_len == 2048);
  CHECK(sft.request.recipe.lora.rank == 32);
  CHECK(sft.request.options.cp == 2);
  CHECK(sft.request.recipe.grad_accum == 4);  // 64 on 4 replicas in passes of 4
  const EstimateRequest apart = script(
                                    "python3 -m verl.experimental.one_step_off_policy.main_ppo "
                                    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m "
                                    "actor_rollout_ref.hybrid_engine=False trainer.n_gpus_per_node=6 "
                                    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
                                    "rollout.n_gpus_per_node=2 rollout.nnodes=3")
                                    .request;
  CHECK(apart.rollout.engine.place == EnginePlace::Server);
  CHECK(apart.rollout.engine.gpus == 6);
  CHECK(apart.rollout.engine.is_async);
}

TEST_CASE("a trainer with one engine alone names none, and what is said of it counts") {
  const std::string openrlhf =
      "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --actor_num_gpus_per_node 4 --vllm_num_engines 2 "
      "--vllm_tensor_parallel_size 2 --vllm_gpu_memory_utilization 0.7";
  CHECK(to_text(script(openrlhf).request.rollout.engine) == ":server,util=0.7,tp=2,gpus=4,sleep=no,offload=no");
  const EngineChoice shared = script(openrlhf + " --colocate_all_models --vllm_enable_sleep").request.rollout.engine;
  CHECK(shared.place == EnginePlace::Colocate);
  CHECK(shared.sleeps == true);
  CHECK(shared.tp == 2);
  // the lagging engines of a script that shares all GPUs stand apart: train(args) @3c3be623
  for (const char* lags : {" --colocate_all_models --async_train", " --train.colocate_all --train.async_enable"}) {
    const EngineChoice apart = script(openrlhf + lags).request.rollout.engine;
    CHECK(apart.is_async);
    CHECK(apart.place == EnginePlace::Server);
    CHECK(apart.gpus == 4);  // two engines of two
  }
  const EstimateRequest lengths = script(openrlhf + " --prompt_max_len 4096 --generate_max_len 8192").request;
  CHECK(lengths.rollout.prompt_len == 4096);
  CHECK(lengths.rollout.max_completion == 8192);
  CHECK(lengths.recipe.seq_len == 12288);
  const EngineChoice instruct =
      script(
          "python open_instruct/grpo_fast.py --model_name_or_path m --num_learners_per_node 6 "
          "--vllm_num_engines 2 --vllm_tensor_parallel_size 1")
          .request.rollout.engine;
  CHECK(instruct.place == EnginePlace::Server);
  CHECK(instruct.gpus == 2);
}

TEST_CASE("a server of answers that the script starts beside the training says where they are written") {
  const std::string train =
      "CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch --num_processes 4 -m trl.scripts.grpo --model_name_or_path m "
      "--use_vllm true --vllm_mode server --vllm_gpu_memory_utilization 0.3\n";
  const auto engine = [&](const std::string& serve) {
    return script("#!/bin/bash\n" + serve + " &\n" + train).request.rollout.engine;
  };
  const EngineChoice four = engine(
      "CUDA_VISIBLE_DEVICES=4,5,6,7 trl vllm-serve --model m --tensor-parallel-size 2 --data-parallel-size 2 "
      "--gpu-memory-utilization 0.8 --max-model-len 4096");
  CHECK(to_text(four) == "vllm:server,util=0.8,tp=2,gpus=4,context=4096");
  CHECK(to_text(engine("trl vllm-serve --model m")) == "vllm:server,tp=1,gpus=1");
  CHECK(to_text(engine("vllm serve m --tensor-parallel-size=4")) == "vllm:server,tp=4,gpus=4");
  const std::string swift =
      "swift rollout --model m --vllm_tensor_parallel_size 2 &\n"
      "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model m --use_vllm true --vllm_mode server\n";
  CHECK(script(swift).request.rollout.engine.gpus == 2);
  // one beside the training has nothing of it
  CHECK(script("trl vllm-serve --model m --tensor-parallel-size 2 &\naccelerate launch -m trl.scripts.grpo "
               "--model_name_or_path m --use_vllm true --vllm_mode colocate\n")
            .request.rollout.engine.tp == 0);
  CHECK(contains(script_error("trl vllm-serve --model m"), "nothing is trained"));
}

TEST_CASE("verl's file says how weights come to the engine, how it shards, and the longest sequence") {
  const EstimateRequest r = script(
                                "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
                                "actor_rollout_ref.model.path=m trainer.n_gpus_per_node=8 "
                                "actor_rollout_ref.rollout.max_model_len=8192 "
                                "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=512 "
                                "actor_rollout_ref.actor.fsdp_config.reshard_after_forward=False")
                                .request;
  CHECK(r.rollout.engine.sync_bucket.count == 512LL << 20);
  CHECK(r.rollout.engine.context == 8192);
  CHECK(r.strategy == "fsdp-grad-op");
  const EstimateRequest hybrid = script(
                                     "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m "
                                     "trainer.n_gpus_per_node=8 actor_rollout_ref.actor.fsdp_config.fsdp_size=4")
                                     .request;
  CHECK(hybrid.strategy == "hsdp");
  CHECK(hybrid.options.shard_size == 4);
}

TEST_CASE("a micro batch of so many tokens need not divide the answers of a generation") {
  // 16,192 x 4 tokens hold 7 rows of 8,192: 1,024 answers on 2 replicas are 74 passes of 7, and some to spare
  const ConfigReading r = script(
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m model_engine=dp "
      "data.train_batch_size=128 data.max_prompt_length=4096 data.max_response_length=4096 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.use_dynamic_bsz=True "
      "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=64768 actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=2 "
      "reward.custom_reward_function.path=reward.py reward.reward_manager.name=naive");
  CHECK(r.request.recipe.micro_batch == 7);
  CHECK(r.request.recipe.grad_accum == 74);
  CHECK(r.request.rollout.sequences == 1024);
  CHECK(script("python3 -m verl.trainer.main_ppo model_engine=megatron actor_rollout_ref.model.path=m")
            .request.recipe.framework->name == "verl-megatron");
  CHECK(contains(
      script_error("python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m distillation.enabled=True"),
      "distillation beside rewards"));
}

TEST_CASE("tokens of a micro batch are said for one GPU by verl, and for the ranks that share a sequence by prime-rl") {
  const std::string verl =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m "
      "data.max_prompt_length=1024 data.max_response_length=1024 "
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 ";
  const auto rows = [&](const std::string& flags) { return script(verl + flags).request.recipe.micro_batch; };
  CHECK(rows("") == 1);  // rows count where batches are not made by tokens
  const std::string by_tokens = "actor_rollout_ref.actor.use_dynamic_bsz=True ";
  CHECK(rows(by_tokens) == 8);  // 16,384 tokens of its default
  CHECK(rows(by_tokens + "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096") == 2);
  // verl/workers/actor/dp_actor.py: times ulysses_sequence_parallel_size; megatron_actor.py: times
  // context_parallel_size
  CHECK(rows(by_tokens + "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096 "
                         "actor_rollout_ref.actor.ulysses_sequence_parallel_size=4") == 8);
  CHECK(rows(by_tokens +
             "--config-name=ppo_megatron_trainer.yaml actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096 "
             "actor_rollout_ref.actor.megatron.context_parallel_size=2") == 4);
}

TEST_CASE("OpenRLHF fills micro batches with 16,192 tokens of each GPU where it fills them by tokens") {
  // openrlhf/cli/train_ppo_ray.py @3c3be623: --train.max_tokens_per_gpu 16192, which --train.dynamic_batch_enable reads
  const auto rows = [](const std::string& more) {
    return script(
               "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --prompt_max_len 1024 --generate_max_len 1024 "
               "--micro_train_batch_size 3 --colocate_all_models --actor_num_gpus_per_node 2 " +
               more)
        .request.recipe.micro_batch;
  };
  CHECK(rows("") == 3);
  CHECK(rows("--use_dynamic_batch") == 7);
  CHECK(rows("--use_dynamic_batch --train_max_tokens_per_gpu 4096") == 2);
}

TEST_CASE("ms-swift: a teacher beside GRPO, and one that another program serves") {
  const std::string grpo =
      "NPROC_PER_NODE=2 megatron rlhf --rlhf_type grpo --model m --use_vllm true --micro_batch_size 2 "
      "--global_batch_size 16 --num_generations 1 --beta 0 ";
  CHECK(script(grpo).request.recipe.objective.method->name == "grpo");
  CHECK(script(grpo + "--teacher_model n").request.recipe.objective.method->name == "teacher-reward");
  const std::string gkd =
      "NPROC_PER_NODE=2 megatron rlhf --rlhf_type gkd --model m --micro_batch_size 2 "
      "--global_batch_size 16 --teacher_model_server http://a:8000 --gkd_logits_topk 64 ";
  const ConfigReading served = script(gkd + "--use_vllm true");
  CHECK(served.request.recipe.objective.method->name == "served-distill");
  CHECK(served.request.rollout.share == 0.5);  // lmbda where nothing says it
  CHECK(script(gkd + "--use_vllm true --lmbda 1").request.rollout.share == 1);
  // without an engine its lmbda, stated or not, has no effect
  CHECK(contains(script_error(gkd), "modelled for distillation on the student's answers"));
  CHECK(contains(script_error(gkd + "--lmbda 1"), "modelled for distillation on the student's answers"));
  CHECK(script("swift rlhf --rlhf_type gkd --model m --teacher_model n --gkd_logits_topk 64")
            .request.recipe.objective.teacher_topk == 64);
}

TEST_CASE("what a trainer does where nobody says is that of its version, and what older ones did is said") {
  const std::string dpo = "trl dpo --model_name_or_path m --per_device_train_batch_size 8";
  const ConfigReading now = script(dpo);
  CHECK(now.request.recipe.precision == Precision::Bf16Mixed);
  CHECK(now.request.recipe.checkpointing == Checkpointing::Full);
  CHECK(has_note(now, "bf16 (before trl 0.19.0: fp32)"));
  CHECK(has_note(now, "gradient_checkpointing (before trl 0.22.0: none)"));
  const ConfigReading then = read_configs({{"train.sh", dpo}}, {}, parse_stack_versions("trl=0.16.0"));
  CHECK(then.request.recipe.precision == Precision::Fp32);
  CHECK(then.request.recipe.checkpointing == Checkpointing::None);
  const ConfigReading said = script(dpo + " --bf16 true --gradient_checkpointing false");
  CHECK_FALSE(has_note(said, "not stated, and taken"));
}

TEST_CASE("groups of Ray in a file of Megatron-SWIFT: their keys are those of the table, and each has its GPUs") {
  const std::string shared =
      "rlhf_type: grpo\nmodel: m\nuse_vllm: true\nmicro_batch_size: 2\nglobal_batch_size: 16\nnum_generations: 8\n"
      "train: {gpus: 4, tuner_type: lora, lora_rank: 16}\n"
      "rollout: {gpus: 4, vllm_tensor_parallel_size: 2, vllm_gpu_memory_utilization: 0.4}\n";
  const auto read = [](const std::string& text) {
    return reading_of_files({{"train.sh", "megatron rlhf --use_ray true --config ray.yaml"}, {"ray.yaml", text}});
  };
  const ConfigReading apart = read(shared);
  CHECK(apart.request.recipe.lora.rank == 16);
  CHECK(apart.setup.num_processes == 4);
  CHECK(apart.request.rollout.engine.place == EnginePlace::Server);
  CHECK(apart.request.rollout.engine.gpus == 4);
  CHECK(apart.request.rollout.engine.tp == 2);
  CHECK(apart.request.rollout.engine.utilisation == 0.4);
  const ConfigReading together = read(shared + "colocate_groups: [[train, rollout]]\n");
  CHECK(together.request.rollout.engine.place == EnginePlace::Colocate);
  CHECK(together.request.rollout.engine.gpus == 0);
  CHECK(contains(error_of_files({{"train.sh", "megatron rlhf --use_ray true --config ray.yaml"},
                                 {"ray.yaml", shared + "teacher: {gpus: 2}\n"}}),
                 "a teacher on GPUs of its own"));
}

TEST_CASE("TRL's PPO and online DPO: their defaults, answers and reward model") {
  const EstimateRequest ppo =
      script("accelerate launch examples/scripts/ppo/ppo.py --model_name_or_path m --reward_model_path n").request;
  CHECK(ppo.recipe.objective.method->name == "ppo");
  CHECK(ppo.rollout.max_completion == 53);
  CHECK(ppo.rollout.iterations == 4);
  const ConfigReading online =
      script("python examples/scripts/online_dpo.py --model_name_or_path m --reward_model_path n --max_new_tokens 32");
  CHECK(online.request.recipe.objective.method->name == "online-dpo");
  CHECK(online.request.rollout.max_completion == 32);
  CHECK(online.setup.reward_model == "model");
  const ConfigReading apart =
      reading_of_files({{"train.py",
                         "from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer\n"
                         "config = AsyncGRPOConfig(per_device_train_batch_size=16)\n"
                         "trainer = AsyncGRPOTrainer(model='Qwen/Qwen3-0.6B', args=config)\n"}});
  CHECK(apart.model == "Qwen/Qwen3-0.6B");
  CHECK(apart.request.rollout.engine.place == EnginePlace::Server);
  CHECK(apart.request.rollout.engine.is_async);
  CHECK(apart.request.rollout.max_completion == 2048);
}

TEST_CASE("other trainings, and scripts that train nothing, are refused by name") {
  CHECK(contains(script_error("trl ppo --model_name_or_path m"), "reinforcement learning of TRL"));
  CHECK(script("trl grpo --model_name_or_path m --use_vllm True --num_generations 4")
            .request.recipe.objective.method->name == "grpo");
  CHECK(script("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=remax "
               "actor_rollout_ref.model.path=m data.train_batch_size=8")
            .request.recipe.objective.method->name == "remax");
  CHECK(contains(script_error("swift infer --model m"), "nothing is trained"));
  CHECK(contains(script_error("echo python sft.py --max_length 64"), "starts no training that gpuplan knows"));
  CHECK(contains(script_error("pip install trl\n"), "starts no training"));
  // "dpo.py" alone is TRL's
  CHECK(contains(script_error("torchrun open_instruct/dpo.py --model_name_or_path m"), "DPO by OLMo-core"));
  // what follows a training is not counted
  CHECK(has_note(script("python sft.py --max_length 64\npython sft.py --max_length 128"), "a further start"));
}

TEST_CASE("a script of preference tuning says its method, whatever its flags say") {
  for (const char* command : {"trl dpo", "accelerate launch trl/scripts/dpo.py", "python -m trl.scripts.dpo"}) {
    const ConfigReading r = script(std::string(command) + " --model_name_or_path m --beta 0.1 --max_length 64");
    CHECK(r.request.recipe.objective.method->name == "dpo");
  }
  CHECK(script("swift rlhf --rlhf_type kto --model m").request.recipe.objective.method->name == "kto");
  CHECK(script("llamafactory-cli train --stage dpo --model_name_or_path m").request.recipe.objective.method->name ==
        "dpo");
  CHECK(script("trl reward --model_name_or_path m --max_length 64").request.recipe.objective.method->name == "reward");
}

TEST_CASE("a script that no row names is read by the trainer that knows most of its flags") {
  const ConfigReading r = script(
      "torchrun --nproc_per_node 2 my.py --max_length 64 --lora_r 4 --use_peft true --with_tracking --my_flag 3 "
      "--per_device_train_batch_size 2");
  CHECK(has_note(r, "my.py is no script that gpuplan knows"));
  CHECK(r.request.recipe.lora.rank == 4);
  CHECK(has_note(r, "my_flag"));
}

TEST_CASE("a text without a known ending is a script where a launcher begins it") {
  CHECK(is_launch_script({"job", "#!/bin/bash\nls"}));
  CHECK(is_launch_script({"command.txt", "accelerate launch a.py"}));
  CHECK_FALSE(is_launch_script({"a.yaml", "accelerate launch a.py"}));
  CHECK_FALSE(is_launch_script({"a", "{\"torchrun \": 1}"}));
}

TEST_CASE("a shell behind srun starts what its text says, with variables of the script") {
  const std::string start = "LAUNCHER=\"torchrun --nproc_per_node 4\"\nCMD=\"" + std::string(kSft).substr(1) + "\"\n";
  const ConfigReading r = script(start + "srun --jobid $SLURM_JOBID bash -c \"$LAUNCHER $CMD\"\n");
  CHECK(r.setup.num_processes == 4);
  CHECK(r.request.recipe.lora.rank == 8);
}

TEST_CASE("a script of an unknown kind: adapters in the usual words, others are asked about") {
  const std::string start =
      "torchrun --nproc_per_node 2 mine/train.py --model_name_or_path Qwen/Qwen3-8B "
      "--per_device_train_batch_size 1 --num_train_epochs 1 --bf16 True ";
  const ConfigReading full = script(start);
  CHECK(full.request.recipe.method == Method::Full);
  CHECK(full.open_method.empty());
  const ConfigReading llava =
      script(start + "--lora_enable True --lora_r 128 --lora_alpha 256 --model_max_length 4096");
  CHECK(llava.request.recipe.method == Method::Lora);
  CHECK(llava.request.recipe.lora.rank == 128);
  CHECK(llava.request.recipe.lora.targets == std::vector<std::string>{"all-linear"});
  CHECK(llava.request.recipe.seq_len == 4096);
  CHECK(script(start + "--q_lora True --lora_r 8").request.recipe.method == Method::Qlora);
  CHECK(script(start + "--lora_enable False --bits 16").request.recipe.method == Method::Full);
  CHECK(script(start + "--with_my_lora 1").open_method == "with_my_lora");
  CHECK(script(start + "--with_my_lora False").open_method.empty());
}

TEST_CASE("Megatron-LM's own scripts are refused by name, not taken for a script of one's own") {
  CHECK(contains(script_error("torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 "
                              "--expert-model-parallel-size 4 --num-layers 32"),
                 "Megatron-LM's own scripts"));
}

TEST_CASE("a file below a folder that only a run knows is looked for below the script's own") {
  const auto find = [](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    if (named != "configs/a.yaml") return std::nullopt;
    return ConfigFile{named, "model_name_or_path: Qwen/Qwen3-8B\ncutoff_len: 99\nstage: sft\n"};
  };
  for (const char* folder : {"$(cd \"$(dirname \"$0\")/..\" && pwd)", "$ROOT", "${SLURM_SUBMIT_DIR}"}) {
    const ConfigFile file{"train.sh", "llamafactory-cli train \"" + std::string(folder) + "/configs/a.yaml\"\n"};
    CAPTURE(file.text);
    CHECK(read_configs({file}, find).request.recipe.seq_len == 99);
  }
}

}  // namespace gpuplan

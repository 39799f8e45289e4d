// The law of fix: the changed files, read again, ask for what was wanted and fit; nothing else in them changes.
#include "mend/fix.h"
#include "mend/ways.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/gpu_list.h"
#include "ecosystem/module_targets.h"
#include "models/catalogue.h"
#include "planner/estimate.h"

using namespace gpuplan;

namespace {

/// Files as `estimate --from` reads them, on these GPUs.
class Reader {
 public:
  explicit Reader(const std::string& gpus) : cluster_(parse_gpus(gpus)) {}

  ReadFiles read(const std::vector<ConfigFile>& files, Broken broken = Broken::Refused) const {
    const FindConfig find = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
      for (const ConfigFile& file : files)
        if (file.name == named) return file;
      return std::nullopt;
    };
    std::vector<ConfigFile> given = files;
    if (files.size() > num_given_ && num_given_ > 0) given.resize(num_given_);
    ReadFiles out{.files = files, .reading = read_configs(given, find, {}, {}, {}, broken), .request = {}};
    out.why_refused = out.reading.why_mended;
    out.request = out.reading.request;
    out.request.model = load_model(*out.reading.model).spec;
    settle_stack(out.request);
    out.request.cluster = cluster_;
    std::vector<std::string> notes;
    settle_targets(out.request, notes);
    settle_strategy(out.reading, out.request, notes);
    settle_passes(out.reading, out.request, notes);
    return out;
  }

  FixQuestion question(const std::vector<ConfigFile>& files) {
    num_given_ = files.size();
    FixQuestion question{.given = read(files, Broken::Mended), .profile = {}};
    question.profile = profile_of(question.given.request);
    question.read = [this](const std::vector<ConfigFile>& changed) { return read(changed); };
    return question;
  }

 private:
  ClusterSpec cluster_;
  std::size_t num_given_ = 0;
};

std::vector<ConfigFile> with(std::vector<ConfigFile> files, const MendedFiles& mended) {
  for (const MendedFile& changed : mended.files) {
    const auto found = std::ranges::find(files, changed.name, &ConfigFile::name);
    if (found != files.end())
      found->text = changed.after;
    else
      files.push_back({changed.name, changed.after});
  }
  return files;
}

bool names(const MendedFiles& mended, const std::string& key) {
  return std::ranges::find(mended.keys, key, &KeyChange::key) != mended.keys.end();
}

const ConfigFile kLora{"axolotl.yaml",
                       "base_model: meta-llama/Llama-3.1-8B # ours\n"
                       "adapter: lora\n"
                       "lora_r: 16\n"
                       "lora_alpha: 32\n"
                       "lora_target_linear: true\n"
                       "sequence_len: 4096\n"
                       "sample_packing: true\n"
                       "micro_batch_size: 4  # as in the tutorial\n"
                       "gradient_accumulation_steps: 2\n"
                       "optimizer: adamw_torch_fused\n"
                       "bf16: auto\n"
                       "flash_attention: true\n"};

}  // namespace

TEST_CASE("files that fit are left alone") {
  Reader reader("2xA100-80");
  ConfigFile small = kLora;
  small.text.replace(small.text.find("micro_batch_size: 4"), 19, "micro_batch_size: 1");
  const FixAnswer answer = find_fix(reader.question({small}));
  CHECK(answer.before->fits_well());
  CHECK(answer.mended.files.empty());
  CHECK(answer.fits());
}

TEST_CASE("a LoRA file that does not fit two 3090s fits by keys of its own, and a second call changes nothing") {
  Reader reader("2x3090");
  const FixQuestion question = reader.question({kLora});
  const FixAnswer answer = find_fix(question);
  REQUIRE(answer.before);
  CHECK_FALSE(answer.before->fits());
  REQUIRE(answer.after);
  CHECK(answer.after->chance >= 0.8);
  const ReadFiles after = reader.read(with({kLora}, answer.mended));
  const Recipe &one = question.given.request.recipe, &other = after.request.recipe;
  CHECK(one.method == other.method);
  CHECK(one.seq_len == other.seq_len);
  CHECK(one.micro_batch * one.grad_accum == other.micro_batch * other.grad_accum);
  // every line that does not hold a named key is there as it was
  for (const char* line : {"base_model: meta-llama/Llama-3.1-8B # ours\n", "bf16: auto\n", "lora_r: 16\n"})
    CHECK(answer.mended.files[0].after.find(line) != std::string::npos);
  CHECK(find_fix(reader.question(with({kLora}, answer.mended))).mended.files.empty());
}

TEST_CASE("what is allowed beside changes only where nothing else makes it fit") {
  Reader reader("2x3090");
  FixQuestion question = reader.question({kLora});
  const FixAnswer plain = find_fix(question);
  REQUIRE(plain.after);
  question.allowed = {.context = true, .batch = true, .method = true};
  const FixAnswer allowed = find_fix(question);
  CHECK(allowed.flags == plain.flags);
  CHECK(names(allowed.mended, "sequence_len") == false);
}

TEST_CASE("every change of a fix is needed: without any of them the files would not fit") {
  Reader reader("2x3090");
  const FixQuestion question = reader.question({kLora});
  const std::optional<StrategyEstimate> before = estimate_as_given({question.given.request, question.profile});
  const std::vector<MendWay> ways = find_ways(question, before, 4);
  REQUIRE_FALSE(ways.empty());
  for (const MendWay& way : ways)
    for (std::size_t left_out = 0; left_out < way.settings.size(); ++left_out) {
      if (way.settings[left_out].change->name == "kernels") continue;  // with those of the loss one word
      std::vector<Setting> fewer = way.settings;
      fewer.erase(fewer.begin() + std::ptrdiff_t(left_out));
      for (const MendWay& other : ways) {
        const bool is_same = other.strategy == way.strategy &&
                             std::ranges::equal(other.settings, fewer, [](const Setting& a, const Setting& b) {
                               return a.change == b.change && a.value == b.value;
                             });
        CHECK_FALSE(is_same);
      }
    }
}

TEST_CASE("a faster run is no reason to change more keys than room takes") {
  // torch.compile beside another division of the batch would be a third faster than the file ever was
  Reader reader("1xA6000");
  const FixAnswer answer = find_fix(reader.question(
      {{"sft.yaml",
        "model_name_or_path: Qwen/Qwen2.5-3B\nuse_peft: true\nlora_r: 16\nper_device_train_batch_size: 4\n"
        "gradient_accumulation_steps: 2\nmax_length: 2048\nbf16: true\ngradient_checkpointing: false\n"}}));
  REQUIRE(answer.fits());
  CHECK(answer.after->chance > 0.95);
  CHECK_FALSE(names(answer.mended, "torch_compile"));
  CHECK(std::ranges::count(answer.flags, "--compile") == 0);
  CHECK(answer.flags.size() <= 2);  // sequences a pass, and passes
}

TEST_CASE("the loss of pairs is fused by the key that does it, and the key of another training does nothing") {
  Reader reader("2x3090");
  const std::string dpo =
      "base_model: Qwen/Qwen2.5-7B-Instruct\nrl: dpo\nadapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_alpha: 32\n"
      "lora_target_linear: true\nsequence_len: 2048\nmicro_batch_size: 4\ngradient_accumulation_steps: 4\n"
      "flash_attention: true\nbf16: true\n";
  const auto loss = [&](const std::string& more) {
    return reader.question({{"dpo.yml", dpo + more}}).given.request.recipe.loss;
  };
  CHECK(loss("dpo_use_liger_kernel: true\n") == LossKernel::Fused);
  CHECK(loss("plugins: [axolotl.integrations.liger.LigerPlugin]\nliger_fused_linear_cross_entropy: true\n") ==
        LossKernel::Plain);
  const FixAnswer answer = find_fix(reader.question({{"dpo.yml", dpo}}));
  REQUIRE(answer.after);
  for (const KeyChange& change : answer.mended.keys) CHECK(change.key.find("liger_fused") == std::string::npos);
}

TEST_CASE("a trainer's file and DeepSpeed's are mended together, and a file that is not given stays") {
  const ConfigFile trainer{"full.yaml",
                           "base_model: meta-llama/Llama-2-13b-hf\n"
                           "deepspeed: zero.json\n"
                           "sequence_len: 2048\n"
                           "sample_packing: true\n"
                           "micro_batch_size: 1\n"
                           "optimizer: adamw_torch_fused\n"
                           "bf16: true\n"
                           "gradient_checkpointing: true\n"
                           "flash_attention: true\n"};
  const ConfigFile zero{"zero.json", "{\"zero_optimization\": {\"stage\": 1}, \"bf16\": {\"enabled\": \"auto\"}}\n"};
  Reader reader("8xA100-40");
  const FixAnswer both = find_fix(reader.question({trainer, zero}));
  REQUIRE(both.before);
  CHECK_FALSE(both.before->fits());  // 13 B x (2 + 2 + 12 / 8) bytes are 71 GB
  REQUIRE(both.after);
  CHECK(names(both.mended, "zero_optimization.stage"));
  CHECK(std::ranges::any_of(both.mended.files, [](const auto& file) { return file.name == "zero.json"; }));
}

TEST_CASE(
    "an optimizer in 8 bit is taken where nothing else is as fast, and the answer says that the training is another") {
  const ConfigFile full{"full.yaml",
                        "base_model: Qwen/Qwen2.5-7B\n"
                        "sequence_len: 2048\n"
                        "micro_batch_size: 1\n"
                        "gradient_accumulation_steps: 8\n"
                        "bf16: true\n"
                        "gradient_checkpointing: true\n"
                        "flash_attention: true\n"};
  const auto says_it = [](const FixAnswer& answer) {
    return std::ranges::any_of(answer.notes,
                               [](const auto& note) { return note.find("in 8 bit") != std::string::npos; });
  };
  Reader two("2xA6000"), eight("8xA6000");
  const FixAnswer tight = find_fix(two.question({full})), wide = find_fix(eight.question({full}));
  REQUIRE(tight.asks);
  CHECK(tight.asks->recipe.optimizer->is_8bit);
  CHECK(says_it(tight));
  REQUIRE(wide.asks);  // 7.6 B x 16 bytes are 15 GB on each of eight cards
  CHECK_FALSE(wide.asks->recipe.optimizer->is_8bit);
  CHECK_FALSE(says_it(wide));
}

TEST_CASE("context changes where it is allowed, and the answer says that it would do") {
  Reader reader("4090");
  ConfigFile full = kLora;
  full.text.replace(full.text.find("sequence_len: 4096"), 18, "sequence_len: 1048576");
  FixQuestion question = reader.question({full});
  const FixAnswer refused = find_fix(question);
  CHECK_FALSE(refused.fits());
  CHECK(refused.mended.files.empty());
  CHECK(std::ranges::find(refused.would_do, "context", &Permission::allow) != refused.would_do.end());
  question.allowed.context = true;
  const FixAnswer allowed = find_fix(question);
  REQUIRE(allowed.after);
  CHECK(names(allowed.mended, "sequence_len"));
}

TEST_CASE("a script's flags change, and its launcher starts as many processes as there are GPUs") {
  const ConfigFile script{"train.sh",
                          "#!/bin/bash\n"
                          "accelerate launch --num_processes 8 --multi_gpu -m trl.scripts.sft \\\n"
                          "    --model_name_or_path meta-llama/Llama-3.1-8B \\\n"
                          "    --use_peft --lora_r 16 --lora_target_modules all-linear \\\n"
                          "    --max_length 2048 \\\n"
                          "    --per_device_train_batch_size 1 \\\n"
                          "    --bf16 True --dtype bfloat16 \\\n"
                          "    --output_dir out\n"};
  Reader reader("2xA6000");
  const FixAnswer answer = find_fix(reader.question({script}));
  REQUIRE(answer.after);
  CHECK(names(answer.mended, "num_processes"));
  const std::string& text = answer.mended.files.at(0).after;
  CHECK(text.find("--num_processes 2 --multi_gpu") != std::string::npos);
  CHECK(text.find("--gradient_accumulation_steps 4") != std::string::npos);  // 8 x 1 = 2 x 4
}

TEST_CASE("a batch of all ranks stays as it is, however many processes the files start") {
  const ConfigFile script{"train.sh",
                          "NPROC_PER_NODE=4 megatron sft \\\n"
                          "    --model Qwen/Qwen2.5-7B-Instruct \\\n"
                          "    --tuner_type lora \\\n"
                          "    --micro_batch_size 1 --global_batch_size 16 \\\n"
                          "    --max_length 2048\n"};
  Reader reader("2xA6000");
  const FixAnswer answer = find_fix(reader.question({script}));
  REQUIRE(answer.after);
  CHECK(answer.after->global_batch == 16);
  CHECK_FALSE(names(answer.mended, "global_batch_size"));
}

TEST_CASE("a script of two machines that is asked about on one starts on one") {
  const ConfigFile script{"train.sh",
                          "torchrun --nnodes=2 --nproc_per_node=4 sft.py \\\n"
                          "  --model_name_or_path Qwen/Qwen2.5-0.5B --bf16 True \\\n"
                          "  --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --max_length 512\n"};
  Reader reader("4x3090");
  const FixAnswer answer = find_fix(reader.question({script}));
  REQUIRE(answer.after);
  const std::string& text = answer.mended.files.at(0).after;
  CHECK(text.find("--nnodes=1 --nproc_per_node=4") != std::string::npos);
  CHECK(text.find("--gradient_accumulation_steps 4") != std::string::npos);  // 2 x 4 x 2 = 4 x 4
}

TEST_CASE(
    "a script that starts more processes than it shows GPUs to is told so; the answer has the question of its files") {
  const ConfigFile script{"train.sh",
                          "export CUDA_VISIBLE_DEVICES=0,1\n"
                          "accelerate launch --num_processes 2 --multi_gpu -m trl.scripts.sft \\\n"
                          "  --model_name_or_path Qwen/Qwen2.5-0.5B --use_peft --lora_r 8 --bf16 True \\\n"
                          "  --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --max_length 512\n"};
  const auto told = [&](const FixAnswer& answer) {
    return std::ranges::any_of(answer.notes, [](const std::string& note) {
      return note.find("shows the training 2 GPUs alone") != std::string::npos;
    });
  };
  Reader reader("4x3090");
  const FixAnswer answer = find_fix(reader.question({script}));
  REQUIRE(answer.after);
  REQUIRE(answer.asks);
  CHECK(names(answer.mended, "num_processes"));
  CHECK(told(answer));
  // 2 processes x 8 passes = 4 x 4
  CHECK(answer.asks->recipe.grad_accum == 4);
  Reader as_shown("2x3090");
  CHECK_FALSE(told(find_fix(as_shown.question({script}))));
}

TEST_CASE("a variable before a command changes where it is written; flags go to the command, and auto stays auto") {
  const ConfigFile script{"train.sh",
                          "NPROC_PER_NODE=4 \\\n"
                          "CUDA_VISIBLE_DEVICES=0,1,2,3 \\\n"
                          "swift sft \\\n"
                          "    --model Qwen/Qwen2.5-7B-Instruct \\\n"
                          "    --tuner_type lora \\\n"
                          "    --torch_dtype bfloat16 \\\n"
                          "    --max_length 2048 \\\n"
                          "    --per_device_train_batch_size 4 \\\n"
                          "    --deepspeed zero2\n"};
  Reader reader("2x3090");
  FixQuestion question = reader.question({script});
  question.allowed.method = true;
  const FixAnswer answer = find_fix(question);
  REQUIRE(answer.after);
  CHECK(names(answer.mended, "environment.NPROC_PER_NODE"));
  CHECK(!names(answer.mended, "train_batch_size"));  // of a file that the trainer ships
  const std::string& text = answer.mended.files.at(0).after;
  CHECK(text.find("NPROC_PER_NODE=2 \\\nCUDA_VISIBLE_DEVICES=0,1,2,3 \\\nswift sft \\\n") == 0);
  CHECK(text.ends_with("    --deepspeed zero2\n"));

  const ConfigFile inner{"a.sh", "bash -c \"" + script.text.substr(0, script.text.size() - 1) + "\"\n"};
  for (const SettingsPart& part : reader.read({inner}).reading.parts)
    for (const LaunchFlag& flag : part.flags) CHECK(flag.begin == flag.end);
}

TEST_CASE("adapters on a 4-bit base are written in the words of a trainer that has two keys for them") {
  const ConfigFile file{"sft.yaml",
                        "model_name_or_path: Qwen/Qwen2.5-14B-Instruct\n"
                        "use_slow_tokenizer: true\n"
                        "dataset_mix_dir: out\n"
                        "max_seq_length: 2048\n"
                        "per_device_train_batch_size: 1\n"};
  Reader reader("3090");
  FixQuestion question = reader.question({file});
  CHECK(find_fix(question).would_do.front().allow == "method");
  question.allowed.method = true;
  const FixAnswer answer = find_fix(question);
  REQUIRE(answer.after);
  for (const char* const key : {"use_lora", "use_qlora"}) CHECK(names(answer.mended, key));
}

TEST_CASE("a switch that a file has off is switched on once, whatever else needs it, and adapters have their rank") {
  // two facts put load_in_4bit: the bits of the base, and double quantisation, which has no effect without it
  for (const char* const stated : {"", "load_in_4bit: false\n", "load_in_4bit:\n", "load_in_8bit: false\n"}) {
    CAPTURE(stated);
    const ConfigFile file{"axolotl.yaml", std::string("base_model: meta-llama/Llama-3.1-8B\n") + stated};
    Reader reader("2x3090");
    FixQuestion question = reader.question({file});
    question.allowed.method = true;
    const FixAnswer answer = find_fix(question);
    REQUIRE(answer.after);
    const std::string& after = answer.mended.files.front().after;
    const std::size_t first = after.find("load_in_4bit: true\n");
    CHECK(first != std::string::npos);
    CHECK(after.find("load_in_4bit", first + 1) == std::string::npos);
    // axolotl has no default for them: src/axolotl/utils/schemas/peft.py @067b021c8 (LoraConfig)
    for (const char* const needed : {"adapter: qlora\n", "lora_r: 8\n", "lora_alpha: 16"})
      CHECK(after.find(needed) != std::string::npos);
  }
}

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

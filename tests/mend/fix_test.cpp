// The law of fix: the changed files, read again, ask for what was wanted and fit; nothing else in them changes.
#include "mend/fix.h"
#include "mend/ways.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "base/error.h"
#include "mend/fix_reader.h"
#include "planner/estimate.h"

using namespace gpuplan;
using namespace gpuplan::test;

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

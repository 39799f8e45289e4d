#include "mend/script_text.h"

#include <doctest/doctest.h>

#include "ecosystem/config_reader.h"

using namespace gpuplan;

namespace {

const FindConfig kNothing = [](const std::string&, const std::string&) { return std::nullopt; };

/// The trainer's part of a script.
SettingsPart part_of(const ConfigFile& script) {
  for (const SettingsPart& part : read_configs({script}, kNothing).parts)
    if (part.table->role == FileRole::Trainer) return part;
  return {};
}

const ConfigFile kScript{"train.sh",
                         "#!/bin/bash\n"
                         "# one node\n"
                         "trl sft \\\n"
                         "    --model_name_or_path \"$MODEL\" \\\n"
                         "    --per_device_train_batch_size 8 \\\n"
                         "    --bf16 True \\\n"
                         "    --max_length=2048 \\\n"
                         "    --output_dir out > log.txt\n"};

}  // namespace

TEST_CASE("a flag of a script gets another value where it stands, and a new one a line of its own") {
  ScriptText text(kScript);
  const SettingsPart part = part_of(kScript);
  CHECK(text.put(part, "per_device_train_batch_size", 2));
  CHECK(text.put(part, "max_length", 1024));
  CHECK(text.put(part, "gradient_checkpointing", true));
  CHECK(text.put(part, "gradient_checkpointing_kwargs.use_reentrant", false));
  CHECK(text.text() ==
        "#!/bin/bash\n"
        "# one node\n"
        "trl sft \\\n"
        "    --model_name_or_path \"$MODEL\" \\\n"
        "    --per_device_train_batch_size 2 \\\n"
        "    --bf16 True \\\n"
        "    --max_length=1024 \\\n"
        "    --gradient_checkpointing True \\\n"
        "    --gradient_checkpointing_kwargs '{\"use_reentrant\": false}' \\\n"
        "    --output_dir out > log.txt\n");
}

TEST_CASE("a list of one is one word behind a flag, as argparse takes it") {
  ScriptText text(kScript);
  CHECK(text.put(part_of(kScript), "per_device_train_batch_size", OrderedJson::array({2})));
  CHECK(text.text().find("--per_device_train_batch_size 2 \\\n") != std::string::npos);
}

TEST_CASE("words of a value are no spelling of the names") {
  const ConfigFile script{"train.sh",
                          "python3 -m verl.trainer.main_ppo \\\n"
                          "    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\\n"
                          "    algorithm.adv_estimator=grpo\n"};
  ScriptText text(script);
  CHECK(text.put(part_of(script), "actor_rollout_ref.actor.fsdp_config.offload_policy", true));
  CHECK_MESSAGE(text.text().find("actor_rollout_ref.actor.fsdp_config.offload_policy=true \\\n") != std::string::npos,
                text.text());
}

TEST_CASE("a flag that is taken away takes its line along") {
  ScriptText text(kScript);
  CHECK(text.clear(part_of(kScript), "bf16"));
  CHECK(text.text().find("bf16") == std::string::npos);
  CHECK(text.text().find("size 8 \\\n    --max_length=2048") != std::string::npos);
}

TEST_CASE("flags in an array of the script stand there, and a new one behind them") {
  const ConfigFile script{"train.sh",
                          "cmd=(\n"
                          "  trl sft\n"
                          "  --model_name_or_path \"$MODEL\"\n"
                          "  --per_device_train_batch_size 8\n"
                          "  --max_length 2048\n"
                          ")\n"
                          "CUDA_VISIBLE_DEVICES=0 \"${cmd[@]}\"\n"};
  ScriptText text(script);
  const SettingsPart part = part_of(script);
  CHECK(text.put(part, "per_device_train_batch_size", 2));
  CHECK(text.put(part, "gradient_checkpointing", true));
  CHECK(text.text() ==
        "cmd=(\n"
        "  trl sft\n"
        "  --model_name_or_path \"$MODEL\"\n"
        "  --per_device_train_batch_size 2\n"
        "  --max_length 2048 --gradient_checkpointing true\n"
        ")\n"
        "CUDA_VISIBLE_DEVICES=0 \"${cmd[@]}\"\n");
}

TEST_CASE("what stands in a text behind bash -c has no place of its own") {
  const ConfigFile inner{"a.sh", "bash -c \"trl sft --model_name_or_path a/b --max_length 512\"\n"};
  ScriptText text(inner);
  CHECK_FALSE(text.put(part_of(inner), "max_length", 256));
}

TEST_CASE("OpenRLHF's flags have dots, and its switches no value") {
  // openrlhf/cli/train_dpo.py, train_ppo_ray.py @3c3be623: store_true
  const auto script = [](const std::string& program, const std::string& flags) {
    return ConfigFile{"a.sh", "deepspeed --module openrlhf.cli." + program + " " + flags + "\n"};
  };
  const std::string flags = "--train.batch_size 64 --model.model_name_or_path a/b --ds.zero_stage 2";
  const ConfigFile dpo = script("train_dpo", flags);
  ScriptText text(dpo);
  CHECK(text.put(part_of(dpo), "model.gradient_checkpointing_enable", true));
  CHECK(text.put(part_of(dpo), "ds.adam_offload", true));
  CHECK(text.put(part_of(dpo), "ds.use_liger_kernel", false));  // no flag says it
  CHECK(text.text() == script("train_dpo", flags + " --model.gradient_checkpointing_enable --ds.adam_offload").text);
  const ConfigFile with = script("train_dpo", flags + " --ds.adam_offload --data.max_len 512");
  ScriptText off(with);
  CHECK(off.put(part_of(with), "ds.adam_offload", false));
  CHECK(off.text() == script("train_dpo", flags + " --data.max_len 512").text);
}

// Settings of a trainer's file beside memory and time go through a saved plan into the file that is exported.
#include <string>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json_file.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "command_line.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

const std::string kLlamaFactory =
    "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\n"
    "lora_target: all\ndataset: support_tickets\ntemplate: qwen3_nothink\ncutoff_len: 2048\nmax_samples: 1000\n"
    "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nlearning_rate: 1e-4\nnum_train_epochs: 3.0\n"
    "lr_scheduler_type: linear\nwarmup_ratio: 0.1\nbf16: true\nlogging_steps: 10\nsave_steps: 500\nplot_loss: true\n"
    "hub_token: hf_secret\noutput_dir: saves/qwen3\n";
const std::string kAxolotl =
    "base_model: NousResearch/Llama-3.2-1B\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_alpha: 16\n"
    "lora_target_linear: true\nsequence_len: 4096\nsample_packing: true\nval_set_size: 0.05\n"
    "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n  - my_team.plugins.Watch\n"
    "datasets:\n  - path: data/tickets.jsonl\n    type: alpaca\nmicro_batch_size: 2\n"
    "gradient_accumulation_steps: 4\nnum_epochs: 1\noptimizer: adamw_bnb_8bit\nlr_scheduler: cosine\n"
    "learning_rate: 0.0002\nbf16: auto\ngradient_checkpointing: true\nflash_attention: true\nwarmup_ratio: 0.1\n"
    "special_tokens:\n  pad_token: \"<|end_of_text|>\"\nsaves_per_epoch: 1\nwandb_project: tickets\noutput_dir: "
    "./out\n";

struct RoundTrip {
  std::string plan, file;
  test::Ran exported;
};

/// Saves the plan of a trainer's file, and exports it.
RoundTrip round_trip(const test::ScratchFolder& folder, const std::string& text, const std::string& target,
                     const std::string& name) {
  const std::string from = folder.write("mine.yaml", text).string(), plan = (folder.path() / "p.json").string(),
                    out = (folder.path() / target).string();
  const test::Ran saved = test::run_line("estimate --from " + from + " --gpus 2xA6000 --save " + plan + " --force");
  CHECK_MESSAGE(saved.code == 0, saved.err);
  RoundTrip made{.plan = read_file(plan), .file = {}, .exported = {}};
  made.exported = test::run_line("export " + plan + " --for " + target + " --output " + out);
  CHECK_MESSAGE(made.exported.code == 0, made.exported.err);
  if (made.exported.code == 0) made.file = read_file(folder.path() / target / name);
  return made;
}

json values_of(const std::string& text) { return parse_yaml11(text, "exported")->root; }  // a key twice throws

}  // namespace

TEST_CASE("a LLaMA-Factory file comes back from its plan with data, template, rates and logging") {
  const test::ScratchFolder folder;
  const RoundTrip made = round_trip(folder, kLlamaFactory, "llama-factory", "llamafactory.yaml");
  const json before = values_of(kLlamaFactory), after = values_of(made.file);
  for (const char* key :
       {"dataset", "template", "max_samples", "lr_scheduler_type", "warmup_ratio", "logging_steps", "save_steps",
        "plot_loss", "output_dir", "do_train", "lora_rank", "cutoff_len", "num_train_epochs"}) {
    CAPTURE(key);
    CHECK(after.value(key, json()) == before.at(key));
  }
  CHECK(after.value("learning_rate", json()) == 1e-4);  // OmegaConf takes the text 1e-4 for a number
  CHECK_FALSE(after.contains("warmup_steps"));          // which the user's file does not say
  CHECK_FALSE(after.contains("max_grad_norm"));
  CHECK_FALSE(is_file(folder.path() / "llama-factory" / "dataset_info.json"));
  CHECK(made.plan.find("hf_secret") == std::string::npos);
}

TEST_CASE("an axolotl file comes back from its plan with its data, tokens and plugins, but for those of the plan") {
  const test::ScratchFolder folder;
  const RoundTrip made = round_trip(folder, kAxolotl, "axolotl", "axolotl.yaml");
  const json before = values_of(kAxolotl), after = values_of(made.file);
  for (const char* key : {"datasets", "special_tokens", "val_set_size", "learning_rate", "warmup_ratio",
                          "saves_per_epoch", "wandb_project", "output_dir", "lr_scheduler"}) {
    CAPTURE(key);
    CHECK(after.value(key, json()) == before.at(key));
  }
  const json plugins = after.value("plugins", json::array());
  CHECK(std::count(plugins.begin(), plugins.end(), json("my_team.plugins.Watch")) == 1);
  // its loss is the plan's, which says it in Liger's words
  CHECK(std::count(plugins.begin(), plugins.end(), json("axolotl.integrations.liger.LigerPlugin")) == 1);
  CHECK(plugins.size() == 2);
}

TEST_CASE("a setting is written back under the name that it has in the user's versions") {
  const std::string trl =
      "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: stanfordnlp/imdb\nlearning_rate: 0.0001\n"
      "warmup_ratio: 0.03\nuse_peft: true\nlora_r: 8\nmax_length: 1024\n";
  const test::ScratchFolder folder;
  const json newest = values_of(round_trip(folder, trl, "trl", "sft.yaml").file);
  CHECK(newest.value("warmup_steps", json()) == 0.03);
  CHECK_FALSE(newest.contains("warmup_ratio"));
  const std::string out = (folder.path() / "older").string();
  const test::Ran older = test::run_line("export " + (folder.path() / "p.json").string() +
                                         " --for trl --versions transformers=4.57.6 --output " + out);
  CHECK_MESSAGE(older.code == 0, older.err);
  const json values = values_of(read_file(std::filesystem::path(out) / "sft.yaml"));
  CHECK(values.value("warmup_ratio", json()) == 0.03);
  CHECK_FALSE(values.contains("warmup_steps"));
}

TEST_CASE("a job of a script with TRL's trainer keeps its rates, steps and schedule, and says that data stays behind") {
  const std::string script =
      "from datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n"
      "args = SFTConfig(output_dir='mine', max_steps=500, learning_rate=3e-5, lr_scheduler_type='constant',\n"
      "                 per_device_train_batch_size=2, max_length=1024, bf16=True)\n"
      "trainer = SFTTrainer(model='Qwen/Qwen2.5-0.5B', args=args,\n"
      "                     train_dataset=load_dataset('trl-lib/Capybara', split='train'))\ntrainer.train()\n";
  const test::ScratchFolder folder;
  const std::string train = folder.write("train.py", script).string(),
                    launch = folder.write("train.sh", "accelerate launch --num_processes 2 train.py\n").string(),
                    plan = (folder.path() / "p.json").string();
  for (const std::string& from : {train, launch})
    for (const std::string target : {"slurm", "skypilot", "kubeflow", "trl"}) {
      CAPTURE(from);
      CAPTURE(target);
      const test::Ran saved = test::run_line("estimate --from " + from + " --gpus 2xA6000 --save " + plan + " --force");
      REQUIRE_MESSAGE(saved.code == 0, saved.err);
      const std::string out = (folder.path() / target).string();
      const test::Ran made = test::run_line("export " + plan + " --for " + target + " --force --output " + out);
      REQUIRE_MESSAGE(made.code == 0, made.err);
      const json file = values_of(read_file(std::filesystem::path(out) / "sft.yaml"));
      CHECK(file.value("max_steps", json()) == 500);
      CHECK(file.value("learning_rate", json()) == 3e-5);
      CHECK(file.value("lr_scheduler_type", json()) == "constant");
      CHECK_FALSE(file.contains("warmup_steps"));  // which the script does not say
      CHECK(file.value("dataset_name", json()) != "trl-lib/Capybara");
      CHECK(made.err.find("learning_rate, lr_scheduler_type, max_steps") != std::string::npos);
      CHECK(made.err.find("left behind: dataset_name") != std::string::npos);
    }
}

TEST_CASE("a file for another trainer says in a comment what stayed behind, and --data replaces the user's data") {
  const test::ScratchFolder folder;
  const RoundTrip made = round_trip(folder, kLlamaFactory, "trl", "sft.yaml");
  CHECK(made.file.find("# Left behind of ") != std::string::npos);
  CHECK(made.file.find("template") != std::string::npos);  // in the comment
  // both take transformers' arguments, which stay
  CHECK(values_of(made.file).value("learning_rate", json()) == 1e-4);
  CHECK(values_of(made.file).value("warmup_steps", json()) == 0.1);
  CHECK(made.exported.err.find("are left behind") != std::string::npos);
  const std::string data = folder.write("rows.jsonl", "{\"messages\": []}\n").string(),
                    out = (folder.path() / "other").string();
  const test::Ran other = test::run_line("export " + (folder.path() / "p.json").string() +
                                         " --for llama-factory --data " + data + " --output " + out);
  CHECK_MESSAGE(other.code == 0, other.err);
  const json after = values_of(read_file(folder.path() / "other" / "llamafactory.yaml"));
  CHECK(after.value("dataset", json()) == "train");
  CHECK(after.value("save_steps", json()) == 500);
}

TEST_CASE("the fix that estimate names for a file whose method a flag says has the flag, and runs") {
  const test::ScratchFolder folder;
  const std::string file = folder
                               .write("dpo.yaml",
                                      "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 4\n"
                                      "gradient_accumulation_steps: 4\nmax_length: 2048\nuse_peft: true\n"
                                      "gradient_checkpointing: false\nbf16: true\ndtype: bfloat16\nbeta: 0.3\n")
                               .string();
  const test::Ran asked = test::run_line("estimate --from " + file + " --method dpo --gpus 2x4090 --json");
  CHECK_MESSAGE(asked.out.find("gpuplan fix " + file + " --method dpo --gpus 2x4090") != std::string::npos, asked.out);
  const test::Ran mended = test::run_line("fix " + file + " --method dpo --gpus 2x4090");
  CHECK_MESSAGE(mended.code < 2, mended.err);
}

TEST_CASE("a saved plan keeps the tokens that fill a micro batch") {
  const test::ScratchFolder folder;
  const std::string script =
      folder
          .write("verl.sh",
                 "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 "
                 "data.max_prompt_length=1024 data.max_response_length=1024 "
                 "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B actor_rollout_ref.actor.ppo_mini_batch_size=256 "
                 "actor_rollout_ref.actor.use_dynamic_bsz=True "
                 "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=3000 actor_rollout_ref.rollout.name=vllm "
                 "actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=8 trainer.nnodes=1\n")
          .string();
  const std::string plan = (folder.path() / "p.json").string();
  const test::Ran saved = test::run_line(
      "estimate --from " + script + " --gpus 8xH100 --prompt-len 104,1024 --completion-len 308,1024 --save " + plan);
  CHECK_MESSAGE(saved.code == 0, saved.err);
  CHECK(saved.out.find("micro batch of up to 3,000 tokens, 7 rows on average") != std::string::npos);
  CHECK(json::parse(read_file(plan))["options"]["step_tokens"] == 3000);
  CHECK(test::run_line("estimate " + plan).out.find("up to 3,000 tokens, 7 rows") != std::string::npos);
}

TEST_CASE(
    "sequences keep the length of the user's file where the longest row made the plan's shorter, unless it was asked "
    "for") {
  const test::ScratchFolder folder;
  folder.write("pairs.jsonl", "{\"prompt\": \"a b\", \"chosen\": \"c d e\", \"rejected\": \"f\"}\n");
  const std::string dpo =
      "base_model: NousResearch/Llama-3.2-1B\nrl: dpo\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: "
      "true\n"
      "sequence_len: 4096\nsample_packing: false\ndatasets:\n  - path: pairs.jsonl\n    type: chatml.intel\n"
      "micro_batch_size: 1\ngradient_accumulation_steps: 1\nnum_epochs: 1\noptimizer: adamw_torch\nbf16: true\n";
  const RoundTrip made = round_trip(folder, dpo, "axolotl", "axolotl.yaml");
  CHECK(json::parse(made.plan)["recipe"]["seq_len"] == 128);  // 5 tokens and 64 of a template, in whole 64s
  CHECK(values_of(made.file)["sequence_len"] == 4096);
  // the data lies beside the user's file, and the launcher runs in the folder that is written
  CHECK(values_of(made.file)["datasets"][0]["path"] == "../pairs.jsonl");
  CHECK(made.exported.err.find("pairs.jsonl is named ../pairs.jsonl") != std::string::npos);
  // another trainer's export leaves the file's data behind, and says nothing of a path that it has not
  const test::Ran away = test::run_line("export " + (folder.path() / "p.json").string() + " --for llama-factory" +
                                        " --output " + (folder.path() / "away").string());
  CHECK_MESSAGE(away.code == 0, away.err);
  CHECK(away.err.find("is named") == std::string::npos);
  const std::string plan = (folder.path() / "p.json").string(), shorter = (folder.path() / "q.json").string(),
                    out = (folder.path() / "asked").string();
  CHECK(test::run_line("estimate " + plan + " --seq-len 64 --save " + shorter).code == 0);
  CHECK(test::run_line("export " + shorter + " --for axolotl --output " + out).code == 0);
  CHECK(values_of(read_file(folder.path() / "asked" / "axolotl.yaml"))["sequence_len"] == 64);
}

TEST_CASE("one screen has one figure of a training whose rows are counted, and none of tokens that no row has") {
  const test::ScratchFolder folder;
  std::string rows;
  for (int i = 0; i < 60; ++i) rows += "{\"prompt\": \"a b\", \"chosen\": \"c d e\", \"rejected\": \"f\"}\n";
  const std::string data = folder.write("pairs.jsonl", rows).string();
  const std::string file =
      folder
          .write(
              "dpo.yaml",
              "base_model: NousResearch/Llama-3.2-1B\nrl: dpo\nadapter: lora\nlora_r: 8\nlora_alpha: "
              "16\nlora_target_linear: true\n"
              "sequence_len: 65536\nsample_packing: false\ndatasets:\n  - path: pairs.jsonl\n    type: chatml.intel\n"
              "micro_batch_size: 2\ngradient_accumulation_steps: 4\nnum_epochs: 1\noptimizer: adamw_torch\n"
              "warmup_steps: 10\nbf16: true\ngradient_checkpointing: true\n")
          .string();
  for (const std::string& extra : {std::string(), " --data " + data}) {
    CAPTURE(extra);
    const test::Ran json_answer = test::run_line("estimate --from " + file + " --gpus 2x3090 --json" + extra);
    const json answer = json::parse(json_answer.out);
    CHECK(json_answer.code == 0);  // 65,536 tokens would not fit
    if (extra.empty()) continue;
    const json& shown = answer["strategies"][0];
    for (const json& way : answer["rows"]["ways"])
      if (way["packing"] == "dynamic") {
        CHECK(way["process_bytes"] == shown["process_bytes"]);
        CHECK(way["tokens_per_second"] == shown["tokens_per_second"]);
      }
  }
  const test::Ran text = test::run_line("estimate --from " + file + " --gpus 2x3090");
  CHECK(text.out.find("up to 128 tokens") != std::string::npos);
  CHECK(text.out.find("65,536 are") != std::string::npos);
  // 60 pairs, 16 a step: 4 steps
  const test::Ran whole = test::run_line("estimate --from " + file + " --gpus 2x3090 --explain");
  CHECK(whole.out.find("4 optimizer steps in all") != std::string::npos);
  const test::Ran fixed = test::run_line("fix " + file + " --gpus 2x3090");
  CHECK(fixed.code == 0);
  CHECK(fixed.out.find("Nothing needs to change") != std::string::npos);
  CHECK(fixed.out.find("4 optimizer steps in all") != std::string::npos);
}

// Trainers' files are read as their programs read them, in small files of each kind. The programs' own example files
// are asked about by tests/files.
#include <doctest/doctest.h>

#include "config_texts.h"
#include "ecosystem/key_table.h"
#include "ecosystem/module_targets.h"
#include "ecosystem/shipped_files.h"
#include "models/catalogue.h"

namespace gpuplan {

using namespace test;

namespace {

/// A value that a row may stand with: the first of its own, else one of its fact's type.
nlohmann::json sample_of(const KeyRow& row) {
  if (!row.values.empty()) return row.values.front().first;
  if (!row.field || std::holds_alternative<Setup::Word Setup::*>(row.field->member)) return "word";
  if (std::holds_alternative<Setup::Flag Setup::*>(row.field->member)) return true;
  if (std::holds_alternative<Setup::Words Setup::*>(row.field->member)) return nlohmann::json::array({"word"});
  return 1;
}

/// A file of the table's format with one more key at "a.b"; "a.*" is {"a": {"any": value}}.
std::string file_with(const KeyTable& table, std::string key, const nlohmann::json& value) {
  nlohmann::json file;
  const auto put = [&](std::string path, const nlohmann::json& what) {
    if (path.ends_with(".*")) path.replace(path.size() - 1, 1, "any");
    std::replace(path.begin(), path.end(), '.', '/');
    file[nlohmann::json::json_pointer("/" + path)] = what;
  };
  // a sign whose value may be any text, else one with a value of its own
  const auto is_row = [&](const std::string& sign) { return table.find(sign) != nullptr; };
  const auto is_text = [&](const std::string& sign) {
    return is_row(sign) && table.find(sign)->use == KeyUse::Ignored;
  };
  auto sign = std::ranges::find_if(table.signs, is_text);
  if (sign == table.signs.end()) sign = std::ranges::find_if(table.signs, is_row);
  if (sign != table.signs.end()) put(*sign, is_text(*sign) ? nlohmann::json("word") : sample_of(*table.find(*sign)));
  put(std::move(key), value);
  return file.dump();
}

}  // namespace

TEST_CASE("every key of every table is used, said to be without effect, or refused with the reason") {
  int num_keys = 0;
  for (const KeyTable& table : key_tables()) {
    if (table.signs.empty()) continue;  // of scripts, which no file is recognised by
    for (const KeyRow& row : table.rows) {
      CAPTURE(table.name);
      CAPTURE(row.key);
      ++num_keys;
      const nlohmann::json value = row.use == KeyUse::Refused ? nlohmann::json("unlikely") : sample_of(row);
      std::string error, notes;
      try {
        for (const std::string& note : reading_of({file_with(table, row.key, value)}).notes) notes += note + "\n";
      } catch (const InputError& problem) { error = problem.what(); }
      CHECK_FALSE(contains(notes + error, "not known to gpuplan"));
      CHECK_FALSE(contains(error, "unknown key"));
      if (row.use == KeyUse::Refused) CHECK(contains(error, row.reason));
      if (row.use == KeyUse::Ignored && error.empty()) CHECK(contains(notes, row.reason));
    }
  }
  CHECK(num_keys > 2000);
}

TEST_CASE("DeepSpeed's settings stand inside a trainer's file, as a mapping or as JSON in a text") {
  const std::string trl = std::string(kTrlLora);
  for (const char* settings :
       {"deepspeed: {zero_optimization: {stage: 3, offload_param: {device: cpu}}}\n",
        "deepspeed: '{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}'\n"}) {
    const ConfigReading reading = reading_of({trl + settings});
    CHECK(reading.request.strategy == "zero3");
    CHECK(reading.request.recipe.offload.params == OffloadTarget::Cpu);
  }
  CHECK(contains(error_of({trl + "deepspeed: {zero_optimization: {stage: 4}}\n"}), "no stage 4"));
}

TEST_CASE("DeepSpeed's old cpu_offload is an offloaded optimizer") {
  const ConfigReading reading = reading_of({"{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}"});
  CHECK(reading.request.recipe.offload.optimizer == OffloadTarget::Cpu);
  CHECK(has_note(reading, "cpu_offload"));
}

TEST_CASE("files that trainers ship need not be there, and the answer names their source") {
  const ConfigReading reading =
      reading_of({"base_model: a\nsequence_len: 64\ndeepspeed: deepspeed_configs/zero3_bf16_cpuoffload_params.json\n"});
  CHECK(reading.request.strategy == "zero3");
  CHECK(reading.request.recipe.offload.params == OffloadTarget::Cpu);
  CHECK(has_note(reading, "taken as axolotl configuration ships it (axolotl-ai-cloud/axolotl"));
  const ConfigReading swift = reading_of({"model: a\ntuner_type: lora\ndeepspeed: zero2_offload\n"});
  CHECK(swift.request.strategy == "zero2");
  CHECK(swift.request.recipe.offload.optimizer == OffloadTarget::Cpu);
  // the same name in a file of another program is its own
  CHECK(contains(error_of({std::string(kTrl) + "deepspeed: zero3.json\n"}), "which is not there"));
  for (const ShippedFile& file : shipped_files()) {
    CAPTURE(file.stem);
    const std::string format = file.format.substr(0, file.format.find(" file"));
    CHECK(find_key_table(format));
    CHECK(error_of({file.text}).empty());
    CHECK_FALSE(file.source.empty());
  }
}

TEST_CASE("configurations that a command names and its program ships need not be there") {
  const auto script = [](const std::string& text) { return read_configs({{"train.sh", text}}, {}); };
  const ConfigReading trl = script(
      "accelerate launch --config_file examples/accelerate_configs/deepspeed_zero3.yaml --num_processes 4 "
      "trl/scripts/sft.py --model_name_or_path Qwen/Qwen3-8B --use_peft\n");
  CHECK(trl.request.strategy == "zero3");
  CHECK(trl.setup.num_processes == 4);
  CHECK(has_note(trl, "taken as it is shipped"));
  const ConfigReading tune = script(
      "tune run --nproc_per_node 2 lora_finetune_distributed --config llama3_1/8B_lora batch_size=4 "
      "model.lora_rank=32\n");
  CHECK(tune.request.recipe.micro_batch == 4);
  CHECK(tune.request.recipe.lora.rank == 32);
  CHECK(tune.request.recipe.method == Method::Lora);
}

TEST_CASE("a key that the program does not know stops it where it stops") {
  const std::string key = "per_device_train_batch_sise: 2\n";
  for (const auto& text : {std::string(kTrl), std::string("stage: sft\ncutoff_len: 64\n"),
                           std::string("tuner_type: lora\nmodel: a\n"), std::string("block_size: 64\n")}) {
    CAPTURE(text);
    CHECK(contains(error_of({text + key}), "unknown key"));
    CHECK(contains(error_of({text + key}), "per_device_train_batch_size"));
  }
  CHECK(has_note(reading_of({"base_model: a\nmicro_batch_sise: 2\n"}), "not known to gpuplan"));
}

TEST_CASE("a key without effect is said to have none") {
  const ConfigReading reading = reading_of({"stage: sft\ncutoff_len: 64\nquantization_type: nf4\n"});
  CHECK(reading.request.recipe.quant.kind == BaseQuant::None);
  CHECK(has_note(reading, "it has no effect without quantization_bit: quantization_type"));
  CHECK_FALSE(has_note(reading_of({"stage: sft\nquantization_bit: 4\nquantization_type: nf4\n"}), "no effect"));
}

TEST_CASE("LLaMA-Factory stores a 4-bit base in what it computes in: fp16 with one is stable") {
  const ConfigReading reading = reading_of({"stage: sft\nquantization_bit: 4\nfp16: true\n"});
  CHECK(reading.request.recipe.precision == Precision::Fp16Mixed);
  CHECK_FALSE(has_note(reading, "R14"));
}

TEST_CASE("axolotl shards 4- and 8-bit bases by FSDP2, and fills the mesh with copies") {
  const std::string base =
      "base_model: a\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nfsdp_version: 2\nfsdp_config: {reshard_after_forward: "
      "true}\n";
  CHECK(error_of({base + "load_in_8bit: true\n"}).empty());
  CHECK(contains(
      error_of(
          {"base_model: a\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nload_in_8bit: true\nfsdp_version: 1\nfsdp_config: "
           "{offload_params: false}\n"}),
      "[R03]"));
  ConfigReading reading = reading_of({base + "dp_shard_size: 2\n"});
  reading.request.cluster = parse_gpus("8xH100");
  std::vector<std::string> notes;
  settle_strategy(reading, reading.request, notes);
  CHECK(reading.request.strategy == "hsdp");
  CHECK(reading.request.options.shard_size == 2);
}

TEST_CASE("ms-swift, open-instruct, Unsloth Studio and LLaMA-Factory v1 say model, method and engine") {
  const ConfigReading swift =
      reading_of({"model: Qwen/Qwen2.5-7B\ntuner_type: full\nmax_length: 4096\nfsdp: fsdp2\nattn_impl: flash_attn\n"});
  CHECK(swift.request.recipe.method == Method::Full);
  CHECK(swift.request.strategy == "fsdp");
  CHECK(swift.request.options.fsdp_version == 2);
  CHECK(swift.request.recipe.attention == AttentionKernel::Flash);
  const ConfigReading instruct =
      reading_of({"model_name_or_path: a\nuse_lora: true\nuse_qlora: true\n"
                  "max_seq_length: 1024\nwith_tracking: true\n"});
  CHECK(instruct.request.recipe.method == Method::Qlora);
  CHECK(instruct.request.recipe.lora.rank == 64);
  const ConfigReading studio =
      reading_of({"training: {max_seq_length: 512, gradient_checkpointing: unsloth, "
                  "training_type: lora, load_in_4bit: true}\nlora: {lora_r: 8}\n"});
  CHECK(studio.request.recipe.method == Method::Qlora);
  CHECK(studio.request.recipe.offload.activations);
  CHECK(studio.request.recipe.framework->name == "unsloth");
  const std::string full = "training: {training_type: full, max_seq_length: 512, num_epochs: 1}\n";
  CHECK(reading_of({full}).request.recipe.method == Method::Full);
  CHECK(reading_of({"training: {max_seq_length: 512, num_epochs: 1}\n"}).request.recipe.method == Method::Qlora);
  const ConfigReading v1 =
      reading_of({"model: a\nmodel_class: llm\npeft_config: {name: lora, r: 16}\n"
                  "quant_config: {name: bnb, quantization_bit: 4}\ndist_config: {name: fsdp2}\n"});
  CHECK(v1.request.recipe.method == Method::Qlora);
  CHECK(v1.request.strategy == "fsdp");
}

TEST_CASE("what is counted as something alike is said") {
  const std::string axolotl = "base_model: a\n";
  CHECK(has_note(reading_of({axolotl + "attn_implementation: flex_attention\n"}), "flex attention is counted as sdpa"));
  CHECK(has_note(reading_of({axolotl + "optimizer: adamw_torch_4bit\n"}), "4-bit AdamW is counted as an 8-bit one"));
}

TEST_CASE("PEFT takes names that no module has beside others: they are left out with a note") {
  EstimateRequest request{.model = load_model("qwen2.5-0.5b").spec};
  request.recipe.method = Method::Lora;
  std::vector<std::string> notes;
  request.recipe.lora.targets = {"self_attn.q_proj", "query_key_value"};
  settle_targets(request, notes);
  CHECK(request.recipe.lora.targets == std::vector<std::string>{"self_attn.q_proj"});
  REQUIRE(notes.size() == 1);
  CHECK(contains(notes.front(), "query_key_value"));
  request.recipe.lora.targets = {"query_key_value"};
  settle_targets(request, notes);
  CHECK(request.recipe.lora.targets == std::vector<std::string>{"query_key_value"});
}

TEST_CASE("a file with DeepSpeed's own section is DeepSpeed's, whatever key of another program stands in it") {
  const ConfigReading r = reading_of({R"({"zero_optimization": {"stage": 3}, "flash_attention": false})"});
  CHECK(r.request.strategy == "zero3");
  CHECK(has_note(r, "flash_attention"));
}

TEST_CASE("a quantised base without adapters is refused with what the program makes of it") {
  const auto refused = [](const std::string& text, const char* why) { return contains(error_of({text}), why); };
  const std::string axolotl = "base_model: a/b\nsequence_len: 512\nload_in_4bit: true\n";
  CHECK(refused(axolotl, "load_in_4bit: axolotl stops at load_in_4bit and load_in_8bit without an adapter"));
  CHECK(refused(axolotl + "adapter:\n", "axolotl stops"));
  CHECK(reading_of({axolotl + "adapter: qlora\nlora_r: 8\nlora_alpha: 16\n"}).request.recipe.method == Method::Qlora);
  const std::string trl = "model_name_or_path: a/b\nmax_length: 512\nload_in_8bit: true\n";
  CHECK(refused(trl + "lora_r: 8\n", "load_in_8bit: without use_peft there are no adapters"));
  CHECK(reading_of({trl + "use_peft: true\n"}).request.recipe.method == Method::Lora);
  const std::string open_instruct =
      "model_name_or_path: a\nuse_qlora: true\ndataset_mixer_list: [a, \"1.0\"]\nmax_seq_length: 512\n";
  CHECK(refused(open_instruct, "use_qlora: without use_lora finetune.py trains embedding, head and norms"));
  CHECK(reading_of({open_instruct + "use_lora: true\n"}).request.recipe.method == Method::Qlora);
  const std::string llama_factory =
      "model_name_or_path: a/b\nstage: sft\ncutoff_len: 512\nquantization_bit: 4\nfinetuning_type: ";
  CHECK(refused(llama_factory + "full\n", "quantization_bit: LLaMA-Factory stops at quantization_bit"));
  CHECK(reading_of({llama_factory + "lora\n"}).request.recipe.method == Method::Qlora);
  CHECK(refused("model: a/b\ntuner_type: full\nmax_length: 512\nquant_method: bnb\nquant_bits: 4\n",
                "quant_bits: with tuner_type full there are no adapters"));
}

TEST_CASE("a file that a trainer ships and that is not there is said with what brings it, and one of two is named") {
  const std::string axolotl =
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\n"
      "deepspeed: deepspeed_configs/zero3.json\n";
  const ConfigReading absent = reading_of({axolotl});
  CHECK(has_note(absent, "deepspeed_configs/zero3.json has to be there: axolotl fetch deepspeed_configs"));
  CHECK(contains(absent.stands_in, "axolotl fetch"));

  ConfigFile zero{"deepspeed_configs/zero3.json", R"({"zero_optimization": {"stage": 2}})"};
  const FindConfig find = [&](const std::string&, const std::string&) { return std::optional(zero); };
  const ConfigReading one = read_configs({{"jobs/a.yaml", axolotl}}, find);
  CHECK(one.stands_in.empty());
  CHECK_FALSE(has_note(one, "current folder"));
  zero.other = "jobs/deepspeed_configs/zero3.json";
  CHECK(has_note(
      read_configs({{"jobs/a.yaml", axolotl}}, find),
      "that of the current folder is read, as the trainer opens it, and not jobs/deepspeed_configs/zero3.json"));
}

}  // namespace gpuplan

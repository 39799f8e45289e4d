// Ways of training that trainers have beside full tuning and LoRA: other adapters, new layers, shifted attention,
// towers trained beside adapters, models of a file's own sizes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ecosystem/config_texts.h"
#include "ecosystem/module_targets.h"
#include "ecosystem/trained_parameters.h"
#include "ecosystem/usual_targets.h"
#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/hf_config.h"
#include "models/trained_model.h"
#include "models/training_method.h"

namespace gpuplan::tuners {

using namespace test;

namespace {

std::string swift(const std::string& flags) {
  return "swift sft --model a --max_length 512 --per_device_train_batch_size 1 " + flags + "\n";
}

ConfigReading read(const std::string& text) { return read_configs({{"train.sh", text}}, {}); }

/// The question of a script about a model of the catalogue.
EstimateRequest settled(const std::string& text, const char* model) {
  ConfigReading reading = read(text);
  EstimateRequest request = reading.request;
  request.model = load_model(model).spec;
  std::vector<std::string> notes;
  settle_attention(reading, request, notes);
  settle_vision(reading, request);
  settle_targets(request, notes);
  settle_trained(reading, request, notes);
  return request;
}

std::string refusal(const std::string& text, const char* model) {
  try {
    settled(text, model);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

std::int64_t trainable(const EstimateRequest& r) { return prepare(r.model, r.recipe, *r.recipe.framework).trainable; }

}  // namespace

// modelscope/ms-swift @46922151 counts the trained parameters of Qwen-7B in its page Benchmark.md.

TEST_CASE(
    "ms-swift's adapters: a bottleneck behind every MLP, as wide as adapter_length says, without LoRA's dropout") {
  CHECK(trainable(settled(swift("--tuner_type adapter"), "qwen-7b")) == 33'689'600);  // 33.6896M
  const EstimateRequest narrow = settled(swift("--train_type adapter --adapter_length 16"), "qwen-7b");
  CHECK(narrow.recipe.lora.rank == 16);
  CHECK(narrow.recipe.lora.dropout == 0);
  CHECK(contains(refusal(swift("--tuner_type adapter --adapter_act relu"), "qwen-7b"), "activation"));
}

TEST_CASE("LLaMA-Pro trains copies of layers alone: four between Qwen-7B's, 809.5826M parameters") {
  const EstimateRequest r = settled(swift("--tuner_type llamapro"), "qwen-7b");
  CHECK(r.model.num_hidden_layers == 36);
  CHECK(trainable(r) == 809'582'592);
  CHECK(settled(swift("--tuner_type llamapro --llamapro_num_new_blocks 8"), "qwen-7b").model.num_hidden_layers == 40);
  CHECK(contains(refusal(swift("--tuner_type llamapro --llamapro_num_new_blocks 5"), "qwen-7b"),
                 "5 new layers do not divide the 32"));
}

TEST_CASE("keys without a default that a trainer needs for adapters are asked for where they are missing") {
  // src/axolotl/utils/schemas/peft.py @067b021c8: lora_r and lora_alpha are None, which PEFT's LoraConfig does not take
  const std::string file = "base_model: a\nadapter: lora\nlora_target_linear: true\n";
  CHECK(contains(error_of({file}), "lora_r and lora_alpha: not stated, without a default"));
  CHECK(contains(error_of({file + "lora_r: 16\n"}), "lora_alpha: not stated"));
  CHECK(error_of({file + "lora_r: 16\nlora_alpha: 32\n"}).empty());
  CHECK(error_of({file + "lora_model_dir: out\n"}).empty());  // of adapters that are there
  CHECK(error_of({"base_model: a\nmicro_batch_size: 1\n"}).empty());
}

TEST_CASE("ms-swift's ReFT is LoReFT of four directions, or of as many as reft_rank says") {
  CHECK(trainable(settled(swift("--tuner_type reft"), "qwen2.5-7b")) == 28 * (2 * 4 * 3584 + 4));
  CHECK(settled(swift("--tuner_type reft --reft_rank 8"), "qwen2.5-7b").recipe.lora.rank == 8);
  CHECK(contains(refusal(swift("--tuner_type reft --reft_intervention_type NodireftIntervention"), "qwen2.5-7b"),
                 "reft_intervention_type"));
  CHECK(settled(swift("--tuner_type bone"), "qwen2.5-7b").recipe.lora.rank == 4);
}

TEST_CASE("LongLoRA divides the attention of Llama in four; ms-swift stops at others, LLaMA-Factory trains without") {
  CHECK(settled(swift("--tuner_type longlora"), "llama-3.1-8b").recipe.attention_groups == 4);
  CHECK(contains(refusal(swift("--tuner_type longlora"), "qwen2.5-7b"), "of models of type llama alone"));
  const std::string factory = "model_name_or_path: a\nstage: sft\ncutoff_len: 512\nfinetuning_type: lora\nshift_attn: ";
  const auto groups = [&](const char* shift, const char* model) {
    const ConfigReading reading = reading_of({factory + shift + "\n"});
    EstimateRequest request = reading.request;
    request.model = load_model(model).spec;
    std::vector<std::string> notes;
    settle_attention(reading, request, notes);
    return request.recipe.attention_groups;
  };
  CHECK(groups("true", "llama-3.1-8b") == 4);
  CHECK(groups("false", "llama-3.1-8b") == 1);
  CHECK(groups("true", "qwen2.5-7b") == 1);
}

TEST_CASE("without target_modules PEFT adapts its own targets for the model's type and the kind of adapters") {
  // huggingface/peft src/peft/utils/constants.py @v0.20.0
  const auto targets = [](const char* model, std::vector<std::string>* notes = nullptr) {
    EstimateRequest request = reading_of({"model_name_or_path: a\nuse_peft: true\nmax_length: 512\n"}).request;
    request.model = load_model(model).spec;
    std::vector<std::string> own;
    settle_targets(request, notes ? *notes : own);
    return request.recipe.lora.targets;
  };
  using Words = std::vector<std::string>;
  CHECK(targets("qwen2.5-7b") == Words{"q_proj", "v_proj"});
  CHECK(targets("phi-2") == Words{"q_proj", "v_proj", "fc1", "fc2"});
  CHECK(targets("falcon-7b") == Words{"query_key_value"});
  Words notes;
  CHECK(targets("qwen3-30b-a3b", &notes) == Words{"q_proj", "v_proj"});
  CHECK(contains(notes.front(), "PEFT has no targets of its own for models of type qwen3_moe"));
  CHECK(usual_targets(find_adapter_kind("ia3"), "roberta") == Words{"key", "value", "output.dense"});
  CHECK(usual_targets(find_adapter_kind("ia3"), "qwen2") == Words{"q_proj", "v_proj", "down_proj"});
  CHECK(usual_targets(find_adapter_kind("vera"), "phi") == Words{"q_proj", "v_proj"});
  CHECK(usual_targets(find_adapter_kind("oft"), "phi") == Words{"q_proj", "v_proj", "fc1", "fc2"});
}

TEST_CASE("Q-GaLore of ms-swift is GaLore with moments in 8 bit") {
  const auto optimizer = [](const char* flags) {
    return read(swift(std::string("--tuner_type full --use_galore true ") + flags)).request.recipe.optimizer->name;
  };
  CHECK(optimizer("--galore_quantization true") == "galore-adamw-8bit");
  CHECK(optimizer("") == "galore-adamw");
}

TEST_CASE("ms-swift's lora_llm trains the tower whole beside adapters of the language model") {
  const EstimateRequest r = settled(swift("--tuner_type lora_llm --freeze_vit false"), "qwen2.5-vl-7b");
  CHECK(r.recipe.images.train == TrainVision::Whole);
  CHECK(trainable(r) > 676'550'144);
  CHECK(contains(refusal(swift("--tuner_type lora_llm"), "qwen2.5-7b"), "has no vision tower"));
}

TEST_CASE("PEFT's variants with values or blocks between LoRA's factors") {
  const auto peft = [](const std::string& keys) {
    return reading_of({"peft_type: LORA\nr: 8\ntarget_modules: [q_proj]\n" + keys}).request.recipe.lora;
  };
  CHECK(peft("kasa_config:\n  beta: 0.0001\n  gamma: 0.001\n").kind->name == "kasa");
  const LoraSpec blocks = peft(
      "use_bdlora:\n  target_modules_bd_a: [o_proj]\n  target_modules_bd_b: [q_proj]\n"
      "  nblocks: 2\n");
  CHECK(blocks.kind->name == "bdlora");
  CHECK(blocks.factor == 2);
  CHECK_THROWS_WITH_AS(peft("use_bdlora:\n  target_modules_bd_a: [q_proj]\n  nblocks: 2\n"),
                       doctest::Contains("block-diagonal factors A of q_proj"), InputError);
}

TEST_CASE("a model of torchtune of a file's own sizes has the layers of its builder") {
  const std::string sizes =
      "tokenizer:\n  _component_: torchtune.models.llama2.llama2_tokenizer\ncheckpointer:\n  _component_: x\n"
      "model:\n  _component_: torchtune.models.llama2.llama2\n  vocab_size: 32000\n  num_layers: 22\n  num_heads: 32\n"
      "  num_kv_heads: 4\n  embed_dim: 2048\n  max_seq_len: 2048\n  norm_eps: 1e-05\n";
  const ConfigReading reading = reading_of({sizes});
  REQUIRE(!reading.model_config.empty());
  const ModelSpec spec = parse_hf_config(nlohmann::json::parse(reading.model_config), "x.yaml");
  CHECK(list_weights(spec).total_elements() == *load_model("tinyllama-1.1b").spec.recorded_parameters);
  CHECK_THROWS_WITH_AS(reading_of({sizes.substr(0, sizes.find("  num_heads"))}), doctest::Contains("model.embed_dim"),
                       InputError);
}

TEST_CASE("axolotl's QAT of onebitllms, and attention by BetterTransformer, which is torch's") {
  const std::string axolotl = "base_model: a\nmicro_batch_size: 1\nsequence_len: 512\n";
  CHECK(reading_of({axolotl + "use_onebitllms: true\n"}).request.recipe.qat == Qat::Bitnet);
  CHECK(reading_of({axolotl + "flash_optimum: true\n"}).request.recipe.attention == AttentionKernel::Sdpa);
  CHECK_THROWS_WITH_AS(reading_of({axolotl + "s2_attention: true\n"}), doctest::Contains("no longer"), InputError);
}

TEST_CASE(
    "axolotl's plugins: cut cross-entropy is on with its own, and keys of a plugin that is not listed do nothing") {
  const std::string axolotl = "base_model: a\nmicro_batch_size: 1\nsequence_len: 512\n";
  const std::string cut = axolotl + "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  const std::string liger = axolotl + "plugins: [axolotl.integrations.liger.LigerPlugin]\n";
  const auto loss = [](const std::string& text) { return reading_of({text}).request.recipe.loss; };
  CHECK(loss(cut) == LossKernel::Fused);
  CHECK(loss(cut + "cut_cross_entropy: true\n") == LossKernel::Fused);
  CHECK(loss(cut + "cut_cross_entropy: false\n") == LossKernel::Plain);
  CHECK(loss(axolotl + "cut_cross_entropy: true\n") == LossKernel::Plain);
  CHECK(loss(liger) == LossKernel::Plain);
  CHECK(loss(liger + "liger_fused_linear_cross_entropy: true\n") == LossKernel::Fused);
  CHECK(loss(axolotl + "liger_fused_linear_cross_entropy: true\n") == LossKernel::Plain);
  CHECK_THROWS_WITH_AS(loss(cut + "chunked_cross_entropy: true\n"), doctest::Contains("says otherwise"), InputError);
}

TEST_CASE("an adapter's task of another head is the objective that has it") {
  const auto method = [](const std::string& task) {
    const std::string script =
        "from peft import LoraConfig, get_peft_model\nfrom transformers import Trainer, TrainingArguments\n"
        "model = BertForSequenceClassification.from_pretrained('a')\n"
        "model = get_peft_model(model, LoraConfig(r=8, target_modules=['q_proj'], task_type=" +
        task + "))\nargs = TrainingArguments(output_dir='o', per_device_train_batch_size=1)\n" +
        "Trainer(model=model, args=args).train()\n";
    return read_configs({{"train.py", script}}, {}).request.recipe.objective.method->name;
  };
  CHECK(method("'SEQ_CLS'") == "classify");
  CHECK(method("TaskType.SEQ_CLS") == "classify");
}

namespace {

/// Holds what a script says of its adapters by one call of PEFT.
LoraSpec adapters_of(const std::string& call) {
  const std::string script =
      "from peft import *\nfrom transformers import Trainer, TrainingArguments\n"
      "model = AutoModelForCausalLM.from_pretrained('a')\nmodel = get_peft_model(model, " +
      call + ")\nargs = TrainingArguments(output_dir='o', per_device_train_batch_size=1)\n" +
      "Trainer(model=model, args=args).train()\n";
  return read_configs({{"train.py", script}}, {}).request.recipe.lora;
}

}  // namespace

TEST_CASE("PEFT's calls of other kinds of adapters: their numbers, and theirs where a call says none") {
  const LoraSpec bases = adapters_of("RandLoraConfig(r=16, randlora_dropout=0.05, target_modules=['q_proj'])");
  CHECK(bases.kind->name == "randlora");
  CHECK(bases.rank == 16);
  CHECK(bases.dropout == 0.05);
  CHECK(adapters_of("RandLoraConfig()").rank == 32);
  const LoraSpec bank = adapters_of("VBLoRAConfig(r=2, num_vectors=90, vector_length=128, topk=2)");
  CHECK(bank.rank == 2);
  CHECK(bank.rotation_block == 128);
  CHECK(bank.factor == 90);
  CHECK(adapters_of("FourierFTConfig(n_frequency=3000)").factor == 3000);
  CHECK(adapters_of("RoadConfig(variant='road_4')").factor == 4);
  CHECK(adapters_of("RoadConfig()").kind->name == "road");
  CHECK(adapters_of("MultitaskPromptTuningConfig(num_virtual_tokens=50, num_tasks=2)").rank == 50);
  CHECK(adapters_of("TinyLoraConfig(u=32)").factor == 32);
  CHECK(adapters_of("TinyLoraConfig()").rank == 2);
  CHECK_THROWS_WITH_AS(adapters_of("TinyLoraConfig(weight_tying=0.5)"), doctest::Contains("weight_tying"), InputError);
  CHECK_THROWS_WITH_AS(adapters_of("HRAConfig(r=8)"), doctest::Contains("HRA, which is not modelled: the weight"),
                       InputError);
  CHECK_THROWS_WITH_AS(adapters_of("PrefixTuningConfig(num_virtual_tokens=20)"), doctest::Contains("keys and values"),
                       InputError);
  CHECK_THROWS_WITH_AS(adapters_of("LilyConfig(stride_A=4)"), doctest::Contains("Lily with A of several layers"),
                       InputError);
  CHECK_THROWS_WITH_AS(adapters_of("WaveFTConfig(use_idwt=False)"), doctest::Contains("use_idwt"), InputError);
  CHECK_THROWS_WITH_AS(adapters_of("OFTConfig(use_cayley_neumann=False)"), doctest::Contains("solved for"), InputError);
  CHECK_THROWS_WITH_AS(adapters_of("VBLoRAConfig(topk=4)"), doctest::Contains("two vectors"), InputError);
}

TEST_CASE("scripts: layers, biases, ranks and modules that a call of PEFT or Unsloth chooses are used or refused") {
  const auto error = [](const std::string& arguments) -> std::string {
    try {
      adapters_of("LoraConfig(r=8, " + arguments + ")");
    } catch (const InputError& of) { return of.what(); }
    return "";
  };
  CHECK(
      error("bias='none', layers_to_transform=None, rank_pattern={}, exclude_modules=None, use_qalora=False").empty());
  CHECK(contains(error("bias='all'"), "trained biases"));
  CHECK(contains(error("rank_pattern={'q_proj': 16}"), "ranks that differ"));
  CHECK(contains(error("exclude_modules=['lm_head']"), "left out by name"));
  CHECK(contains(error("trainable_token_indices=[1, 2]"), "rows of the embedding"));
  CHECK(contains(error("layers_to_transform=chosen['layers']"), "depends on chosen[...], which the script does not"));
  const auto unsloth = [](const std::string& arguments) {
    return read_configs(
        {{"train.py",
          "from unsloth import FastLanguageModel\n"
          "model, t = FastLanguageModel.from_pretrained('a', 512, None, False)\n"
          "model = FastLanguageModel.get_peft_model(model, r=8, " +
              arguments + ")\nSFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=1))\n"}},
        {});
  };
  CHECK(unsloth("layers_to_transform=[2, 3]").setup.adapted_layers == std::vector<std::int64_t>{2, 3});
  CHECK_NOTHROW(unsloth("bias='none', finetune_mlp_modules=True"));
  CHECK_THROWS_WITH_AS(unsloth("finetune_mlp_modules=False"), doctest::Contains("kinds of layers"), InputError);
}

TEST_CASE("adapter_config.json of other kinds, and ms-swift's FourierFT") {
  const auto peft = [](const std::string& keys) {
    return reading_of({"base_model_name_or_path: a\n" + keys}).request.recipe.lora;
  };
  CHECK(peft("peft_type: FOURIERFT\nn_frequency: 500\ntarget_modules: [q_proj]\n").factor == 500);
  CHECK(peft("peft_type: C3A\nblock_size: 128\ntarget_modules: [q_proj]\n").rotation_block == 128);
  CHECK(peft("peft_type: LILY\nr: 16\nnum_B: 4\ntarget_modules: [q_proj]\n").factor == 4);
  CHECK(peft("peft_type: TINYLORA\nr: 4\nu: 16\nweight_tying: 0.0\ntarget_modules: [q_proj]\n").factor == 16);
  CHECK_THROWS_WITH_AS(peft("peft_type: GLORA\nr: 16\nconfig_A_B: vector\ntarget_modules: [q_proj]\n"),
                       doctest::Contains("low-rank"), InputError);
  CHECK(read(swift("--tuner_type fourierft")).request.recipe.lora.factor == 2000);
  CHECK_THROWS_WITH_AS(read(swift("--tuner_type fourierft --fourier_n_frequency 300")),
                       doctest::Contains("2,000 frequencies"), InputError);
}

}  // namespace gpuplan::tuners

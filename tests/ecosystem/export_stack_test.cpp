// Versions of other programs decide settings of exported files: fp8, classes that FSDP wraps, leaves of ZeRO-3,
// buffers for NVMe, and what is left to a script.
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/json_file.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/exported.h"
#include "ecosystem/field_flags.h"
#include "models/stack.h"

namespace gpuplan {

using namespace test;

namespace {

EstimateRequest fp8_plan(const std::string& strategy) {
  EstimateRequest plan = plan_of(strategy, Method::Full);
  plan.cluster = parse_gpus(strategy == "single" ? "1xH100" : "4xH100");
  plan.recipe.fp8_matmul = true;
  return plan;
}

std::string text_of(const ExportAnswer& answer, const char* file) {
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  REQUIRE(file_of(answer, file));
  return file_of(answer, file)->content;
}

}  // namespace

TEST_CASE("fp8 is the launcher's word to a Trainer, whose own bf16 would take its place") {
  for (const char* strategy : {"single", "ddp", "fsdp"}) {
    CAPTURE(strategy);
    for (const char* target : {"trl", "slurm", "skypilot", "kubeflow"}) {
      CAPTURE(target);
      const ExportAnswer answer = export_plan(fp8_plan(strategy), target, kMark);
      CHECK(has_text(text_of(answer, "accelerate.yaml"), "mixed_precision: fp8"));
      CHECK(has_text(text_of(answer, "sft.yaml"), "bf16: false"));
    }
    const ExportAnswer answer = export_plan(fp8_plan(strategy), "transformers", kMark);
    CHECK(has_text(text_of(answer, "training.json"), "\"bf16\": false"));
  }
  const ConfigReading reading = read_configs({{"sft.yaml", "max_length: 128\nuse_peft: false\nbf16: true\n"},
                                              {"a.yaml", "compute_environment: LOCAL_MACHINE\nmixed_precision: fp8\n"}},
                                             {});
  CHECK_FALSE(reading.request.recipe.fp8_matmul);
}

TEST_CASE(
    "a launcher's bf16 counts where the Trainer's own bf16 is off, and not under axolotl, which sets its variable") {
  const std::string launcher = "compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\n";
  const auto precision_of = [&](const std::string& trainer) {
    return read_configs({{"t.yaml", trainer}, {"a.yaml", launcher}}, {}).request.recipe.precision;
  };
  CHECK(precision_of("max_length: 128\nuse_peft: false\nbf16: false\ndtype: float32\n") == Precision::Bf16Mixed);
  CHECK(precision_of("base_model: m\nsequence_len: 128\nbf16: false\nfp16: false\n") == Precision::Fp32);
}

TEST_CASE("axolotl and LLaMA-Factory have a key for fp8, from a version on") {
  const ExportAnswer axolotl = export_plan(fp8_plan("zero2"), "axolotl", kMark);
  CHECK(has_text(text_of(axolotl, "axolotl.yaml"), "\nfp8: true"));
  CHECK(has_text(text_of(axolotl, "axolotl.yaml"), "\nbf16: true"));
  const Versions old = parse_versions("axolotl=0.8.0");
  CHECK(has_text(export_plan(fp8_plan("zero2"), "axolotl", kMark, old).refusal, "cannot say fp8_matmul true"));
  EstimateRequest plan = fp8_plan("ddp");
  plan.recipe.framework = "llama-factory";
  const ExportAnswer factory = export_plan(plan, "llama-factory", kMark);
  CHECK(has_text(text_of(factory, "llamafactory.yaml"), "\nfp8: true"));
  CHECK(has_text(text_of(factory, "llamafactory.yaml"), "\nbf16: false"));
  CHECK(has_text(text_of(factory, "launch.sh"), "export ACCELERATE_MIXED_PRECISION=fp8\n"));
}

TEST_CASE("under DeepSpeed a Trainer must say the bf16 of DeepSpeed's file, so that fp8 cannot be said") {
  for (const char* target : {"trl", "transformers", "llama-factory", "slurm"}) {
    CAPTURE(target);
    const ExportAnswer answer = export_plan(fp8_plan("zero2"), target, kMark);
    CHECK(has_text(answer.refusal, "cannot say fp8_matmul true"));
    CHECK(answer.nearest == "plan without --fp8");
  }
  const ExportAnswer answer = export_plan(fp8_plan("zero2"), "accelerate", kMark);
  CHECK(has_text(text_of(answer, "deepspeed.json"), "your script's: --full"));
  CHECK(has_text(text_of(answer, "accelerate.yaml"), "--fp8"));
  CHECK(has_text(answer.notes.back(), "--fp8"));
  // torchrun's variables say it, which accelerate refuses in its file beside DeepSpeed's
  CHECK(has_text(text_of(export_plan(fp8_plan("zero2"), "torchrun", kMark), "launch.sh"),
                 "export ACCELERATE_MIXED_PRECISION=fp8\n"));
}

TEST_CASE("FSDP wraps classes that the loaded model has: where transformers' own list has others, they are named") {
  // `not_there`: of that list, what the model on the meta device lacks (tests/clients)
  const nlohmann::json table = read_json_file(std::filesystem::path(GPUPLAN_TEST_DIR) / "models/meta_counts.json");
  int num_named = 0, num_wrong = 0;
  for (const auto& [name, by_version] : table.at("models").items())
    for (const auto& [version, row] : by_version.items()) {
      if (!row.contains("not_there")) continue;
      const ModelSpec model = load_model(name).spec;
      const auto facts = facts_for(stack_versions(parse_stack_versions("transformers=" + version), "trl"), "trl");
      const nlohmann::json* classes = fact(facts, "wrap_classes." + model.text_family, model.model_type);
      if (!classes) classes = fact(facts, "wrap_classes", model.model_type);
      CAPTURE(name);
      CAPTURE(version);
      num_wrong += !row.at("not_there").empty();
      CHECK((classes || row.at("not_there").empty()));
      if (!classes) continue;
      ++num_named;
      CHECK_FALSE(classes->empty());
      for (const nlohmann::json& missing : row.at("not_there"))
        CHECK(std::find(classes->begin(), classes->end(), missing) == classes->end());
    }
  CHECK(num_wrong >= 40);
  CHECK(num_named > num_wrong);
}

TEST_CASE("the named classes stand in the launcher's file and in its variables, and follow the versions") {
  EstimateRequest plan = plan_of("fsdp", Method::Lora);
  plan.model = load_model("gemma-3-4b-multimodal").spec;
  plan.recipe.packing = Packing::Padded;
  plan.recipe.images.train = TrainVision::All;
  CHECK(has_text(text_of(export_plan(plan, "trl", kMark), "accelerate.yaml"),
                 "fsdp_transformer_layer_cls_to_wrap: \"Gemma3DecoderLayer,SiglipEncoderLayer\""));
  CHECK(has_text(text_of(export_plan(plan, "torchrun", kMark), "launch.sh"),
                 "export FSDP_TRANSFORMER_CLS_TO_WRAP=Gemma3DecoderLayer,SiglipEncoderLayer\n"));
}

TEST_CASE("ZeRO-3 over experts as modules: the files make a layer's experts one leaf, or the export is refused") {
  EstimateRequest plan = plan_of("zero3", Method::Lora);
  plan.model = load_model("olmoe-1b-7b").spec;
  const auto answer_of = [&](const char* target, const char* versions) {
    return export_plan(plan, target, kMark, parse_versions(versions));
  };
  // transformers 5 keeps the experts of a layer in one parameter: nothing is hooked by itself
  CHECK_FALSE(has_text(text_of(export_plan(plan, "trl", kMark), "deepspeed.json"), "leaf_module"));
  const ExportAnswer config = answer_of("trl", "transformers=4.57,deepspeed=0.18");
  CHECK(nlohmann::json::parse(text_of(config, "deepspeed.json"))["zero_optimization"]["leaf_module"]["classes"] ==
        nlohmann::json{"OlmoeSparseMoeBlock"});
  CHECK_FALSE(has_text(text_of(config, "accelerate.yaml"), "moe_layer_cls_names"));
  const ExportAnswer flag = answer_of("trl", "transformers=4.57,deepspeed=0.17.6");
  CHECK(has_text(text_of(flag, "accelerate.yaml"), "deepspeed_moe_layer_cls_names: OlmoeSparseMoeBlock"));
  CHECK_FALSE(has_text(text_of(flag, "deepspeed.json"), "leaf_module"));
  CHECK(has_text(text_of(answer_of("torchrun", "transformers=4.57,deepspeed=0.17.6"), "launch.sh"),
                 "export ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES=OlmoeSparseMoeBlock\n"));
  EstimateRequest older = plan;  // versions of the plan count where the export names none
  older.recipe.framework = resolve_framework(
      "trl", {.given = parse_stack_versions("transformers=4.57.6,deepspeed=0.17.6"), .date = {}}, "olmoe");
  const ExportAnswer planned = export_plan(older, "trl", kMark);
  CHECK(has_text(text_of(planned, "accelerate.yaml"), "deepspeed_moe_layer_cls_names: OlmoeSparseMoeBlock"));
  CHECK_FALSE(has_text(text_of(planned, "deepspeed.json"), "leaf_module"));
  const ExportAnswer none = answer_of("deepspeed", "transformers=4.57,deepspeed=0.17.6");
  CHECK(has_text(none.refusal, "hook every expert of olmoe-1b-7b"));
  CHECK(has_text(none.nearest, "deepspeed=0.18"));
  plan.model = load_model("qwen3-30b-a3b").spec;  // DeepSpeed 0.18 makes it a leaf by itself
  CHECK_FALSE(has_text(text_of(answer_of("trl", "transformers=4.57,deepspeed=0.18"), "deepspeed.json"), "leaf_module"));
  CHECK(has_text(text_of(answer_of("trl", "transformers=4.57,deepspeed=0.17.6"), "accelerate.yaml"),
                 "deepspeed_moe_layer_cls_names: Qwen3MoeSparseMoeBlock"));
}

TEST_CASE("a buffer for weights on NVMe holds a rank's part of the largest parameter") {
  EstimateRequest plan =
      plan_of("zero3", Method::Full, {.optimizer = OffloadTarget::Nvme, .params = OffloadTarget::Nvme});
  plan.model = load_model("llama3-8b").spec;
  const auto buffer_of = [&] {
    const auto file = nlohmann::json::parse(text_of(export_plan(plan, "deepspeed", kMark), "deepspeed.json"));
    return file["zero_optimization"]["offload_param"]["buffer_size"].get<std::int64_t>();
  };
  CHECK(buffer_of() == 128256L * 4096 / 4);  // embedding and head are the largest
  plan.cluster = parse_gpus("3x4090");
  CHECK(buffer_of() == (128256L * 4096 + 2) / 3);  // DeepSpeed pads a parameter to equal parts
}

TEST_CASE("accelerate, DeepSpeed and torchrun: each setting that no file says is left to the script by its flag") {
  EstimateRequest plan = plan_of("fsdp", Method::Lora);
  plan.recipe.checkpointing = Checkpointing::Selective;
  plan.recipe.loss = LossKernel::Fused;
  plan.recipe.lora.rank = 24;
  for (const char* target : {"accelerate", "torchrun"}) {
    CAPTURE(target);
    const ExportAnswer answer = export_plan(plan, target, kMark);
    const std::string file = text_of(answer, std::string_view(target) == "torchrun" ? "launch.sh" : "accelerate.yaml");
    for (const char* flag :
         {"--lora r=24", "--checkpointing selective", "--loss fused", "--micro-batch 1", "--seq-len"}) {
      CHECK_MESSAGE(has_text(file, flag), flag);
      CHECK_MESSAGE(has_text(answer.notes.back(), flag), flag);
    }
  }
  plan = plan_of("ddp", Method::Full);
  plan.recipe.optimizer_in_backward = true;
  CHECK(has_text(export_plan(plan, "accelerate", kMark).notes.back(), "--optimizer-in-backward"));
}

TEST_CASE("FSDP checkpoints by itself where a script of one's own trains, but not with adapters' dropout under FSDP2") {
  EstimateRequest plan = plan_of("fsdp", Method::Lora);
  const auto launcher = [&](const char* target) {
    return text_of(export_plan(plan, target, kMark), "accelerate.yaml");
  };
  CHECK(has_text(launcher("accelerate"), "fsdp_activation_checkpointing: true"));
  CHECK_FALSE(has_text(launcher("accelerate"), "--checkpointing"));
  CHECK(has_text(launcher("trl"), "fsdp_activation_checkpointing: false"));  // gradient_checkpointing says it
  plan.recipe.lora.dropout = 0.1;
  CHECK(has_text(launcher("accelerate"), "fsdp_activation_checkpointing: false"));
  CHECK(has_text(launcher("accelerate"), "--checkpointing full"));
}

TEST_CASE("a checkpoint that is quantised is exported as its trainer takes it, or refused") {
  const auto answer = [](const char* model, const char* target) {
    EstimateRequest plan = plan_of("single", Method::Lora);
    plan.model = load_model(model).spec;
    settle_stack(plan);
    plan.model = load_model(model).spec;  // as a saved plan has it
    return export_plan(plan, target, kMark);
  };
  for (const char* target : {"trl", "axolotl", "llama-factory"})
    for (const char* model : {"unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4",
                              "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B-Instruct-AWQ"})
      CHECK_MESSAGE(!answer(model, target).is_refused(),
                    target << " " << model << ": " << answer(model, target).refusal);
  // axolotl's schemas/peft.py: "Can't load qlora if gptq"
  const std::string gptq = text_of(answer("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "axolotl"), "axolotl.yaml");
  CHECK(has_text(gptq, "gptq: true"));
  CHECK(has_text(gptq, "adapter: lora"));
  CHECK_FALSE(has_text(gptq, "load_in_4bit: true"));
  CHECK(has_text(answer("Qwen/Qwen3-8B-FP8", "trl").refusal, "no file of trl says that it is unpacked"));
  CHECK_FALSE(answer("Qwen/Qwen3-8B-FP8", "llama-factory").is_refused());
}

TEST_CASE("some parameters alone, and fake quantisers: axolotl's file says them") {
  EstimateRequest plan = plan_of("ddp", Method::Full);
  plan.model = load_model("llama-3.1-8b").spec;  // its head is a tensor of its own
  plan.recipe.trained = {"layers.1-2", "lm_head", "layers.4.mlp"};
  const ExportAnswer answer = export_plan(plan, "axolotl", kMark);
  CHECK_MESSAGE(!answer.is_refused(), answer.refusal);
  CHECK(has_text(text_of(answer, "axolotl.yaml"), "(.+.)?layers.(1|2)(.|$)"));
  plan.recipe.trained.clear();
  plan.recipe.qat = Qat::Int4Grouped;
  const ExportAnswer quantised = export_plan(plan, "axolotl", kMark);
  CHECK_MESSAGE(!quantised.is_refused(), quantised.refusal);
  CHECK(has_text(text_of(quantised, "axolotl.yaml"), "weight_dtype: int4"));
}

TEST_CASE("LLaMA-Factory's file says whole layers at an end, and modules outside of layers") {
  EstimateRequest plan = plan_of("ddp", Method::Full);
  plan.model = load_model("llama-3.1-8b").spec;
  plan.recipe.trained = {"layers.30-31", "lm_head"};
  const ExportAnswer last = export_plan(plan, "llama-factory", kMark);
  CHECK_MESSAGE(!last.is_refused(), last.refusal);
  for (const char* const line :
       {"finetuning_type: freeze\n", "freeze_trainable_layers: 2\n", "freeze_extra_modules: lm_head\n"})
    CHECK(has_text(text_of(last, "llamafactory.yaml"), line));
  plan.recipe.trained = {"layers.0-2"};
  CHECK(has_text(text_of(export_plan(plan, "llama-factory", kMark), "llamafactory.yaml"),
                 "freeze_trainable_layers: -3\n"));
  plan.recipe.trained_in_turn = true;
  CHECK(export_plan(plan, "llama-factory", kMark).is_refused());
}

TEST_CASE("some parameters alone, and fake quantisers: trainers' files are refused, and scripts are told") {
  EstimateRequest plan = plan_of("ddp", Method::Full);
  ExportAnswer answer;
  for (const char* const target : {"trl", "llama-factory"}) {
    CAPTURE(target);
    plan = plan_of("ddp", Method::Full);
    plan.recipe.trained = {"layers.1"};
    answer = export_plan(plan, target, kMark);
    CHECK(has_text(answer.refusal, "cannot say trained"));
    CHECK(answer.nearest == "plan without --train-only");
    plan.recipe.trained.clear();
    plan.recipe.qat = Qat::Int8Int4;
    answer = export_plan(plan, target, kMark);
    CHECK(has_text(answer.refusal, "cannot say qat int8-int4"));
    CHECK(answer.nearest == "plan without --qat");
  }
  plan.recipe.trained = {"layers.1"};
  for (const char* const target : {"accelerate", "torchrun"})
    CHECK(has_text(fmt::format("{}", fmt::join(export_plan(plan, target, kMark).notes, " ")), "--train-only layers.1"));
}

TEST_CASE("Slurm's job asks for twice the time of the plan's rows and half an hour, and says when they are assumed") {
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  const auto hours_of = [](const EstimateRequest& r) {
    const std::string text = text_of(export_plan(r, "slurm", kMark), "job.sbatch"), key = "#SBATCH --time=";
    const std::size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    CHECK(has_text(text, "# --time: "));
    CHECK(text.substr(text.find(':', at), 6) == ":00:00");
    CHECK(!has_text(text, "--signal"));  // of which nothing in the job knows
    CHECK(has_text(text, "assumed rows") == (r.dataset.rows == Dataset{}.rows && r.dataset.tokens_per_row == 0));
    return std::stoi(text.substr(at + key.size()));
  };
  const int assumed = hours_of(plan);
  plan.dataset.tokens_per_row = plan.recipe.seq_len;  // as is assumed
  CHECK(hours_of(plan) == assumed);
  plan.dataset.rows = 1;
  CHECK(hours_of(plan) == 1);
  plan.dataset.rows = 10'000'000;
  const int many = hours_of(plan);
  plan.dataset.rows = 20'000'000;  // twice as long, but for half an hour and what is rounded up
  CHECK(many > 24);
  CHECK(std::abs(hours_of(plan) - 2 * many) <= 2);
}

}  // namespace gpuplan

#include "ecosystem/export.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/emit.h"
#include "ecosystem/exported.h"
#include "ecosystem/key_table.h"
#include "ecosystem/rules.h"
#include "ecosystem/versions.h"
#include "hostile_names.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"
#include "planner/strategy_estimate.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace gpuplan {

using namespace test;

namespace {

/// What estimate --from makes of the files, on the plan's machines.
EstimateRequest read_again(const ExportAnswer& answer, const EstimateRequest& plan) {
  std::vector<ConfigFile> configs;
  for (const ExportedFile& file : answer.files)
    if (!file.is_program && file.name != "task.yaml" && file.name != "job.yaml" && file.name != "dataset_info.json")
      configs.push_back({file.name, file.content});
  ConfigReading reading = read_configs(configs, {});
  reading.request.model = plan.model;
  reading.request.cluster = plan.cluster;
  std::vector<std::string> notes;
  settle_vision(reading, reading.request);
  settle_strategy(reading, reading.request, notes);
  return reading.request;
}

/// Of the one strategy that is asked for, without limits and advice.
StrategyEstimate estimate_of(EstimateRequest request) {
  request.options = options_for(request);
  const Strategy strategy = make_strategy(request.strategy, request.cluster, request.options);
  std::string why = why_not_applicable(strategy, request.cluster, request.recipe, request.model);
  if (!why.empty()) return {.strategy = strategy, .not_applicable = std::move(why)};
  StepProgram program;
  return estimate_strategy(Job(request, strategy), program);
}

constexpr std::array kStrategies{"single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp", "mp"};
constexpr std::array kMethods{Method::Full, Method::Lora, Method::Qlora};

/// Everything that a user can ask for of one framework, and what becomes of it.
struct Outcome {
  int num_asked = 0, num_same = 0;  // sanitizers watch every third
  bool has_same(int least) const { return num_same >= (test::kIsSanitized ? least / 6 : least); }
};

Outcome round_trip(const std::string& framework, const std::string& target) {
  const std::array offloads{Offload{}, Offload{.optimizer = OffloadTarget::Cpu},
                            Offload{.optimizer = OffloadTarget::Cpu, .params = OffloadTarget::Cpu},
                            Offload{.optimizer = OffloadTarget::Nvme}};
  Outcome outcome;
  for (const char* strategy : kStrategies)
    for (const Method method : kMethods)
      for (const Offload& offload : offloads) {
        const EstimateRequest plan = plan_of(strategy, method, offload, framework);
        CAPTURE(framework);
        CAPTURE(strategy);
        CAPTURE(to_string(method));
        CAPTURE(to_string(offload.optimizer));
        CAPTURE(to_string(offload.params));
        if (outcome.num_asked++ % 3 != 0 && test::kIsSanitized) continue;
        const ExportAnswer answer = export_plan(plan, target, kMark);
        if (answer.is_refused()) {
          CHECK_FALSE(answer.nearest.empty());
          CHECK(answer.files.empty());
          continue;
        }
        const EstimateRequest read = read_again(answer, plan);
        const StrategyEstimate before = estimate_of(plan), after = estimate_of(read);
        CHECK(before.not_applicable.empty());
        CHECK(after.tiers.process == before.tiers.process);
        CHECK(after.tiers.tensors == before.tiers.tensors);
        CHECK(after.host.step == before.host.step);
        ++outcome.num_same;
      }
  return outcome;
}

}  // namespace

TEST_CASE("strategy x method x offload: TRL's files read back to the same memory, or are refused with a way out") {
  const Outcome outcome = round_trip("trl", "trl");
  // 9 without offload but hsdp of FSDP1 on one machine; zero1, 2, 3 with the optimizer on host and NVMe;
  // zero3, fsdp, fsdp-grad-op, hsdp with parameters too
  CHECK(outcome.has_same(50));
}

TEST_CASE("strategy x method x offload: axolotl's and LLaMA-Factory's files") {
  CHECK(round_trip("axolotl", "axolotl").has_same(40));
  CHECK(round_trip("llama-factory", "llama-factory").has_same(40));
}

TEST_CASE("strategy x method x offload: transformers' files, which know no adapters") {
  CHECK(round_trip("hf-trainer", "transformers").has_same(15));
}

TEST_CASE("every file for transformers is one that run_clm.py's parser takes: JSON, fields alone, a data set") {
  const nlohmann::json known =
      read_json_file(std::filesystem::path(GPUPLAN_TEST_DIR) / "ecosystem" / "run_clm_fields.json");
  int num_files = 0;
  for (const char* strategy : kStrategies)
    for (const auto& [version, script] :
         {std::pair{"4.49", "run_clm 4.49"}, std::pair{"4.57", "run_clm 4.57"}, std::pair{"", "run_clm 4.57"}})
      for (const int change : {0, 1, 2, 3, 4}) {
        EstimateRequest plan = plan_of(strategy, Method::Full, {}, "hf-trainer");
        if (change == 1) plan.eval_batch = 2;
        if (change == 2) plan.recipe.optimizer = "adamw-8bit", plan.recipe.torch_compile = true;
        if (change == 3) plan.recipe.precision = Precision::Fp32, plan.recipe.checkpointing = Checkpointing::None;
        if (change == 4) plan.recipe.loss = LossKernel::Fused;
        CAPTURE(strategy);
        CAPTURE(version);
        CAPTURE(change);
        const ExportAnswer answer =
            export_plan(plan, "transformers", kMark,
                        *version ? parse_versions(std::string("transformers=") + version) : Versions{});
        if (answer.is_refused()) continue;
        ++num_files;
        const nlohmann::json file = nlohmann::json::parse(file_of(answer, "training.json")->content);
        std::set<std::string> fields = known[script].get<std::set<std::string>>();
        fields.merge(known["TrainingArguments"].get<std::set<std::string>>());
        for (const auto& [key, value] : file.items()) CHECK_MESSAGE(fields.count(key) == 1, key);
        CHECK(file["dataset_name"] == "timdettmers/openassistant-guanaco");
        CHECK(file["block_size"] == plan.recipe.seq_len);
        CHECK(file["do_train"] == true);
        // its parser reads a file where it is the one argument
        const std::string& launch = file_of(answer, "launch.sh")->content;
        CHECK(has_text(launch, "\"$script\" training.json \"$@\""));
        CHECK(has_text(launch, "if [ $# -gt 0 ]"));
        REQUIRE_FALSE(answer.notes.empty());
        CHECK(has_text(answer.notes.back(), "--data FILE"));
      }
  CHECK(num_files >= 60);
}

TEST_CASE("run_clm.py has no words for attention, padding, chunked losses, adapters and a device_map: refused") {
  const auto answer_of = [](const char* strategy, auto change) {
    EstimateRequest plan = plan_of(strategy, Method::Full, {}, "hf-trainer");
    change(plan.recipe);
    return export_plan(plan, "transformers", kMark);
  };
  ExportAnswer answer = answer_of("ddp", [](Recipe& r) { r.attention = AttentionKernel::Flash; });
  CHECK(has_text(answer.refusal, "cannot say attention flash: they would train with sdpa"));
  CHECK(answer.nearest == "plan with --attention sdpa");
  answer = answer_of("ddp", [](Recipe& r) { r.packing = Packing::Padded, r.loss = LossKernel::Chunked; });
  CHECK(has_text(answer.refusal, "cannot say loss chunked"));
  CHECK(answer.nearest == "plan with --loss plain --packing packed");  // all that differs
  answer = answer_of("mp", [](Recipe&) {});
  CHECK(has_text(answer.refusal, "without a device_map"));
  CHECK(has_text(answer.nearest, "--strategy fsdp"));
  answer = answer_of("ddp", [](Recipe& r) { r.method = Method::Lora; });
  CHECK(has_text(answer.nearest, "--for trl, axolotl or llama-factory"));
}

TEST_CASE("strategy x method x offload: settings of the PyTorch script") {
  const Outcome outcome = round_trip("torch", "torch");
  // single, ddp and zero1, each full and LoRA; the rest is refused with a way out
  CHECK(outcome.has_same(6));
  CHECK(outcome.num_same <= 6);
}

TEST_CASE("strategy x method x offload: torchtune's recipes, which do not mix precisions") {
  CHECK(round_trip("torchtune", "torchtune").num_same == 0);
  for (const char* strategy : {"single", "fsdp", "fsdp-grad-op"})
    for (const Method method : kMethods) {
      EstimateRequest plan = plan_of(strategy, method, {}, "torchtune");
      plan.recipe.precision = Precision::Bf16True;
      plan.options.fsdp_version = 2;
      CAPTURE(strategy);
      CAPTURE(to_string(method));
      const ExportAnswer answer = export_plan(plan, "torchtune", kMark);
      REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
      CHECK(estimate_of(read_again(answer, plan)).tiers.process == estimate_of(plan).tiers.process);
    }
}

TEST_CASE("torchtune's function and modules are named from the plan and read back as it") {
  EstimateRequest plan = plan_of("fsdp", Method::Lora, {}, "torchtune");
  plan.recipe.precision = Precision::Bf16True;
  plan.model = load_model("llama-3.1-8b").spec;
  const ExportAnswer answer = export_plan(plan, "torchtune", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  const auto file = parse_yaml11(file_of(answer, "torchtune.yaml")->content, "torchtune")->root;
  CHECK(file["model"]["_component_"] == "torchtune.models.llama3_1.lora_llama3_1_8b");
  CHECK(file["model"]["lora_attn_modules"] == nlohmann::json{"q_proj", "k_proj", "v_proj", "output_proj"});
  CHECK(file["model"]["apply_lora_to_mlp"] == true);
  CHECK(file["epochs"].is_number_integer());
  CHECK(has_text(file_of(answer, "launch.sh")->content, "--nproc_per_node 4 lora_finetune_distributed"));
  plan.model = load_model("olmo-2-7b").spec;
  CHECK(has_text(export_plan(plan, "torchtune", kMark).refusal, "no function that builds"));
  plan = plan_of("fsdp", Method::Full, {}, "torchtune");
  plan.options.fsdp_version = 1;
  CHECK(has_text(export_plan(plan, "torchtune", kMark).refusal, "FSDP2"));
  plan = plan_of("ddp", Method::Full, {}, "torchtune");
  CHECK(has_text(export_plan(plan, "torchtune", kMark).refusal, "torchtune does not have it"));
}

TEST_CASE("the PyTorch script gets every setting of the plan, and refuses what it cannot do") {
  EstimateRequest plan = plan_of("zero1", Method::Lora, {}, "torch");
  plan.recipe.lora.rank = 5;
  plan.recipe.lora.alpha = 7;
  plan.recipe.micro_batch = 3;
  plan.recipe.grad_accum = 4;
  plan.recipe.seq_len = 96;
  plan.recipe.packing = Packing::Padded;
  const ExportAnswer answer = export_plan(plan, "torch", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  const auto file = parse_json(file_of(answer, "torch.json")->content, "torch");
  CHECK(file["strategy"] == "zero1");
  CHECK(file["method"] == "lora");
  CHECK(file["lora"] == nlohmann::json{{"rank", 5}, {"alpha", 7}, {"dropout", 0.0}, {"targets", {"all-linear"}}});
  CHECK(file["micro_batch"] == 3);
  CHECK(file["grad_accum"] == 4);
  CHECK(file["seq_len"] == 96);
  CHECK(file["packing"] == false);
  CHECK(file["pads_to_seq_len"] == true);
  CHECK(file["checkpointing"] == true);
  CHECK(file["autocast"] == "bfloat16");
  CHECK(file["ranks"] == 4);
  CHECK(file["config"]["num_hidden_layers"] == plan.model.num_hidden_layers);
  CHECK(has_text(file_of(answer, "launch.sh")->content, "torchrun --standalone --nproc_per_node=4 train_torch.py"));
  CHECK(file_of(answer, "gpuplan_metrics.py") != nullptr);
  CHECK(has_text(export_plan(plan_of("fsdp", Method::Full), "torch", kMark).refusal, "ZeRO-1, and the plan is fsdp"));
  CHECK(has_text(export_plan(plan_of("ddp", Method::Qlora), "torch", kMark).refusal, "method qlora"));
  plan = plan_of("ddp", Method::Full);
  plan.model = load_model("gemma-2-2b").spec;
  CHECK(has_text(export_plan(plan, "torch", kMark).refusal, "of the family"));
}

TEST_CASE("accelerate's and DeepSpeed's files say strategy and offload again") {
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp", "mp"}) {
    const EstimateRequest plan = plan_of(strategy, Method::Full);
    const ExportAnswer answer = export_plan(plan, "accelerate", kMark);
    CAPTURE(strategy);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    CHECK(read_again(answer, plan).strategy == strategy);
  }
  CHECK(export_plan(plan_of("fsdp", Method::Full), "deepspeed", kMark).is_refused());
  CHECK_FALSE(export_plan(plan_of("zero2", Method::Full), "deepspeed", kMark).is_refused());
}

TEST_CASE("every target gives files or a reason, for every strategy") {
  for (const std::string& target : export_targets())
    for (const char* strategy : kStrategies) {
      CAPTURE(target);
      CAPTURE(strategy);
      const ExportAnswer answer = export_plan(plan_of(strategy, Method::Full), target, kMark);
      CHECK(answer.is_refused() == answer.files.empty());
      if (answer.is_refused()) CHECK_FALSE(answer.nearest.empty());
      for (const ExportedFile& file : answer.files) {
        if (file.name == "training.json") continue;  // its reader stops at a key that is no field; launch.sh says it
        CHECK(has_text(file.content, "Made by gpuplan"));
        CHECK(has_text(file.content, "For "));  // its versions
      }
    }
}

TEST_CASE("R01, R03, R04, R06, R08, R10, R14: what no program trains is refused with the rule") {
  const auto refusal = [](EstimateRequest plan) { return export_plan(plan, "trl", kMark).refusal; };
  EstimateRequest plan = plan_of("fsdp", Method::Qlora);
  plan.options.fsdp_version = 2;
  CHECK(has_text(refusal(plan), "[R01]"));
  plan = plan_of("fsdp", Method::Lora);
  plan.recipe.quant.kind = BaseQuant::Int8;
  CHECK(has_text(refusal(plan), "[R03]"));
  plan = plan_of("zero3", Method::Qlora);
  plan.recipe.quant.kind = BaseQuant::Gptq4;
  CHECK(has_text(refusal(plan), "[R04]"));
  CHECK(has_text(refusal(plan_of("ddp", Method::Full, {.optimizer = OffloadTarget::Cpu})), "[R06]"));
  plan = plan_of("fsdp", Method::Full);
  plan.recipe.optimizer = "adamw-8bit";
  plan.options.fsdp_version = 2;
  CHECK(has_text(refusal(plan), "[R08]"));
  plan = plan_of("zero2", Method::Full, {.optimizer = OffloadTarget::Cpu});
  plan.recipe.optimizer = "adafactor";
  CHECK(has_text(refusal(plan), "[R10]"));
  plan = plan_of("ddp", Method::Full);
  plan.cluster = parse_gpus("4xT4");
  CHECK(has_text(refusal(plan), "[R14]"));
}

TEST_CASE("no strategy that estimate offers breaks a rule of the trainers") {
  int num_offered = 0;
  for (const char* strategy : kStrategies)
    for (const Method method : kMethods)
      for (const char* optimizer : {"adamw-fused", "adamw-8bit", "paged-adamw-8bit", "paged-adamw"})
        for (const Offload& offload :
             {Offload{}, Offload{.optimizer = OffloadTarget::Cpu}, Offload{.params = OffloadTarget::Cpu},
              Offload{.optimizer = OffloadTarget::Cpu, .params = OffloadTarget::Cpu}}) {
          EstimateRequest plan = plan_of(strategy, method, offload);
          plan.options.fsdp_version = {};  // the program's choice
          plan.recipe.optimizer = optimizer;
          plan.options = options_for(plan);
          const Strategy offered = make_strategy(strategy, plan.cluster, plan.options);
          if (!why_not_applicable(offered, plan.cluster, plan.recipe, plan.model).empty()) continue;
          ++num_offered;
          const std::string refusal = export_plan(plan, "trl", kMark).refusal;
          if (has_text(refusal, "[R09]")) continue;  // it trains: its checkpoints lack the states
          CHECK_MESSAGE(!has_text(refusal, "[R"),
                        fmt::format("{} {} {}, offload {} {}: {}", strategy, to_string(method), optimizer,
                                    to_string(offload.optimizer), to_string(offload.params), refusal));
        }
  CHECK(num_offered > 100);
}

TEST_CASE("a frozen base that FSDP offloads is written as FSDP does it: with the adapters and their optimizer") {
  for (const Method method : {Method::Lora, Method::Qlora}) {
    const EstimateRequest plan = plan_of("fsdp", method, {.params = OffloadTarget::Cpu});
    const ExportAnswer answer = export_plan(plan, "trl", kMark);
    CAPTURE(answer.refusal);
    REQUIRE_FALSE(answer.is_refused());
    CHECK(std::any_of(answer.notes.begin(), answer.notes.end(),
                      [](const std::string& note) { return has_text(note, "its optimizer to the host"); }));
    const EstimateRequest read = read_again(answer, plan);
    CHECK(read.recipe.offload.params == OffloadTarget::Cpu);
    CHECK(read.recipe.offload.optimizer == OffloadTarget::Cpu);
  }
}

TEST_CASE("axolotl's file names Liger's plugin and each of its kernels that the plan has") {
  for (const bool has_loss : {false, true})
    for (const bool has_layers : {false, true}) {
      CAPTURE(has_loss);
      CAPTURE(has_layers);
      EstimateRequest plan = plan_of("ddp", Method::Lora, {}, "axolotl");
      if (has_loss) plan.recipe.loss = LossKernel::Fused;
      if (has_layers) plan.recipe.kernels = LayerKernels::Fused;
      const ExportAnswer answer = export_plan(plan, "axolotl", kMark);
      REQUIRE_FALSE(answer.is_refused());
      const std::string& file = answer.files.front().content;
      const auto says = [&](const char* text) { return file.find(text) != std::string::npos; };
      CHECK(says("axolotl.integrations.liger.LigerPlugin") == (has_loss || has_layers));
      CHECK(says("liger_fused_linear_cross_entropy: true") == has_loss);
      CHECK(says("liger_rms_norm: true") == has_layers);
      CHECK(says("liger_glu_activation: true") == has_layers);
      const Recipe read = read_again(answer, plan).recipe;
      CHECK(read.loss == plan.recipe.loss);
      CHECK((read.kernels == LayerKernels::Fused) == has_layers);
    }
}

TEST_CASE("a refusal names the strategy that the files would train, and the trainer whose defaults the plan has not") {
  const ExportAnswer pipeline = export_plan(plan_of("mp", Method::Lora), "llama-factory", kMark);
  CHECK(has_text(pipeline.refusal, "would train with ddp, and the plan is mp"));
  CHECK(pipeline.nearest == "plan with --strategy ddp");
  EstimateRequest plan = plan_of("fsdp", Method::Lora);
  plan.recipe.lora.base_dtype = Dtype::F32;
  const ExportAnswer base = export_plan(plan, "axolotl", kMark);
  CHECK(has_text(base.refusal, "they would train with the usual one"));
  CHECK(has_text(base.nearest, "plan with --framework axolotl"));
}

TEST_CASE("R05: a device_map does not span machines") {
  EstimateRequest plan = plan_of("mp", Method::Full);
  plan.cluster = parse_gpus("16xH100");
  CHECK(has_text(export_plan(plan, "accelerate", kMark).refusal, "[R05]"));
}

TEST_CASE("one GPU of several machines is one machine") {
  EstimateRequest plan = plan_of("single", Method::Lora);
  plan.cluster = parse_gpus("16xH100");
  const ExportAnswer answer = export_plan(plan, "trl", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  CHECK(has_text(file_of(answer, "accelerate.yaml")->content, "num_machines: 1"));
  CHECK(has_text(file_of(answer, "launch.sh")->content, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("R02, R12, R13, R19: what can be written right is written right") {
  const ExportAnswer qlora = export_plan(plan_of("fsdp", Method::Qlora), "trl", kMark);
  REQUIRE_MESSAGE(!qlora.is_refused(), qlora.refusal);
  CHECK(has_text(file_of(qlora, "sft.yaml")->content, "bnb_4bit_quant_storage: bfloat16\n"));
  const std::string fsdp1 = file_of(qlora, "accelerate.yaml")->content;
  CHECK(has_text(fsdp1, "fsdp_sharding_strategy: FULL_SHARD"));  // rule 4
  CHECK(has_text(fsdp1, "fsdp_use_orig_params: false"));         // rule 11
  CHECK(has_text(fsdp1, "fsdp_sync_module_states: true"));       // rule 6
  CHECK_FALSE(has_text(fsdp1, "fsdp_reshard_after_forward"));
  const ExportAnswer full = export_plan(plan_of("fsdp", Method::Full), "trl", kMark);
  const std::string fsdp2 = file_of(full, "accelerate.yaml")->content;
  CHECK(has_text(fsdp2, "fsdp_reshard_after_forward: true"));      // rule 5
  CHECK(has_text(fsdp2, "fsdp_activation_checkpointing: false"));  // rule 7: the trainer's switch is the one
  CHECK(has_text(fsdp2, "SHARDED_STATE_DICT"));
  for (const char* gone : {"prefetch", "use_orig_params", "sharding_strategy", "sync_module"})
    CHECK_FALSE(has_text(fsdp2, gone));
  CHECK(has_text(file_of(full, "sft.yaml")->content, "gradient_checkpointing: true"));
}

EstimateRequest vision_plan(TrainVision train, const char* model = "qwen2.5-vl-3b") {
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  plan.model = load_model(model).spec;
  plan.recipe.packing = Packing::Dynamic;
  plan.recipe.images.train = train;
  return plan;
}

TEST_CASE("models with a vision tower: files of trainers that load images, and what each can freeze") {
  struct Row {
    const char *target, *file;
    TrainVision train;
    const char* line;  // empty: it has no word for this
  };
  for (const auto& [target, name, train, line] :
       {Row{"trl", "sft.yaml", TrainVision::All, "model_name_or_path: Qwen/Qwen2.5-VL-3B-Instruct"},
        Row{"trl", "sft.yaml", TrainVision::No, ""},
        Row{"axolotl", "axolotl.yaml", TrainVision::All, "freeze_mm_modules: false"},
        Row{"axolotl", "axolotl.yaml", TrainVision::No, "freeze_mm_modules: true"},
        Row{"axolotl", "axolotl.yaml", TrainVision::Projector, ""},
        Row{"llama-factory", "llamafactory.yaml", TrainVision::All, "freeze_vision_tower: false"},
        Row{"llama-factory", "llamafactory.yaml", TrainVision::No, "freeze_multi_modal_projector: true"},
        Row{"llama-factory", "llamafactory.yaml", TrainVision::Projector, ""}}) {
    CAPTURE(target);
    CAPTURE(to_string(train));
    const EstimateRequest plan = vision_plan(train);
    const ExportAnswer answer = export_plan(plan, target, kMark);
    CHECK(answer.is_refused() == (*line == 0));
    if (answer.is_refused()) {
      CHECK(has_text(answer.nearest, *target == 'l' ? "--for trl" : "--train-vision"));
      continue;
    }
    CHECK(has_text(file_of(answer, name)->content, line));
    CHECK(std::ranges::any_of(answer.notes, [](const std::string& note) { return has_text(note, "their images"); }));
    EstimateRequest read = read_again(answer, plan);
    CHECK(read.recipe.images.train == train);
    read.recipe.framework = plan.recipe.framework;  // its own trainer takes other memory, as a note says
    CHECK(estimate_of(read).tiers.process == estimate_of(plan).tiers.process);
  }
  EstimateRequest full = vision_plan(TrainVision::Projector);
  full.recipe.method = Method::Full;
  const ExportAnswer projector = export_plan(full, "llama-factory", kMark);
  REQUIRE_MESSAGE(!projector.is_refused(), projector.refusal);
  CHECK(has_text(file_of(projector, "llamafactory.yaml")->content, "freeze_multi_modal_projector: false"));
}

TEST_CASE("models with a vision tower: what their trainers need beside it, and who does not load images") {
  const EstimateRequest plan = vision_plan(TrainVision::All);
  const std::string axolotl = file_of(export_plan(plan, "axolotl", kMark), "axolotl.yaml")->content;
  for (const char* key :
       {"processor_type: AutoProcessor", "skip_prepare_dataset: true", "remove_unused_columns: false"})
    CHECK(has_text(axolotl, key));
  CHECK(
      has_text(file_of(export_plan(plan, "llama-factory", kMark), "llamafactory.yaml")->content, "template: qwen2_vl"));
  for (const char* target : {"transformers", "torch", "torchtune"}) {
    CAPTURE(target);
    CHECK(has_text(export_plan(plan, target, kMark).refusal, "trains on text alone"));
  }
  EstimateRequest packed = plan;
  packed.recipe.packing = Packing::Packed;
  CHECK(has_text(export_plan(packed, "trl", kMark).refusal, "does not pack rows with images"));
  CHECK_FALSE(export_plan(packed, "llama-factory", kMark).is_refused());
  CHECK(has_text(export_plan(vision_plan(TrainVision::All, "smolvlm-256m"), "llama-factory", kMark).refusal,
                 "no template that reads images"));
}

TEST_CASE(
    "a model whose towers stay idle is trained on text: DDP looks for what gets no gradient, axolotl freezes it") {
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  plan.model = load_model("gemma-3n-e2b").spec;
  const auto file = [&](const char* target, const char* name) {
    const ExportAnswer answer = export_plan(plan, target, kMark);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    return file_of(answer, name)->content;
  };
  CHECK(has_text(file("trl", "sft.yaml"), "ddp_find_unused_parameters: true"));
  CHECK(has_text(file("axolotl", "axolotl.yaml"), "freeze_mm_modules: true"));
  CHECK_FALSE(has_text(file("axolotl", "axolotl.yaml"), "processor_type"));
}

TEST_CASE("what a format has no word for is refused, and never written as something else") {
  EstimateRequest plan = plan_of("ddp", Method::Full);
  plan.recipe.checkpointing = Checkpointing::Selective;
  ExportAnswer answer = export_plan(plan, "trl", kMark);
  CHECK(has_text(answer.refusal, "checkpointing selective"));
  CHECK(has_text(answer.nearest, "--checkpointing full"));
  plan = plan_of("ddp", Method::Lora);
  answer = export_plan(plan, "transformers", kMark);
  CHECK(has_text(answer.refusal, "method lora"));
  CHECK(has_text(answer.nearest, "--for trl"));
}

TEST_CASE("all-linear on Mamba-2 layers is refused in a trainer's files, with the modules that take adapters") {
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  plan.model = load_model("granite-4.0-h-350m").spec;
  ExportAnswer answer = export_plan(plan, "trl", kMark);
  CHECK(has_text(answer.refusal, "out_proj of the Mamba layers"));
  CHECK(answer.nearest == "plan with --lora targets=in_proj+input_linear+output_linear+q_proj+k_proj+v_proj+o_proj");
  CHECK_FALSE(export_plan(plan, "accelerate", kMark).is_refused());  // a script of one's own names its modules
  plan.recipe.lora.targets = {"in_proj", "q_proj"};
  CHECK_FALSE(export_plan(plan, "trl", kMark).is_refused());
  plan = plan_of("ddp", Method::Lora);
  plan.model = load_model("mamba-130m").spec;  // the first Mamba's kernel takes all but in_proj
  CHECK(export_plan(plan, "trl", kMark).nearest == "plan with --lora targets=in_proj");
  plan = plan_of("ddp", Method::Lora);
  plan.model = load_model("qwen3.5-9b-text").spec;  // a delta net's out_proj is an ordinary module
  CHECK_FALSE(export_plan(plan, "trl", kMark).is_refused());
}

TEST_CASE("1,000 hostile names come back from YAML as they were") {
  for (const std::string& name : test::hostile_names()) {
    const OrderedJson file{{"model", name}, {"list", {name, "x"}}, {name + "k", 1}};
    const auto read = parse_yaml11("# " + comment_word(name) + "\n" + yaml_text(file), "hostile")->root;
    CAPTURE(name);
    CHECK(read.size() == 3);
    CHECK(read["model"] == name);
    CHECK(read["list"][0] == name);
    CHECK(read.contains(name + "k"));
  }
}

TEST_CASE("1,000 hostile names as a model's name break no file of a plan") {
  EstimateRequest plan = plan_of("zero2", Method::Lora);
  for (const std::string& name : test::hostile_names()) {
    plan.model.id = "x" + name;
    plan.model.name = name;
    const ExportAnswer answer = export_plan(plan, "trl", {name, kMark.sha256});
    CAPTURE(name);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    CHECK(parse_yaml11(file_of(answer, "sft.yaml")->content, "sft")->root["model_name_or_path"] == "x" + name);
    const auto engine = parse_json(file_of(answer, "deepspeed.json")->content, "ds");
    CHECK(engine["zero_optimization"]["stage"] == 2);
    const std::string script = file_of(answer, "launch.sh")->content;
    CHECK(std::count(script.begin(), script.end(), '\n') == 14);  // no name adds a line
  }
}

TEST_CASE("1,000 hostile names are one word each to a shell") {
  const std::vector<std::string> names = test::hostile_names();
  const test::ScratchFolder scratch;
  const std::string script = (scratch.path() / "words.sh").string();
  {
    std::ofstream out(script, std::ios::binary);
    for (const std::string& name : names) out << "printf '%s\\000' " << shell_word(name) << "\n";
  }
  FILE* shell = popen(("sh " + shell_word(script)).c_str(), "r");
  REQUIRE(shell);
  std::string read;
  std::array<char, 4096> buffer{};
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), shell)) > 0;) read.append(buffer.data(), n);
  CHECK(pclose(shell) == 0);
  std::string expected;
  for (const std::string& name : names) expected += name + std::string(1, '\0');
  CHECK(read == expected);
}

TEST_CASE("under torchrun a ZeRO plan starts DeepSpeed with its file") {
  const ExportAnswer zero = export_plan(plan_of("zero3", Method::Lora), "torchrun", {.file = "p.json", .sha256 = {}});
  const std::string& script = file_of(zero, "launch.sh")->content;
  CHECK(has_text(script, "export ACCELERATE_USE_DEEPSPEED=true\n"));
  CHECK(has_text(script, "export ACCELERATE_DEEPSPEED_CONFIG_FILE=deepspeed.json\n"));
  CHECK(has_text(script, "export ACCELERATE_DEEPSPEED_ZERO3_INIT=true\n"));
  const ExportAnswer ddp = export_plan(plan_of("ddp", Method::Lora), "torchrun", {.file = "p.json", .sha256 = {}});
  CHECK_FALSE(has_text(file_of(ddp, "launch.sh")->content, "DEEPSPEED"));
}

TEST_CASE("torchtune's full recipes are told whether they step in backward, and clip only where they do not") {
  EstimateRequest plan = plan_of("single", Method::Full, {}, "torchtune");
  plan.cluster = parse_gpus("1xH100");
  plan.recipe.precision = Precision::Bf16True;
  plan.recipe.optimizer = "adamw-fused";
  const auto text_of = [&] {
    return file_of(export_plan(plan, "torchtune", {.file = "p.json", .sha256 = {}}), "torchtune.yaml")->content;
  };
  CHECK(has_text(text_of(), "optimizer_in_bwd: false"));
  CHECK(has_text(text_of(), "clip_grad_norm: 1"));
  plan.recipe.optimizer_in_backward = true;
  CHECK(has_text(text_of(), "optimizer_in_bwd: true"));
  CHECK(has_text(text_of(), "clip_grad_norm: null"));
}

}  // namespace gpuplan

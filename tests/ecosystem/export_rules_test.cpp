// The rules by which files are written, one test each (docs/ecosystem.md).
#include <doctest/doctest.h>

#include "ecosystem/exported.h"

namespace gpuplan {

using namespace test;

TEST_CASE("rule 1: parallelism stands in one file") {
  const ExportAnswer answer = export_plan(plan_of("zero3", Method::Full), "trl", kMark);
  const std::string trainer = file_of(answer, "sft.yaml")->content,
                    launcher = file_of(answer, "accelerate.yaml")->content;
  CHECK_FALSE(has_text(trainer, "deepspeed"));
  CHECK_FALSE(has_text(trainer, "fsdp"));
  CHECK(has_text(launcher, "deepspeed_config_file: deepspeed.json"));
  for (const char* inline_key : {"zero_stage", "offload", "gradient_accumulation", "mixed_precision"})
    CHECK_FALSE(has_text(launcher, inline_key));  // rule 15
}

TEST_CASE("rules 2 and 3: a reader of YAML 1.1 sees texts and numbers as they are meant") {
  EstimateRequest plan = plan_of("single", Method::Lora);
  plan.recipe.lora.dropout = 0.00001;
  plan.recipe.precision = Precision::Fp32;
  const ExportAnswer answer = export_plan(plan, "trl", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  const auto launcher = parse_yaml11(file_of(answer, "accelerate.yaml")->content, "a")->root;
  CHECK(launcher["distributed_type"] == "NO");
  CHECK(launcher["mixed_precision"] == "no");
  const auto trainer = parse_yaml11(file_of(answer, "sft.yaml")->content, "b")->root;
  CHECK(trainer["lora_dropout"].is_number_float());
  CHECK(trainer["lora_dropout"] == 0.00001);
  CHECK(trainer["lora_alpha"].is_number_integer());
}

TEST_CASE("rule 8: FSDP2's own checkpointing, which forgets the state of dropout, is never switched on") {
  EstimateRequest plan = plan_of("fsdp", Method::Lora);
  plan.recipe.lora.dropout = 0.1;
  const ExportAnswer answer = export_plan(plan, "trl", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  CHECK(has_text(file_of(answer, "accelerate.yaml")->content, "fsdp_activation_checkpointing: false"));
  CHECK(has_text(file_of(answer, "sft.yaml")->content, "gradient_checkpointing: true"));
}

TEST_CASE("rule 9: DDP with checkpointing is not reentrant and looks for no unused parameters") {
  const ExportAnswer answer = export_plan(plan_of("ddp", Method::Lora), "trl", kMark);
  CHECK(has_text(file_of(answer, "sft.yaml")->content, "use_reentrant: false"));
  CHECK(has_text(file_of(answer, "sft.yaml")->content, "ddp_find_unused_parameters: false"));
}

TEST_CASE("rule 10: ZeRO-3 with adapters is reentrant") {
  CHECK(has_text(file_of(export_plan(plan_of("zero3", Method::Lora), "trl", kMark), "sft.yaml")->content,
                 "use_reentrant: true"));
}

TEST_CASE("rule 11: FSDP1 keeps the original parameters of full fine-tuning, and not those of adapters") {
  const auto launcher = [](Method method) {
    EstimateRequest plan = plan_of("fsdp", method);
    plan.options.fsdp_version = 1;
    const ExportAnswer answer = export_plan(plan, "trl", kMark);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    return file_of(answer, "accelerate.yaml")->content;
  };
  CHECK(has_text(launcher(Method::Full), "fsdp_use_orig_params: true"));
  CHECK(has_text(launcher(Method::Lora), "fsdp_use_orig_params: false"));
}

TEST_CASE("rule 12: a 4-bit base that is sharded is stored in the dtype that it is loaded in") {
  for (const char* strategy : {"fsdp", "zero3"}) {
    CAPTURE(strategy);
    const ExportAnswer answer = export_plan(plan_of(strategy, Method::Qlora), "trl", kMark);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    const std::string file = file_of(answer, "sft.yaml")->content;
    CHECK(has_text(file, "\ndtype: bfloat16"));
    CHECK(has_text(file, "bnb_4bit_quant_storage: bfloat16"));
  }
}

TEST_CASE("rule 12: the usual storage of a sharded 4-bit base may be written out in the plan") {
  EstimateRequest plan = plan_of("fsdp", Method::Qlora);
  plan.recipe.quant.storage_dtype = Dtype::BF16;
  const ExportAnswer answer = export_plan(plan, "trl", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  CHECK(has_text(file_of(answer, "sft.yaml")->content, "bnb_4bit_quant_storage: bfloat16"));
}

TEST_CASE("rule 13: an 8-bit base is not sharded") {
  for (const char* strategy : {"fsdp", "zero3"}) {
    EstimateRequest plan = plan_of(strategy, Method::Lora);
    plan.recipe.quant.kind = BaseQuant::Int8;
    CHECK(export_plan(plan, "trl", kMark).is_refused());
  }
}

TEST_CASE("rule 14: several machines name their address and port, and processes are of all machines") {
  EstimateRequest plan = plan_of("fsdp", Method::Full);
  plan.cluster = parse_gpus("16xH100");
  const std::string file = file_of(export_plan(plan, "accelerate", kMark), "accelerate.yaml")->content;
  for (const char* line :
       {"num_processes: 16", "num_machines: 2", "machine_rank: 0", "main_process_ip", "main_process_port: "})
    CHECK(has_text(file, line));
}

TEST_CASE("rules 15 to 17: DeepSpeed's file has whole numbers, no auto, and a batch that adds up") {
  EstimateRequest plan = plan_of("zero3", Method::Full, {.optimizer = OffloadTarget::Cpu});
  plan.recipe.micro_batch = 2;
  plan.recipe.grad_accum = 3;
  const std::string text = file_of(export_plan(plan, "deepspeed", kMark), "deepspeed.json")->content;
  CHECK_FALSE(has_text(text, "auto"));
  const nlohmann::json file = nlohmann::json::parse(text);
  CHECK(file["train_batch_size"] == 2 * 3 * 4);
  CHECK(file["gradient_clipping"] == 1.0);
  CHECK(file["bf16"]["enabled"] == true);
  const nlohmann::json& zero = file["zero_optimization"];
  CHECK(zero["stage3_gather_16bit_weights_on_model_save"] == true);  // rule 16
  CHECK(zero["offload_optimizer"]["device"] == "cpu");
  for (const auto& [key, value] : zero.items())
    if (value.is_number()) CHECK_MESSAGE(value.is_number_integer(), key);
}

TEST_CASE("rule 18: DeepSpeed's offload goes with AdamW of torch alone") {
  const auto is_written = [](const char* optimizer) {
    EstimateRequest plan = plan_of("zero2", Method::Full, {.optimizer = OffloadTarget::Cpu});
    plan.recipe.optimizer = optimizer;
    return !export_plan(plan, "trl", kMark).is_refused();
  };
  CHECK(is_written("adamw-fused"));
  CHECK(is_written("adamw-foreach"));
  for (const char* other : {"adamw-8bit", "paged-adamw-8bit", "adafactor", "sgd", "lion"})
    CHECK_FALSE(is_written(other));
}

TEST_CASE("rule 19: adapters are gathered for saving, and checkpoints to resume from stay sharded") {
  const ExportAnswer zero = export_plan(plan_of("zero3", Method::Lora), "trl", kMark);
  const auto engine = nlohmann::json::parse(file_of(zero, "deepspeed.json")->content);
  CHECK(engine["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] == true);
  const ExportAnswer fsdp = export_plan(plan_of("fsdp", Method::Lora), "trl", kMark);
  CHECK(has_text(file_of(fsdp, "accelerate.yaml")->content, "fsdp_state_dict_type: SHARDED_STATE_DICT"));
}

TEST_CASE("rule 20: what is started checks its versions first") {
  const std::string script = file_of(export_plan(plan_of("fsdp", Method::Lora), "trl", kMark), "launch.sh")->content;
  CHECK(script.find("python3 - trl 0.23") < script.find("exec accelerate"));
  CHECK(has_text(script, "is older than"));
}

}  // namespace gpuplan

#include "run/files/adapter_files.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json_file.h"
#include "run/files/error_text.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

std::string error_of(const std::string& config) {
  const test::ScratchFolder scratch;
  scratch.write("adapter_config.json", config);
  return error_text<InputError>([&] { read_adapter_config(scratch.path()); });
}

/// A good config with one key more.
std::string error_with(const std::string& member) {
  return error_of(R"({"peft_type": "LORA", "target_modules": ["q_proj"], )" + member + "}");
}

}  // namespace

TEST_CASE("an adapter's config comes back as it was written") {
  const test::ScratchFolder scratch;
  write_adapter_config(scratch.path(), {.base_model = "org/m",
                                        .rank = 4,
                                        .alpha = 6.5,
                                        .dropout = 0.1,
                                        .target_modules = {"q_proj", "v_proj"},
                                        .modules_to_save = {"lm_head"}});
  const AdapterConfig config = read_adapter_config(scratch.path());
  CHECK(config.base_model == "org/m");
  CHECK(config.rank == 4);
  CHECK(config.alpha == 6.5);
  CHECK(config.dropout == 0.1);
  CHECK(config.target_modules == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(config.modules_to_save == std::vector<std::string>{"lm_head"});
}

TEST_CASE("a written config has the keys and types of peft's own") {
  const test::ScratchFolder scratch;
  write_adapter_config(scratch.path(), {.target_modules = {"q_proj"}});
  const auto object = read_json_file(scratch.path() / "adapter_config.json");
  // peft_type and target_modules are the least that peft asks for; the others it writes itself.
  for (const char* key : {"peft_type", "task_type", "base_model_name_or_path", "revision", "r", "lora_alpha",
                          "lora_dropout", "bias", "use_rslora", "use_dora", "fan_in_fan_out", "init_lora_weights",
                          "target_modules", "modules_to_save", "inference_mode"})
    CHECK(object.contains(key));
  CHECK(object["peft_type"] == "LORA");
  CHECK(object["task_type"] == "CAUSAL_LM");
  CHECK(object["lora_alpha"].is_number_integer());
  CHECK(object["modules_to_save"].is_null());
  CHECK(object["inference_mode"] == true);
}

TEST_CASE("adapter keys are the module's path behind base_model.model") {
  CHECK(lora_key("model.layers.3.self_attn.q_proj.weight", true) ==
        "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight");
  CHECK(lora_key("model.layers.3.mlp.up_proj.weight", false) ==
        "base_model.model.model.layers.3.mlp.up_proj.lora_B.weight");
}

TEST_CASE("what peft leaves out has peft's defaults") {
  const test::ScratchFolder scratch;
  scratch.write(
      "adapter_config.json",
      R"({"peft_type": "LORA", "target_modules": "all-linear", "bias": "none", "rank_pattern": {}, "loftq_config": {},
                                           "use_dora": false, "init_lora_weights": "gaussian", "layers_to_transform": null})");
  const AdapterConfig config = read_adapter_config(scratch.path());
  CHECK(config.rank == 8);
  CHECK(config.alpha == 8);
  CHECK(config.target_modules == std::vector<std::string>{"all-linear"});
}

TEST_CASE("what the native executor cannot train is refused by key, with the engine that can") {
  for (const char* member :
       {R"("use_dora": true)", R"("use_rslora": true)", R"("rank_pattern": {"q_proj": 4})",
        R"("alpha_pattern": {"q_proj": 4})", R"("bias": "all")", R"("fan_in_fan_out": true)",
        R"("layers_to_transform": [1])", R"("init_lora_weights": "pissa_niter_4")", R"("target_parameters": ["x"])"}) {
    const std::string error = error_with(member),
                      key = std::string(member).substr(1, std::string(member).find('"', 1) - 1);
    for (const std::string& part : {std::string("adapter_config.json"), key, std::string("peft")})
      check_mentions(error, part);
  }
  check_mentions(error_of(R"({"peft_type": "IA3", "target_modules": ["q_proj"]})"), "peft_type");
  check_mentions(error_of(R"({"peft_type": "LORA"})"), "target_modules");
  check_mentions(error_of(R"({"peft_type": "LORA", "target_modules": ".*_proj"})"), "list of module names");
  check_mentions(error_of(R"({"target_modules": ["q_proj"]})"), "peft_type");
  check_mentions(error_with(R"("lora_dropout": 1.5)"), "lora_dropout");
  check_mentions(error_with(R"("r": 0)"), "r");
  const std::string both = error_with(R"("use_dora": true, "bias": "all")");
  check_mentions(both, "use_dora");
  check_mentions(both, "bias");
}

TEST_CASE("a folder without an adapter is named") {
  const test::ScratchFolder scratch;
  check_mentions(error_text<InputError>([&] { read_adapter_config(scratch.path()); }),
                 "adapter_config.json: cannot be read");
}

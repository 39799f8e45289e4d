// Exported files name more than the plan so that they train: a data set, a chat template, a pad token.
#include "ecosystem/training_data.h"

#include <fstream>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/exported.h"
#include "scratch_folder.h"

namespace gpuplan {

using namespace test;

namespace {

nlohmann::json exported(const EstimateRequest& plan, const char* target, const char* file, const TrainingData& data) {
  const ExportAnswer answer = export_plan(plan, target, kMark, {}, {.data = data});
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  return parse_yaml11(file_of(answer, file)->content, file)->root;
}

EstimateRequest torchtune_plan() {
  EstimateRequest plan = plan_of("fsdp", Method::Lora, {}, "torchtune");
  plan.recipe.precision = Precision::Bf16True;
  plan.options.fsdp_version = 2;
  return plan;
}

}  // namespace

TEST_CASE("every trainer's file names a public data set, a rate by the method, a warm-up and when to save") {
  for (const Method method : {Method::Full, Method::Lora})
    for (const auto& [target, name] : {std::pair{"trl", "sft.yaml"}, std::pair{"axolotl", "axolotl.yaml"},
                                       std::pair{"llama-factory", "llamafactory.yaml"}}) {
      CAPTURE(target);
      const auto file = exported(plan_of("fsdp", method), target, name, {});
      CHECK(file["learning_rate"] == (method == Method::Full ? 2e-5 : 2e-4));
      CHECK(file["warmup_steps"] == 20);
      CHECK(file["save_steps"] == 200);
      EstimateRequest few = plan_of("fsdp", method);
      few.dataset.rows = 16, few.dataset.epochs = 2;  // of which the run saves at least twice
      CHECK(exported(few, target, name, {})["save_steps"].get<int>() <= 16);
      CHECK((file.contains("dataset_name") || file.contains("datasets") || file["dataset"] == "train"));
    }
  const auto set = exported(plan_of("ddp", Method::Lora), "llama-factory", "dataset_info.json", {});
  CHECK(set["train"]["hf_hub_url"] == "trl-lib/Capybara");
  CHECK(exported(torchtune_plan(), "torchtune", "torchtune.yaml", {})["dataset"]["source"] == "trl-lib/Capybara");
}

TEST_CASE("--data: a file of JSON lines is named as what its first line holds, a set of the Hub by its name") {
  const ScratchFolder scratch;
  const auto file = [&](const char* name, const char* line) {
    const std::string path = (scratch.path() / name).string();
    std::ofstream(path) << line << "\n" << line << "\n";
    return training_data(path);
  };
  const TrainingData texts = file("t.jsonl", R"({"text": "a"})"),
                     messages = file("m.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"),
                     pairs = file("p.jsonl", R"({"prompt": "a", "completion": "b"})"), hub = training_data("my/set");
  const EstimateRequest plan = plan_of("ddp", Method::Lora);
  CHECK(exported(plan, "trl", "sft.yaml", texts)["datasets"][0]["data_files"] == texts.name);
  CHECK(exported(plan, "trl", "sft.yaml", hub)["dataset_name"] == "my/set");
  CHECK(exported(plan, "axolotl", "axolotl.yaml", texts)["datasets"][0]["type"] == "completion");
  CHECK(exported(plan, "axolotl", "axolotl.yaml", messages)["datasets"][0]["type"] == "chat_template");
  CHECK(exported(plan, "axolotl", "axolotl.yaml", pairs)["datasets"][0]["type"]["field_output"] == "completion");
  const auto set = exported(plan, "llama-factory", "dataset_info.json", pairs)["train"];
  CHECK(set["file_name"] == pairs.name);
  CHECK(set["columns"]["response"] == "completion");
  CHECK(has_text(export_plan(plan, "llama-factory", kMark, {}, {.data = texts}).refusal, "no plain text"));
  CHECK(exported(plan_of("ddp", Method::Full), "transformers", "training.json", texts)["train_file"] == texts.name);
  const auto recipe = exported(torchtune_plan(), "torchtune", "torchtune.yaml", pairs)["dataset"];
  CHECK(recipe["_component_"] == "torchtune.datasets.instruct_dataset");
  CHECK(recipe["data_files"] == pairs.name);
  CHECK(has_text(export_plan(plan, "torch", kMark, {}, {.data = hub}).notes.back(), "name it to the script"));
  CHECK_THROWS_WITH_AS(file("x.jsonl", R"({"question": "a"})"), doctest::Contains("its first line is no object with"),
                       InputError);
  CHECK_THROWS_WITH_AS(training_data("missing.jsonl"), doctest::Contains("there is no file"), InputError);
}

TEST_CASE("--data with two answers: texts and messages are named in words that the trainer reads, or refused") {
  const ScratchFolder scratch;
  const auto file = [&](const char* name, const char* line) {
    const std::string path = (scratch.path() / name).string();
    std::ofstream(path) << line << "\n";
    return training_data(path);
  };
  const TrainingData texts = file("t.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})"),
                     messages = file("m.jsonl", R"({"chosen": [{"role": "user", "content": "a"},)"
                                                R"( {"role": "assistant", "content": "b"}], "rejected": []})"),
                     bare = file("b.jsonl", R"({"chosen": "a b", "rejected": "a c"})");
  const auto plan_for = [](const char* program, const char* method) {
    EstimateRequest plan = plan_of("ddp", Method::Lora, {}, program);
    plan.recipe.packing = Packing::Dynamic;
    plan.recipe.objective.method = method;
    return plan;
  };
  const auto refusal = [&](const char* program, const char* method, const TrainingData& data) {
    return export_plan(plan_for(program, method), program, kMark, {}, {.data = data}).refusal;
  };
  const auto axolotl = exported(plan_for("axolotl", "dpo"), "axolotl", "axolotl.yaml", texts)["datasets"][0];
  CHECK(axolotl["type"] == "chat_template.default");
  CHECK(axolotl["field_messages"] == "prompt");
  CHECK(exported(plan_for("axolotl", "dpo"), "axolotl", "axolotl.yaml", messages)["datasets"][0]["type"] ==
        "chat_template.argilla_chat");
  CHECK(exported(plan_for("ms-swift", "dpo"), "ms-swift", "swift.yaml", texts)["columns"] ==
        R"({"chosen": "response", "rejected": "rejected_response"})");
  CHECK(exported(plan_for("ms-swift", "dpo"), "ms-swift", "swift.yaml", messages)["columns"] ==
        R"({"chosen": "messages", "rejected": "rejected_messages"})");
  CHECK(refusal("llama-factory", "dpo", texts) == "");
  CHECK(has_text(refusal("llama-factory", "dpo", messages), "prompt, chosen and rejected as texts"));
  CHECK(has_text(refusal("axolotl", "orpo", texts), "lists of messages"));
  CHECK(refusal("axolotl", "orpo", messages) == "");
  CHECK(has_text(refusal("axolotl", "reward", texts), "the column input"));
  for (const char* program : {"axolotl", "llama-factory", "ms-swift"})
    CHECK(has_text(refusal(program, "dpo", bare), "the column prompt"));
  CHECK(refusal("trl", "dpo", texts) == "");
}

TEST_CASE("conversations are written by the template of the model's family, as each trainer calls it") {
  struct Row {
    const char *model, *llama_factory, *axolotl, *pad_token;
  };
  for (const Row& row :
       {Row{"llama-3.1-8b", "llama3", "llama3", "<|end_of_text|>"}, Row{"llama-2-7b", "llama2", "", ""},
        Row{"qwen3-8b", "qwen3", "qwen3", ""}, Row{"qwen2.5-7b", "qwen", "qwen_25", ""}, Row{"phi-4", "phi4", "", ""},
        Row{"gemma-3-4b-multimodal", "gemma3", "gemma3", ""}, Row{"granite-4.1-8b", "granite4", "", ""},
        Row{"granite-3.3-8b", "granite3", "", ""}, Row{"pythia-1.4b", "", "", "<|endoftext|>"},
        Row{"yi-6b", "yi", "", ""}}) {
    CAPTURE(row.model);
    const ChatTemplate& chat = chat_template_of(load_model(row.model).spec);
    CHECK(chat.llama_factory == row.llama_factory);
    CHECK(chat.axolotl == row.axolotl);
    CHECK(chat.pad_token == row.pad_token);
  }
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  plan.model = load_model("mistral-7b-v0.1").spec;  // its own, or ChatML where its tokenizer has none
  CHECK(exported(plan, "axolotl", "axolotl.yaml", {})["chat_template"] == "tokenizer_default_fallback_chatml");
  CHECK(exported(plan, "llama-factory", "llamafactory.yaml", {})["template"] == "mistral");
}

TEST_CASE("axolotl's warning of packed rows under sdpa is passed on, but for Hopper and for rows that are not packed") {
  EstimateRequest plan = plan_of("ddp", Method::Lora);
  const auto warns = [&] {
    const ExportAnswer answer = export_plan(plan, "axolotl", kMark);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    for (const std::string& note : answer.notes)
      if (has_text(note, "loss of 0.0")) return true;
    return false;
  };
  plan.recipe.packing = Packing::Packed;
  CHECK(warns());
  plan.cluster = parse_gpus("4xH100");
  CHECK_FALSE(warns());
  plan.cluster = parse_gpus("4xA6000");
  plan.recipe.packing = Packing::Dynamic;
  CHECK_FALSE(warns());
}

TEST_CASE("SkyPilot's task asks for the Hub's token") {
  const auto task = exported(plan_of("ddp", Method::Lora), "skypilot", "task.yaml", {});
  CHECK(task["secrets"].contains("HF_TOKEN"));
  CHECK(task["secrets"]["HF_TOKEN"].is_null());
}

}  // namespace gpuplan

#include "ecosystem/training_data.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// Small public sets that the trainers' own examples and documentation use: conversations as texts, as messages, and
// with images. Sources: huggingface/trl and huggingface/peft (examples), axolotl-ai-cloud/axolotl (docs of multimodal
// models), hiyouga/LLaMA-Factory (its list of data sets).
constexpr const char *kTexts = "timdettmers/openassistant-guanaco", *kMessages = "trl-lib/Capybara",
                     *kImages = "trl-lib/llava-instruct-mix", *kAxolotlImages = "HuggingFaceH4/llava-instruct-mix-vsft",
                     *kFactoryImages = "BUAADreamer/llava-en-zh-2k";

struct TemplateRow {
  std::vector<std::string> types, names;
  ChatTemplate chat;
};

std::vector<TemplateRow> read_templates() {
  const std::string where = (data_dir() / "ecosystem" / "chat_templates.yaml").string();
  const auto tree = read_yaml11(where);
  std::vector<TemplateRow> rows;
  try {
    for (const json& row : tree->root.at("rows"))
      rows.push_back({.types = row.value("types", std::vector<std::string>{}),
                      .names = row.value("names", std::vector<std::string>{}),
                      .chat = {.llama_factory = row.value("llama-factory", ""),
                               .axolotl = row.value("axolotl", ""),
                               .pad_token = row.value("pad_token", ""),
                               .reads_images = row.value("images", false)}});
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  return rows;
}

bool is_for(const TemplateRow& row, const ModelSpec& model) {
  const std::string name = squash(model.name) + " " + squash(model.id);
  const auto stands_in = [&](const std::string& part) { return name.find(part) != std::string::npos; };
  return (row.types.empty() || std::find(row.types.begin(), row.types.end(), model.model_type) != row.types.end()) &&
         (row.names.empty() || std::any_of(row.names.begin(), row.names.end(), stands_in));
}

/// Rows of a local file are read by the `json` builder of the data set library.
OrderedJson source_of(const TrainingData& data, const char* path, const char* files) {
  if (!data.is_file) return {{path, data.name}};
  return {{path, "json"}, {files, data.name}};
}

}  // namespace

TrainingData training_data(const std::string& name) {
  if (!is_file(name)) {
    if (name.ends_with(".json") || name.ends_with(".jsonl"))
      throw InputError("--data", fmt::format("there is no file {}", name), "a file of JSON lines, or a set on the Hub");
    return {.name = name};
  }
  constexpr std::int64_t kHead = 1 << 20;
  const InputFile file(name);
  const std::string head = file.read(0, std::min(kHead, file.size()));
  const json row = json::parse(head.substr(0, head.find('\n')), nullptr, false);
  const auto has = [&](const char* key) { return row.is_object() && row.contains(key); };
  if (has("chosen") && has("rejected")) {
    TrainingData pairs{.name = absolute_path(name).string(), .rows = DataRows::Pairs, .is_file = true};
    for (const auto& [key, value] : row.items()) pairs.columns.push_back(key);
    pairs.answers_with_texts = row["chosen"].is_string();
    return pairs;
  }
  if (has("completion") && has("label") && !has("messages"))
    return {.name = absolute_path(name).string(), .rows = DataRows::Labelled, .is_file = true};
  constexpr std::array kKinds{std::pair{"messages", DataRows::Messages}, std::pair{"completion", DataRows::Completion},
                              std::pair{"text", DataRows::Text}, std::pair{"prompt", DataRows::Prompts}};
  for (const auto& [key, rows] : kKinds)
    if (has(key)) return {.name = absolute_path(name).string(), .rows = rows, .is_file = true};
  throw InputError(
      name, "its first line is no object with messages, text, prompt and completion, chosen and rejected, or prompt",
      R"({"messages": [{"role": "user", "content": "..."}, ...]} in each line)");
}

const ChatTemplate& chat_template_of(const ModelSpec& model) {
  static const ChatTemplate kNone;
  const std::vector<TemplateRow>& rows = read_once<read_templates>();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const TemplateRow& r) { return is_for(r, model); });
  return row == rows.end() ? kNone : row->chat;
}

OrderedJson trl_data(const TrainingData& data, const ModelSpec& model) {
  if (data.name.empty()) return {{"dataset_name", model.vision.is_present() ? kImages : kTexts}};
  if (!data.is_file) return {{"dataset_name", data.name}};
  return {{"datasets", OrderedJson::array({{{"path", "json"}, {"data_files", data.name}}})}};
}

OrderedJson run_clm_data(const TrainingData& data) {
  if (data.is_file) return {{"train_file", data.name}};
  return {{"dataset_name", data.name.empty() ? kTexts : data.name}};
}

OrderedJson axolotl_data(const TrainingData& data, const ModelSpec& model) {
  const bool has_images = model.vision.is_present();
  const ChatTemplate& chat = chat_template_of(model);
  OrderedJson set{{"path", !data.name.empty() ? data.name : has_images ? kAxolotlImages : kMessages}};
  if (data.is_file) set["ds_type"] = "json";
  if (data.rows == DataRows::Messages) {
    set["type"] = "chat_template";
    set["field_messages"] = "messages";
  } else if (data.rows == DataRows::Text) {
    set["type"] = "completion";
  } else {
    set["type"] = {{"field_instruction", "prompt"},
                   {"field_output", "completion"},
                   {"format", "{instruction}"},
                   {"no_input_format", "{instruction}"}};
  }
  if (data.name.empty() && has_images) set["split"] = "train[:1%]";
  OrderedJson out{{"datasets", OrderedJson::array({set})}, {"dataset_prepared_path", "prepared"}};
  if (data.rows == DataRows::Messages)
    out["chat_template"] = chat.axolotl.empty() ? "tokenizer_default_fallback_chatml" : chat.axolotl;
  if (!chat.pad_token.empty()) out["special_tokens.pad_token"] = chat.pad_token;
  return out;
}

OrderedJson torchtune_data(const TrainingData& data) {
  const TrainingData given = data.name.empty() ? TrainingData{.name = kMessages} : data;
  const auto component = [](const char* name) { return std::string("torchtune.datasets.") + name; };
  OrderedJson out;
  if (given.rows == DataRows::Messages) {
    out = {{"dataset._component_", component("chat_dataset")},
           {"dataset.conversation_column", "messages"},
           {"dataset.conversation_style", "openai"}};
  } else if (given.rows == DataRows::Text) {
    out = {{"dataset._component_", component("text_completion_dataset")}};
  } else {
    out = {{"dataset._component_", component("instruct_dataset")},
           {"dataset.column_map", {{"input", "prompt"}, {"output", "completion"}}}};
  }
  out.update(source_of(given, "dataset.source", "dataset.data_files"));
  out["dataset.split"] = "train";
  return out;
}

OrderedJson llama_factory_data(const TrainingData& data, const ModelSpec& model) {
  const bool has_images = data.name.empty() && model.vision.is_present();
  OrderedJson set;
  set[data.is_file ? "file_name" : "hf_hub_url"] = !data.name.empty() ? data.name
                                                   : has_images       ? kFactoryImages
                                                                      : kMessages;
  if (has_images) set["subset"] = "en";
  if (data.rows == DataRows::Completion || data.rows == DataRows::Labelled) {
    set["columns"] = {{"prompt", "prompt"}, {"response", "completion"}};
    return {{"train", set}};
  }
  set["formatting"] = "sharegpt";
  set["columns"] = {{"messages", "messages"}};
  if (has_images) set["columns"]["images"] = "images";
  set["tags"] = {
      {"role_tag", "role"}, {"content_tag", "content"}, {"user_tag", "user"}, {"assistant_tag", "assistant"}};
  return {{"train", set}};
}

}  // namespace gpuplan

#include "ecosystem/method_files.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

DataRows rows_named(const std::string& word) {
  constexpr std::array kWords{std::pair{"pairs", DataRows::Pairs}, std::pair{"labelled", DataRows::Labelled},
                              std::pair{"prompts", DataRows::Prompts}, std::pair{"messages", DataRows::Messages}};
  for (const auto& [name, rows] : kWords)
    if (word == name) return rows;
  throw InputError("rows", fmt::format("'{}' is unknown", word));
}

std::vector<MethodFiles> read_method_files() {
  const std::string where = (data_dir() / "ecosystem" / "method_files.yaml").string();
  const auto tree = read_yaml11(where);
  std::vector<MethodFiles> rows;
  try {
    for (const json& row : tree->root.at("rows")) {
      const std::vector<double> rates = row.value("rates", std::vector<double>{0, 0});
      rows.push_back({.program = row.at("program"),
                      .file = row.value("file", ""),
                      .starts = row.value("starts", ""),
                      .note = row.value("note", ""),
                      .methods = row.at("methods"),
                      .needs = row.value("needs", std::vector<std::string>{}),
                      .omits = row.value("omits", std::vector<std::string>{}),
                      .says = row.value("says", std::vector<std::string>{}),
                      .set = OrderedJson(row.at("set")),
                      .file_set = OrderedJson(row.value("file_set", json())),
                      .text_set = OrderedJson(row.value("text_set", json())),
                      .keys = OrderedJson(row.value("keys", json::object())),
                      .text_keys = OrderedJson(row.value("text_keys", json::object())),
                      .message_keys = OrderedJson(row.value("message_keys", json::object())),
                      .text_columns = row.value("text_columns", std::vector<std::string>{}),
                      .why_no_texts = row.value("why_no_texts", ""),
                      .why_no_messages = row.value("why_no_messages", ""),
                      .rows = rows_named(row.at("rows")),
                      .rate = rates.at(0),
                      .adapter_rate = rates.at(1)});
    }
  } catch (const std::exception& error) { throw InputError(where, error.what()); }
  return rows;
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

const MethodFiles* find_method_files(std::string_view program, std::string_view method) {
  const std::vector<MethodFiles>& rows = read_once<read_method_files>();
  const auto found = std::ranges::find_if(
      rows, [&](const MethodFiles& row) { return row.program == program && has_word(row.methods, method); });
  return found == rows.end() ? nullptr : &*found;
}

std::string programs_of_method(std::string_view method) {
  std::vector<std::string> programs;
  for (const MethodFiles& row : read_once<read_method_files>())
    if (has_word(row.methods, method)) programs.push_back(row.program);
  if (programs.size() < 2) return programs.empty() ? "" : programs.front();
  const std::string last = programs.back();
  programs.pop_back();
  return fmt::format("{} or {}", fmt::join(programs, ", "), last);
}

std::string why_not_answers(const MethodFiles& files, const TrainingData& data) {
  if (!data.is_file || data.rows != DataRows::Pairs) return "";
  if (!data.answers_with_texts) return files.why_no_messages;
  for (const std::string& column : files.text_columns)
    if (!data.has_column(column)) return fmt::format("it reads the column {}, which they have not", column);
  return files.why_no_texts;
}

OrderedJson keys_of(const MethodFiles& files, const TrainingData& data) {
  OrderedJson keys = files.keys;
  if (data.is_file && data.rows == DataRows::Pairs)
    keys.update(data.answers_with_texts ? files.text_keys : files.message_keys);
  return keys;
}

OrderedJson set_of(const MethodFiles& files, const TrainingData& data) {
  if (data.name.empty()) return files.set;
  if (files.set.is_string()) return data.name;
  OrderedJson set = data.is_file && files.file_set.is_object() ? files.file_set : files.set;
  if (data.answers_with_texts && files.text_set.is_object()) set = files.text_set;
  if (set.contains("hf_hub_url") || files.set.contains("hf_hub_url")) {  // LLaMA-Factory's words
    for (const char* key : {"hf_hub_url", "subset"}) set.erase(key);
    set[data.is_file ? "file_name" : "hf_hub_url"] = data.name;
    return set;
  }
  set["path"] = data.name;
  if (data.is_file) set["ds_type"] = "json", set.erase("split");
  return set;
}

}  // namespace gpuplan

#include "ecosystem/methods.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/key_table.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct ForeignTable {
  std::vector<ForeignJob> jobs;
  std::vector<std::string> words;
};

std::vector<std::string> texts(const json& row, const char* key) {
  return row.contains(key) ? row.at(key).get<std::vector<std::string>>() : std::vector<std::string>{};
}

ForeignTable read_table() {
  const std::string where = (data_dir() / "ecosystem" / "methods.yaml").string();
  const auto tree = read_yaml11(where);
  ForeignTable table;
  try {
    for (const char* group : {"programs", "methods"})
      for (const json& row : tree->root.at(group))
        table.jobs.push_back({.name = row.at("name"),
                              .why = row.value("why", ""),
                              .source = row.at("source"),
                              .formats = texts(row, "formats"),
                              .keys = texts(row, "keys"),
                              .harmless = row.value("harmless", std::vector<json>{}),
                              .objective = row.value("objective", "")});
    table.words = texts(tree->root, "words");
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  return table;
}

const ForeignTable& foreign_table() { return read_once<read_table>(); }

/// "x.*" is x and all below it.
std::string bare(const std::string& key) { return key.ends_with(".*") ? key.substr(0, key.size() - 2) : key; }

bool says_nothing(const json& value) {
  if (value.is_object()) return std::all_of(value.begin(), value.end(), says_nothing);
  return value.is_null() || value == false || value == "" || (value.is_array() && value.empty());
}

/// The keys of a row that a file has, those that name the job first; empty where none names it.
std::vector<std::string> keys_in(const ForeignJob& job, const json& top) {
  std::vector<std::string> naming, others;
  for (const std::string& key : job.keys) {
    const json* value = value_at(top, bare(key));
    if (!value) continue;
    const bool is_harmless =
        says_nothing(*value) || std::find(job.harmless.begin(), job.harmless.end(), *value) != job.harmless.end();
    (is_harmless ? others : naming).push_back(bare(key));
  }
  if (!naming.empty()) naming.insert(naming.end(), others.begin(), others.end());
  return naming;
}

/// Says whether the job is planned, and trains on answers of the model, each scored, without a critic or a teacher:
/// such steps are alike.
bool is_scored_alone(const ForeignJob& job) {
  if (job.objective.empty()) return false;
  const TrainingMethod& method = find_training_method(job.objective);
  return method.generates && method.answers == 1 && !method.has_pass_of(PassModel::Critic) &&
         !method.has_pass_of(PassModel::Teacher);
}

}  // namespace

bool ForeignJob::has_key(const std::string& key) const {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& own) {
    return own == key || (own.ends_with(".*") && (key + ".").starts_with(own.substr(0, own.size() - 1)));
  });
}

std::span<const ForeignJob> foreign_jobs() { return foreign_table().jobs; }

std::optional<ForeignSign> find_foreign_program(const json& top) {
  std::optional<ForeignSign> best;
  for (const ForeignJob& job : foreign_jobs()) {
    if (!job.is_program()) continue;
    std::vector<std::string> keys = keys_in(job, top);
    if (keys.size() > (best ? best->keys.size() : 0))
      best = ForeignSign{
          .name = job.name, .why = job.why, .keys = std::move(keys), .objective = {}, .others = {}, .is_open = false};
  }
  return best;
}

std::optional<ForeignSign> find_foreign_method(std::string_view format, const json& top, std::string_view objective) {
  std::optional<ForeignSign> best;
  std::vector<std::string> names;
  bool are_alike = true;  // those with as many keys
  for (const ForeignJob& job : foreign_jobs()) {
    if (std::find(job.formats.begin(), job.formats.end(), format) == job.formats.end()) continue;
    std::vector<std::string> keys = keys_in(job, top);
    if (keys.empty()) continue;
    ForeignSign sign{.name = job.name,
                     .why = job.why,
                     .keys = std::move(keys),
                     .objective = job.objective,
                     .others = {},
                     .is_open = false};
    const bool is_said = !objective.empty() && job.objective == objective;
    if (!is_said && best && sign.keys.size() < best->keys.size()) continue;
    if (!is_said && best && sign.keys.size() == best->keys.size()) {
      names.push_back(job.name);
      are_alike &= is_scored_alone(job);
      continue;
    }
    best = std::move(sign);
    if (is_said) return best;
    names = {job.name};
    are_alike = is_scored_alone(job);
  }
  if (names.size() < 2) return best;
  if (are_alike) {  // their steps are alike, and the first is by far the most used
    best->others.assign(names.begin() + 1, names.end());
    return best;
  }
  best->name = names.size() == 2 ? names[0] + " or " + names[1] : names[0] + ", " + names[1] + " or another method";
  best->why = "each holds a further model, generates, or trains on pairs";
  best->objective.clear();
  best->is_open = true;
  return best;
}

bool names_foreign_method(std::string_view format, const std::string& key) {
  const auto jobs = foreign_jobs();
  return std::any_of(jobs.begin(), jobs.end(), [&](const ForeignJob& job) {
    return std::find(job.formats.begin(), job.formats.end(), format) != job.formats.end() && job.has_key(key);
  });
}

std::string foreign_word(std::string_view key) {
  std::string parts = "_" + to_lower(key) + "_";
  std::replace_if(
      parts.begin(), parts.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  for (const std::string& word : foreign_table().words)
    if (parts.find("_" + word + "_") != std::string::npos) return word;
  return "";
}

}  // namespace gpuplan

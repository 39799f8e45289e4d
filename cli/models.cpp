// gpuplan models: lists, searches and explains the catalogue of models.
#include <algorithm>

#include <fmt/format.h>

#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "models/catalogue.h"
#include "models/model_names.h"
#include "report/catalogue_report.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

void setup_models(CLI::App& app) {
  app.add_option("query")
      ->type_name("QUERY")
      ->description("part of a name, id or family; explained when it is exactly one model")
      ->group("Options");
  add_flag(app, "--show", "MODEL", "explain one: a name, Hugging Face config.json, or model folder");
  add_flag(app, "--refresh", "ORG/NAME",
           "get a model's config.json from the Hugging Face Hub anew, keep it, and explain it");
  add_flag(app, "--offline", "", "do not ask the Hub; HF_HUB_OFFLINE does the same");
  add_flag(app, "--json", "", "the answer as JSON");
}

bool matches(const CatalogueEntry& entry, const std::string& query) {
  const std::string wanted = squash(query);
  const auto has_it = [&](const std::string& text) { return squash(text).find(wanted) != std::string::npos; };
  if (has_it(entry.name) || has_it(entry.id) || has_it(entry.family)) return true;
  // As written: squashed, "Distill-Llama" would hold "lllama".
  return std::ranges::any_of(
      entry.same_shape, [&](const std::string& id) { return to_lower(id).find(to_lower(query)) != std::string::npos; });
}

std::vector<CatalogueEntry> models_like(const std::string& query) {
  std::vector<CatalogueEntry> entries = list_catalogue();
  std::erase_if(entries, [&](const CatalogueEntry& entry) { return !matches(entry, query); });
  return entries;
}

/// The one model that the query names or finds, whatever else contains it.
std::optional<CatalogueEntry> only_model(const std::string& query, const std::vector<CatalogueEntry>& found) {
  if (found.size() == 1) return found.front();
  const std::vector<CatalogueEntry>& all = list_catalogue();
  const auto named = match_model_name(query, all);
  if (named.size() == 1) return *named.front();
  return {};
}

int show(const ModelReport& report, bool as_json, Console& console) {
  console.print(as_json ? json_text(models_json(report)) : model_text(report, console.screen));
  return 0;
}

int refuse_model(const std::string& query, bool as_json, Console& console) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : list_catalogue()) names.push_back(entry.name);
  if (as_json) console.print("{\"models\": []}\n");
  console.tell(
      fmt::format("no model matches '{}': {}", query, did_you_mean(query, names, "'gpuplan models' lists them all")));
  return 1;
}

int run_models(const CLI::App& app, Console& console) {
  const bool as_json = is_given(app, "--json");
  if (const auto id = given(app, "--refresh"))
    return show(report_model(refresh_model(*id, given_hub(app))), as_json, console);
  if (const auto name = given(app, "--show")) return show(report_model(*name, given_hub(app)), as_json, console);
  const std::string query = given(app, "query").value_or("");
  const std::vector<CatalogueEntry> found = models_like(query);
  if (!query.empty())
    if (const auto model = only_model(query, found)) return show(report_model(*model), as_json, console);
  if (found.empty()) return refuse_model(query, as_json, console);
  console.print(as_json ? json_text(models_json(found)) : models_text(found, console.screen));
  return 0;
}

}  // namespace

const Command kModels{.name = "models",
                      .summary = "list, search and explain models",
                      .usage = "[QUERY] [--show MODEL] [--refresh ORG/NAME] [--offline] [--json]",
                      .example =
                          "gpuplan models qwen2.5\n"
                          "gpuplan models llama3-8b\n"
                          "gpuplan models --json",
                      .first_flags = "--show --refresh --offline --json",
                      .setup = setup_models,
                      .run = run_models,
                      .has_tables = true};

}  // namespace gpuplan

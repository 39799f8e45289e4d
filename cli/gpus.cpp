// gpuplan gpus: lists, searches and explains the catalogue of GPUs.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cluster/gpu_catalogue.h"
#include "report/catalogue_report.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

void setup_gpus(CLI::App& app) {
  app.add_option("query")
      ->type_name("QUERY")
      ->description("part of a name, vendor or architecture; explained when it is exactly one GPU")
      ->group("Options");
  add_flag(app, "--json", "", "the answer as JSON, in base units");
}

bool matches(const GpuSpec& gpu, const std::string& query) {
  const std::string wanted = squash(query);
  for (const std::string* text : {&gpu.id, &gpu.name, &gpu.vendor, &gpu.architecture})
    if (squash(*text).find(wanted) != std::string::npos) return true;
  return false;
}

/// The GPU that the query means without anything being assumed.
std::optional<GpuSpec> exact_gpu(const std::string& query) {
  const auto known = known_gpu(query);  // unknown or several: the search says which
  return known && known->assumption.empty() ? std::optional(find_gpu(known->id, nullptr)) : std::nullopt;
}

std::vector<GpuReport> gpus_like(const std::string& query) {
  if (!query.empty())
    if (const auto gpu = exact_gpu(query)) return {report_gpu(*gpu)};
  std::vector<GpuReport> found;
  for (const GpuSpec& gpu : list_gpus())
    if (matches(gpu, query)) found.push_back(report_gpu(gpu));
  if (const auto assumed = found.empty() ? known_gpu(query) : std::nullopt)  // "A100-80"
    found.push_back(report_gpu(find_gpu(assumed->id, nullptr)));
  return found;
}

int refuse_gpu(const std::string& query, bool as_json, Console& console) {
  if (as_json) console.print("{\"gpus\": []}\n");
  console.tell(fmt::format("no GPU matches '{}': {}", query, how_to_describe(query)));
  return 1;
}

void show(std::vector<GpuReport> found, Console& console) {
  if (found.size() > 1) return console.print(gpus_text(found, console.screen));
  found.front().machines = machines_with(found.front().gpu.id);
  console.print(gpu_text(found.front(), console.screen));
}

int run_gpus(const CLI::App& app, Console& console) {
  const bool as_json = is_given(app, "--json");
  const std::string query = given(app, "query").value_or("");
  std::vector<GpuReport> found = gpus_like(query);
  if (found.empty()) return refuse_gpu(query, as_json, console);
  if (as_json)
    console.print(json_text(gpus_json(found)));
  else
    show(std::move(found), console);
  return 0;
}

}  // namespace

const Command kGpus{.name = "gpus",
                    .summary = "list, search and explain GPUs",
                    .usage = "[QUERY] [--json]",
                    .example =
                        "gpuplan gpus hopper\n"
                        "gpuplan gpus A6000\n"
                        "gpuplan gpus --json",
                    .first_flags = "--json",
                    .setup = setup_gpus,
                    .run = run_gpus,
                    .has_tables = true};

}  // namespace gpuplan

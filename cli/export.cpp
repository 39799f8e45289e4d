// gpuplan export: a plan as the files of other programs.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/exported_files.h"
#include "ecosystem/carried_keys.h"
#include "ecosystem/export.h"
#include "planner/plan/plan_file.h"

namespace gpuplan {
namespace {

void setup_export(CLI::App& app) {
  app.add_option("plan")
      ->type_name("PLAN.json")
      ->description("a plan saved by estimate --save or plan --save; '-' is standard input");
  add_flag(app, "--for", "TARGET", fmt::format("which program: {}", fmt::join(export_targets(), ", ")));
  add_flag(app, "--versions", "LIST",
           "of the programs that will read the files: accelerate=1.10,torch=2.6. Default: the newest that is known");
  add_flag(app, "--data", "FILE|NAME",
           "what the files train on: JSON lines, or a set on the Hub. Default: a small public set");
  add_flag(app, "--output", "DIR", "write the files there; without it they are printed");
  add_flag(app, "--force", "", "replace files that are there");
}

std::string plan_text(const std::string& name, Console& console) {
  if (name == "-") return read_stream(console.in, "standard input", kPlanLimit);
  return read_file(name, kPlanLimit);
}

/// The path of a file here from the folder that is written, in which the launcher starts the trainer; nothing for what
/// is no file here, or has the same path there.
std::optional<std::string> path_from(const std::string& folder, const std::string& text, const std::string& named_by) {
  namespace fs = std::filesystem;
  constexpr std::size_t kLongestPath = 1024;
  const fs::path path = text;
  if (text.empty() || text.size() > kLongestPath || path.is_absolute()) return std::nullopt;
  for (const fs::path& here : {path, fs::path(named_by).parent_path() / path}) {
    if (!is_file(here)) continue;
    const std::string there =
        absolute_path(here).lexically_normal().lexically_proximate(absolute_path(folder).lexically_normal()).string();
    return there == text ? std::nullopt : std::optional(there);
  }
  return std::nullopt;
}

/// A file of the user that an export names by another path, as the trainer finds it from the folder.
struct MovedPath {
  std::string here, there;
};

/// Takes the parts of an export that come from the user's own files, with their paths as the trainer finds them from
/// the folder.
ExportPlaces places_of(const CLI::App& app, const nlohmann::json& plan, std::vector<MovedPath>& moved) {
  const auto folder = given(app, "--output"), data = given(app, "--data");
  ExportPlaces out{.data = data ? training_data(*data) : TrainingData{}, .carried = carried_by(plan)};
  if (!folder) return out;
  std::string by;
  const auto relocated = [&](const std::string& text) {
    auto there = path_from(*folder, text, by);
    if (there) moved.push_back({text, *there});
    return there;
  };
  if (out.data.is_file)
    if (auto there = relocated(out.data.name)) out.data.name = std::move(*there);
  if (!out.carried) return out;
  by = out.carried->file;
  out.carried = std::make_shared<const CarriedSettings>(with_paths(*out.carried, relocated));
  return out;
}

/// Says whether a file that is written has the path: the settings of another trainer's file are left behind.
bool names_it(const std::vector<ExportedFile>& files, const std::string& path) {
  return std::ranges::any_of(files,
                             [&](const ExportedFile& file) { return file.content.find(path) != std::string::npos; });
}

int run_export(const CLI::App& app, Console& console) {
  const auto name = given(app, "plan"), target = given(app, "--for"), folder = given(app, "--output"),
             versions = given(app, "--versions");
  if (!name) throw InputError("", "a plan is needed", "gpuplan estimate ... --save plan.json makes one");
  if (!target) throw InputError("--for", "is needed", fmt::format("known: {}", fmt::join(export_targets(), ", ")));
  const std::string where = *name == "-" ? "standard input" : *name, text = plan_text(*name, console);
  const nlohmann::json plan = parse_json(text, where);
  EstimateRequest request = parse_plan(plan, where);
  std::vector<MovedPath> moved;
  const ExportPlaces places = places_of(app, plan, moved);
  if (places.carried) request.recipe.seq_len = std::max(request.recipe.seq_len, length_of(*places.carried));
  const ExportAnswer answer = export_plan(request, *target, {.file = where, .sha256 = sha256_hex(text)},
                                          versions ? parse_versions(*versions) : Versions{}, places);
  if (answer.is_refused()) {
    console.tell(fmt::format("{}\n  nearest: {}", answer.refusal, answer.nearest));
    return 1;
  }
  if (folder)
    write_exported(answer.files, *folder, is_given(app, "--force") ? Replaces::Everything : Replaces::Nothing, console,
                   *name == "-" ? "" : *name);
  else
    console.print(printable(listing_of(answer.files)));
  for (const auto& [here, there] : moved)
    if (names_it(answer.files, there))
      console.tell(fmt::format("{} is named {}: the trainer is started in {}", here, there, *folder));
  for (const std::string& note : answer.notes) console.tell(note);  // of what was exported, not of what was refused
  return 0;
}

}  // namespace

const Command kExport{.name = "export",
                      .summary = "a plan as the files of accelerate, DeepSpeed, TRL, Slurm and others",
                      .usage = "PLAN.json --for TARGET [--output DIR]",
                      .example =
                          "gpuplan export plan.json --for trl --output job\n"
                          "gpuplan export plan.json --for accelerate --versions accelerate=1.5,torch=2.5\n"
                          "gpuplan export plan.json --for torchrun --output plain",
                      .first_flags = "--for --data --output --versions --force",
                      .setup = setup_export,
                      .run = run_export};

}  // namespace gpuplan

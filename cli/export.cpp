// gpuplan export: a plan as the files of other programs.
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/exported_files.h"
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

int run_export(const CLI::App& app, Console& console) {
  const auto name = given(app, "plan"), target = given(app, "--for"), folder = given(app, "--output"),
             versions = given(app, "--versions"), data = given(app, "--data");
  if (!name) throw InputError("", "a plan is needed", "gpuplan estimate ... --save plan.json makes one");
  if (!target) throw InputError("--for", "is needed", fmt::format("known: {}", fmt::join(export_targets(), ", ")));
  const std::string where = *name == "-" ? "standard input" : *name, text = plan_text(*name, console);
  const nlohmann::json plan = parse_json(text, where);
  const EstimateRequest request = parse_plan(plan, where);
  const ExportAnswer answer = export_plan(
      request, *target, {.file = where, .sha256 = sha256_hex(text)}, versions ? parse_versions(*versions) : Versions{},
      {.data = data ? training_data(*data) : TrainingData{}, .carried = carried_by(plan)});
  if (answer.is_refused()) {
    console.tell(fmt::format("{}\n  nearest: {}", answer.refusal, answer.nearest));
    return 1;
  }
  if (folder)
    write_exported(answer.files, *folder, is_given(app, "--force") ? Replaces::Everything : Replaces::Nothing, console,
                   *name == "-" ? "" : *name);
  else
    console.print(printable(listing_of(answer.files)));
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

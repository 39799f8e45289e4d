// gpuplan plan: what to rent and how to run it, from what the user wants.
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "cli/search_flags.h"
#include "planner/estimate.h"
#include "planner/plan/plan_file.h"
#include "report/answers.h"
#include "report/json/plan_json.h"
#include "report/text/plan_text.h"

namespace gpuplan {
namespace {

constexpr std::size_t kUsualRows = 4, kMostRows = 10;

void setup(CLI::App& app) {
  add_plan_flags(app);
  add_search_flags(app);
  add_flag(app, "--json", "", "the answer as JSON, in base units");
  add_flag(app, "--save", "FILE", "write the recommended plan; nothing when there is none");
}

std::size_t num_rows(const CLI::App& app) {
  const auto top = given(app, "--top");
  if (!top) return kUsualRows;
  const auto rows = std::size_t(parse_integer(*top, "--top", 1));
  if (rows > kMostRows)
    throw InputError("--top", fmt::format("{} is too many", *top), fmt::format("1 to {}", kMostRows));
  return rows;
}

void save(const PlanAnswer& answer, const std::string& file, Console& console) {
  if (!answer.found.has_plan()) {
    console.err << fmt::format("gpuplan: there is no plan, so {} was not written\n", file);
    return;
  }
  const EstimateRequest& request = answer.found.rows.front().request;
  const EstimateResult result = estimate(request);
  write_file_atomically(file, json_text(make_plan(request, result, result.strategies.front())));
  console.err << fmt::format("gpuplan: the {} plan is saved in {}\n", request.strategy, file);
}

int run(const CLI::App& app, Console& console) {
  const std::size_t most = num_rows(app);
  AskedSearch asked = read_search(app, console.in);
  PlanAnswer out{.question = std::move(asked.question),
                 .found = {},
                 .notes = std::move(asked.notes),
                 .command = console.command_line};
  out.found = answer(out.question, asked.given, most, {});
  console.print(is_given(app, "--json") ? json_text(plan_json(out)) : plan_text(out, console.screen));
  if (const auto file = given(app, "--save")) save(out, *file, console);
  return out.found.has_plan() ? 0 : 1;
}

}  // namespace

const Command kPlan{
    .name = "plan",
    .summary = "what to rent and how to run it, from what you want",
    .usage = "--model MODEL [--gpus GPUS] [--under TIME] [--budget USD] [OPTION]...",
    .example =
        "gpuplan plan --model llama3-8b --rows 50000 --tokens-per-row 800 --epochs 3 --under 6h --budget 100\n"
        "gpuplan plan --model llama-3.1-70b --method any --gpus 4xA6000\n"
        "gpuplan plan --model qwen2.5-7b --lora r=16 --vendor runpod --top 10 --json",
    .setup = setup,
    .run = run};

}  // namespace gpuplan

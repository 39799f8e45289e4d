#include "execute/commands.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/processor.h"
#include "cli/arguments.h"
#include "cli/output_flags.h"
#include "cli/plan_question.h"
#include "device/mpi_command.h"
#include "report/answers.h"
#include "run/launch.h"

namespace gpuplan {
namespace {

constexpr std::string_view kReplacedFlags[] = {"--gpus",    "--max-steps", "--lr",         "--output",
                                               "--metrics", "--trace",     "--save-every", "--keep",
                                               "--resume",  "--strategy",  "--shard-size"};
constexpr const char* kDemoOutput = "gpuplan-demo";

/// The demo is `gpuplan run` with these flags, where they are not given otherwise.
struct DemoFlag {
  const char* name;
  std::string value;
};

std::vector<DemoFlag> demo_flags() {
  const std::filesystem::path demo = data_dir() / "demo";
  return {{"--model", demo.string()}, {"--data", (demo / "tokens.jsonl").string()},
          {"--lora", "r=16"},         {"--seq-len", "256"},
          {"--micro-batch", "4"},     {"--lr", "1e-2"},
          {"--max-steps", "300"},     {"--schedule", "cosine"},
          {"--warmup", "10"},         {"--output", kDemoOutput}};
}

/// "--flag=value", and "--flag" with the value behind it.
std::vector<std::string> without_flags(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    const bool is_replaced =
        std::find(std::begin(kReplacedFlags), std::end(kReplacedFlags), name) != std::end(kReplacedFlags);
    if (!is_replaced)
      out.push_back(arguments[i]);
    else if (name == arguments[i] && name != "--resume")
      ++i;
  }
  return out;
}

/// The loss of the first batch, with or without an adapter: a step with learning rate 0, in this process.
double loss_of_first_batch(std::vector<std::string> arguments, Console& console, const std::string& adapter) {
  arguments = without_flags(arguments);
  arguments.insert(arguments.end(), {"--gpus=1xcpu", "--max-steps=1", "--lr=0", "--json"});
  if (!adapter.empty()) arguments.push_back("--adapter=" + adapter);
  std::ostringstream out, err;
  Console quiet{console.in, out, err, err, {}, console.command_line, arguments};
  CLI::App app;
  declare_commands(app);
  run_run(*gpuplan::parse(app, arguments).app, quiet);
  return nlohmann::json::parse(out.str())["first_loss"].get<double>();
}

/// Shows that the saved model is the trained one: read back, it keeps the loss down.
void show_reloaded(const std::vector<std::string>& arguments, const std::string& output, Console& console) {
  const double before = loss_of_first_batch(arguments, console, ""),
               after = loss_of_first_batch(arguments, console, output);
  console.print(fmt::format("adapter read back from {}: loss {:.4f} on the first batch, {:.4f} without it\n", output,
                            after, before));
}

}  // namespace

std::string fastest_cpu_ranks(const std::vector<std::string>& arguments) {
  std::string best = "1xcpu";
  double most = 0;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{num_usable_cores()}}) {
    if (n > 1 && !has_mpirun()) continue;
    std::vector<std::string> with = arguments;
    with.insert(with.end(), {"--gpus", fmt::format("{}xcpu", n)});
    CLI::App app;
    declare_commands(app);
    std::istringstream nothing;
    PlanQuestion plan = read_plan_question(*parse(app, with).app, nothing, "native");
    plan.request.recipe.framework = "native";
    const EstimateResult result = estimate(plan.request, InFull::InFocus);
    const StrategyEstimate* chosen = strategy_in_focus(result);
    if (!chosen || !chosen->fits() || chosen->tokens_per_second <= most) continue;
    most = chosen->tokens_per_second;
    best = fmt::format("{}xcpu", n);
  }
  return best;
}

int run_with(const std::vector<std::string>& arguments, Console& console) {
  console.arguments = arguments;
  if (read_launcher().launcher == Launcher::None) console.tell(fmt::format("gpuplan {}", fmt::join(arguments, " ")));
  CLI::App app;
  declare_commands(app);
  const Parsed parsed = parse(app, arguments);
  check_outputs(*parsed.app);  // also of what was added to the given flags
  return run_run(*parsed.app, console);
}

int run_demo(const CLI::App& given_flags, Console& console) {
  std::vector<std::string> arguments;
  for (const std::string& argument : console.arguments)
    if (argument != "--demo") arguments.push_back(argument);
  const bool has_method =
      is_given(given_flags, "--full") || is_given(given_flags, "--lora") || is_given(given_flags, "--qlora");
  for (const DemoFlag& flag : demo_flags())
    if (!is_given(given_flags, flag.name) && !(has_method && std::string_view(flag.name) == "--lora"))
      arguments.push_back(fmt::format("{}={}", flag.name, flag.value));
  const std::string output = given(given_flags, "--output").value_or(kDemoOutput);
  if (!is_given(given_flags, "--resume")) arguments.push_back("--resume");  // after a Ctrl-C
  if (!is_given(given_flags, "--gpus")) arguments.push_back("--gpus=" + fastest_cpu_ranks(arguments));
  const int code = run_with(arguments, console);
  const bool shows =
      code == 0 && !has_method && !is_given(given_flags, "--json") && read_launcher().launcher == Launcher::None;
  if (shows) show_reloaded(arguments, output, console);
  return code;
}

}  // namespace gpuplan

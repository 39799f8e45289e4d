// gpuplan simulate: what happens inside one step, and why.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_files.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "cluster/topology_builder.h"
#include "planner/changes.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "planner/machine_changes.h"
#include "report/answers.h"
#include "report/html/reports.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "report/text/topology_svg.h"
#include "report/trace/chrome_trace.h"
#include "sim/remedies.h"

namespace gpuplan {
namespace {

std::string what_if_help() {
  std::string machine, recipe;
  for (const Change& change : changes())
    if (change.machine)
      machine += fmt::format(", {} ({})", change.name, change.machine->unit);
    else
      recipe += fmt::format(", {}", change.name);
  return fmt::format("change the machine: {}; or the plan: {}", machine.substr(2), recipe.substr(2));
}

void setup_simulate(CLI::App& app) {
  add_plan_flags(app);
  add_config_flag(app);
  add_choice_flags(app);
  add_flag(app, "--network", "flow|analytic", "transfers that share links, or closed forms. Default flow",
           "Simulation");
  add_flag(app, "--no-fold", "", "simulate every rank, also those that behave alike", "Simulation");
  add_flag(app, "--seed", "S", "of the jitter. Default 0", "Simulation");
  add_flag(app, "--jitter", "SHARE", "relative deviation of every compute task, e.g. 0.02. Default 0", "Simulation");
  add_flag(app, "--straggler", "RANK=FACTOR,...", "ranks whose compute takes longer, e.g. 3=1.2", "Simulation");
  add_flag(app, "--what-if", "NAME=VALUE,...", what_if_help(), "Simulation");
  add_flag(app, "--compare", "STRATEGY,...", "simulate these strategies beside it, e.g. ddp,fsdp,zero3,mp",
           "Simulation");
  add_flag(app, "--scaling", "N,N,...", "simulate it on these numbers of GPUs, e.g. 1,2,4,8", "Simulation");
  add_flag(app, "--chart-from", "TIME", "begin of the chart, e.g. 20ms", "Simulation");
  add_flag(app, "--chart-to", "TIME", "end of the chart", "Simulation");
  add_flag(app, "--explain", "", "also what the step waits for, streams, links, and all that is assumed");
  add_flag(app, "--trace", "FILE", "write the timeline for Perfetto (Chrome trace format)");
  add_flag(app, "--html", "FILE", "write a report: one page that works offline");
  add_force_flag(app);
  add_flag(app, "--json", "", "the answer as JSON, in base units");
}

std::vector<std::pair<std::int64_t, double>> read_stragglers(const std::string& text) {
  std::vector<std::pair<std::int64_t, double>> out;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos)
      throw InputError("--straggler", fmt::format("'{}' is not RANK=FACTOR", part), "for example 3=1.2");
    out.emplace_back(to_integer(part.substr(0, equals)), parse_number(part.substr(equals + 1), "--straggler"));
  }
  return out;
}

/// The plan, the plan as it is where something is changed, and what it is compared with.
std::uint64_t num_simulations(const CLI::App& app) {
  std::uint64_t count = is_given(app, "--what-if") ? 2 : 1;
  for (const char* flag : {"--compare", "--scaling"})
    if (const auto list = given(app, flag)) count += split(*list, ',').size();
  return count;
}

SimOptions read_options(const CLI::App& app) {
  SimOptions options;
  options.most_tasks = kMostTasks / num_simulations(app);
  if (const auto network = given(app, "--network")) options.network = network_fidelity(*network);
  options.folds = !is_given(app, "--no-fold");
  options.seed = std::uint64_t(given_integer(app, "--seed").value_or(0));
  options.jitter = given_number(app, "--jitter").value_or(0);
  if (const auto slow = given(app, "--straggler")) options.stragglers = read_stragglers(*slow);
  return options;
}

const Strategy& choose(const EstimateResult& result) {
  if (const StrategyEstimate* chosen = strategy_in_focus(result)) return chosen->strategy;
  throw no_strategy(result);
}

std::string compared_strategy(const std::string& text) {
  try {
    return canonical_strategy(trim(text));
  } catch (const InputError& error) { throw InputError("--compare", error.problem(), error.hint()); }
}

class Simulator {
 public:
  Simulator(SimulationAnswer& answer, std::vector<Setting> settings) : a_(answer), settings_(std::move(settings)) {}

  SimulatedPlan run(const EstimateRequest& request, const Strategy& strategy, bool is_closely_looked_at) const {
    SimOptions options = a_.options;
    options.records_spans = is_closely_looked_at;
    return simulate_plan(Job(request, a_.result.model, a_.result.framework, a_.result.profile, strategy), options);
  }

  /// Strategies beside the chosen one.
  void compare(const std::string& names) {
    const EstimateRequest& r = a_.request;
    for (const std::string& text : split(names, ',')) {
      const Strategy strategy = make_strategy(compared_strategy(text), r.cluster, r.options);
      if (const std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model); !why.empty()) {
        note_missing(fmt::format("{} is not compared: {}", strategy.name, why));
        continue;
      }
      a_.comparison.push_back(run(r, strategy, false));
    }
  }

  void scale(const std::string& counts) {
    for (const std::string& text : split(counts, ',')) {
      EstimateRequest r = a_.request;
      divide_gpus(r, to_integer(text));
      const bool is_changed =
          r.cluster.num_gpus() == a_.request.cluster.num_gpus();  // others: from the catalogue again
      for (const Setting& setting : settings_)
        if (setting.change->machine && (!is_changed || !why_not(setting, r).empty())) apply_where_it_can(setting, r);
      std::string name = a_.plan.estimate.strategy.name;
      if (r.cluster.num_gpus() == 1) name = strategy_names().front();
      const Strategy strategy = make_strategy(name, r.cluster, r.options);
      if (const std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model); !why.empty())
        throw InputError("--scaling", fmt::format("{} on {} GPUs: {}", name, text, why),
                         "choose other numbers of GPUs");
      a_.scaling.push_back(run(r, strategy, false));
    }
  }

 private:
  /// A network means nothing where all GPUs are in one machine: the other numbers of GPUs have it.
  void apply_where_it_can(const Setting& setting, EstimateRequest& r) {
    if (why_not(setting, r).empty())
      r = changed({r, a_.result.profile}, {&setting, 1}).request;
    else
      note_missing(fmt::format("{} GPUs without {}: {}", r.cluster.num_gpus(), describe(setting), why_not(setting, r)));
  }

  void note_missing(const std::string& why) {
    a_.assumptions.push_back(why);
    a_.not_compared.push_back(why);
  }

  SimulationAnswer& a_;
  std::vector<Setting> settings_;
};

/// Changes the question and what was resolved of it; returns the strategy as it then is.
Strategy apply_settings(SimulationAnswer& a, const std::vector<Setting>& settings) {
  Variant variant = changed({a.request, a.result.profile}, settings);
  a.request = std::move(variant.request);
  a.result.profile = std::move(variant.profile);
  const EstimateRequest& r = a.request;
  validate_recipe(r.recipe, r.model, r.cluster);
  a.result.model = prepare(r.model, r.recipe, a.result.framework);
  const Strategy strategy = make_strategy(r.strategy, r.cluster, options_for(r));
  if (const std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model); !why.empty())
    throw InputError("--what-if", fmt::format("{} is not possible then: {}", strategy.name, why));
  return strategy;
}

/// Says why a step is as long as before; empty where it is not, or where nothing of the kind is known.
std::string why_no_effect(const SimulatedPlan& before, const SimulatedPlan& after, const ClusterSpec& was,
                          const ClusterSpec& is, const std::vector<Setting>& settings) {
  constexpr double kVisible = 0.005, kWaits = 0.01;
  const Seconds step = before.simulation.step_time();
  const bool is_of_links = std::ranges::all_of(
      settings, [](const Setting& s) { return s.change->machine && s.change->machine->is_of_links; });
  if (!is_of_links || std::abs(after.simulation.step_time() / step - 1) >= kVisible) return {};
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.push_back(describe(setting));
  const std::string what = fmt::format("{} changes nothing", fmt::join(names, " and "));
  const bool has_same_links =
      was.intra == is.intra && was.inter == is.inter && was.host_link == is.host_link && was.fabric == is.fabric;
  if (was.num_gpus() == 1 && was.host_link.value == is.host_link.value)
    return fmt::format("{}: one GPU alone sends nothing to others", what);
  if (was.gpus == is.gpus && has_same_links) return fmt::format("{}: it is so already ({})", what, was.fabric_text);
  const double waits = before.simulation.exposed_communication / step;
  if (waits < kWaits)
    return fmt::format("{}: what is sent moves while the GPUs compute; of the step they wait {:.1f} % for it", what,
                       100 * waits);
  if (was.num_nodes() > 1 && was.inter == is.inter && was.intra != is.intra)
    return fmt::format("{}: the step waits for the network between machines", what);
  return {};
}

SimulationAnswer answer_question(const CLI::App& app, Console& console) {
  PlanQuestion question = read_config_question(app, console.in, given_configs(app));
  SimulationAnswer a;
  a.request = std::move(question.request);
  a.options = read_options(app);
  set_choice(app, a.request);
  a.result = estimate(a.request, InFull::InFocus);
  a.request = a.result.request;
  a.request.not_given = {};  // what follows changes the plan that was chosen
  a.assumptions = question.notes;
  if (!a.result.chosen.flags.empty())
    a.assumptions.push_back(fmt::format("chosen freely: {}; --as-given keeps the trainer's defaults",
                                        fmt::join(a.result.chosen.flags, " ")));
  a.assumptions.insert(a.assumptions.end(), a.result.assumptions.begin(), a.result.assumptions.end());
  Strategy strategy = choose(a.result);
  const auto text = given(app, "--what-if");
  const std::vector<Setting> settings = text ? parse_settings(*text) : std::vector<Setting>{};
  for (const Setting& setting : settings)  // a row that is a flag has the flag's range
    check_ranges("simulate", fmt::format("--{}", setting.change->name), setting.value);
  Simulator simulator(a, settings);
  std::vector<Setting> here = settings;  // a scaling curve has other machines for those that mean nothing on this one
  if (is_given(app, "--scaling"))
    std::erase_if(here, [&](const Setting& setting) { return !why_not(setting, a.request).empty(); });
  ClusterSpec was;
  if (!here.empty()) {
    a.comparison.push_back(simulator.run(a.request, strategy, false));
    a.comparison.back().label = fmt::format("{}, as it is", strategy.name);
    a.request.strategy = strategy.name;
    was = a.request.cluster;
    strategy = apply_settings(a, here);
    for (const Setting& setting : here) a.assumptions.push_back("what if: " + describe(setting));
  }
  a.request.options = options_for(a.request);
  a.plan = simulator.run(a.request, strategy, true);
  if (!here.empty()) {
    a.comparison.push_back(a.plan);
    a.comparison.back().label = fmt::format("{}, {}", strategy.name, *text);
    if (std::string why = why_no_effect(a.comparison.front(), a.plan, was, a.request.cluster, here); !why.empty()) {
      a.assumptions.push_back(why);
      a.not_compared.push_back(std::move(why));
    }
  }
  add_remedies(a.plan, a.request, a.result.framework, a.result.profile);
  if (question.set_up.value > 0 && a.plan.total.value > 0) {
    const Seconds all = a.plan.total + question.set_up;
    if (a.plan.cost_usd) *a.plan.cost_usd *= all / a.plan.total;
    a.plan.total = all, a.set_up = question.set_up;
  }
  if (const auto names = given(app, "--compare")) simulator.compare(*names);
  if (const auto counts = given(app, "--scaling")) simulator.scale(*counts);
  return a;
}

/// Throws InputError for a window that is empty or begins after the step.
GanttView read_view(const CLI::App& app, Seconds step) {
  GanttView view;
  const auto from = given_time(app, "--chart-from"), to = given_time(app, "--chart-to");
  if (from && from->value >= step.value)
    throw InputError("--chart-from", "is after the end of the step",
                     fmt::format("the step takes {}", format_duration(step)));
  if (to && to->value <= (from ? from->value : 0))
    throw InputError("--chart-to", "is not after --chart-from", "for example --chart-from 20ms --chart-to 60ms");
  if (from) view.begin = to_sim_time(*from);
  if (to) view.end = to_sim_time(std::min(*to, 2 * step));
  return view;
}

/// The machine, where there is something to see; drawing thousands of GPUs would take long.
std::string machine_picture(const ClusterSpec& cluster) {
  constexpr std::int64_t kMostDrawn = 4096;
  const bool is_drawn = cluster.num_gpus() > 1 && cluster.num_gpus() <= kMostDrawn;
  return is_drawn ? topology_svg(build_topology(cluster)) : "";
}

int run_simulate(const CLI::App& app, Console& console) {
  SimulationAnswer answer = answer_question(app, console);
  const GanttView view = read_view(app, answer.plan.simulation.step_time());
  answer.command = console.command_line;
  answer.is_brief = !is_given(app, "--explain") && console.screen.format == TableFormat::Text;
  const StrategyEstimate& e = answer.plan.estimate;
  // figures alone do not say it
  if (e.fit != Fit::Yes && (is_given(app, "--json") || console.screen.format != TableFormat::Text))
    console.tell(fmt::format("{} {}: {}", e.strategy.name, fits_words(e, e.fit >= Fit::IfHost), e.why_not_yes));
  const auto save = [&](const char* flag, const std::string& content) {
    const std::string file = *given(app, flag);
    write_output(file, content, console, fmt::format("written to {}", file));
  };
  if (is_given(app, "--trace")) save("--trace", chrome_trace(answer));
  if (is_given(app, "--html")) {
    answer.topology_svg = machine_picture(answer.request.cluster);
    save("--html", simulation_report(answer));
  }
  console.print(is_given(app, "--json") ? json_text(simulation_json(answer))
                                        : simulation_text(answer, view, console.screen));
  return 0;
}

}  // namespace

const Command kSimulate{
    .name = "simulate",
    .summary = "what happens inside one step, and why",
    .usage = "[PLAN.json] --model MODEL [--full | --lora | --qlora] --gpus GPUS [OPTION]...",
    .example =
        "gpuplan simulate --model llama3-8b --lora r=8 --gpus 4xA6000\n"
        "gpuplan simulate --model llama3-8b --full --cluster dgx-h100 --num-gpus 64 --compare fsdp,hsdp,zero3\n"
        "gpuplan simulate plan.json --what-if nvlink=900 --html report.html --trace trace.json",
    .first_flags =
        "--model --from --gpus --lora --strategy --what-if --compare --scaling --straggler --trace --html --json",
    .setup = setup_simulate,
    .run = run_simulate,
    .has_tables = true};

}  // namespace gpuplan

#include "report/text/simulation_facts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/activity_look.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

constexpr std::string_view kBubble = "bubble";

std::string rate_text(double tokens_per_second) {
  return tokens_per_second >= 99.5 ? format_grouped(std::llround(tokens_per_second))
                                   : fmt::format("{:.3g}", tokens_per_second);
}

/// Counts the work of MFU: a frozen weight has no gradient of its own.
std::string_view model_flops_text(const Recipe& recipe) {
  return recipe.method == Method::Full ? "6 FLOPs per parameter and token, and attention"
                                       : "4 FLOPs per frozen parameter and token, 6 per trained one, and attention";
}

std::string utilisation_text(const Simulation& simulation) {
  return fmt::format("a kernel is resident {:.0f} % of the step (as nvidia-smi counts), a compute kernel runs {:.0f} %",
                     100 * simulation.resident, 100 * simulation.compute);
}

std::string epoch_text(const SimulatedPlan& plan) {
  if (plan.steps_per_epoch == 0) return "";
  return fmt::format("{} for {} steps", format_duration(plan.epoch), format_grouped(plan.steps_per_epoch));
}

std::string training_text(const SimulationAnswer& answer) {
  const SimulatedPlan& plan = answer.plan;
  if (plan.steps_per_epoch == 0) return "";
  const double epochs = answer.request.dataset.epochs;
  std::string text = fmt::format("{} for {:g} epoch{}{}", format_duration(plan.total), epochs, epochs == 1 ? "" : "s",
                                 set_up_words(answer.set_up));
  if (!plan.cost_usd) return text + "; no price is known";
  const std::int64_t gpus = plan.estimate.num_gpus_used;
  return text + fmt::format(", {} on {} GPU{}", format_usd(*plan.cost_usd), gpus, gpus == 1 ? "" : "s");
}

}  // namespace

std::vector<Fact> speed_facts(const SimulationAnswer& answer) {
  const SimulatedPlan& plan = answer.plan;
  const Simulation& simulation = plan.simulation;
  return {{"step", with_range(simulation.step_time(), plan.estimate.time_range)},
          {"speed", fmt::format("{} tokens/s, {} per GPU", rate_text(plan.tokens_per_second),
                                rate_text(plan.tokens_per_second_per_gpu))},
          {"MFU",
           fmt::format("{:.1f} % of the datasheet rate: {}", 100 * plan.mfu, model_flops_text(answer.request.recipe))},
          {"HFU", fmt::format("{:.1f} %: the FLOPs executed, what is recomputed included", 100 * plan.hfu)},
          {"utilisation", utilisation_text(simulation)},
          {"memory", fmt::format("{} of {} on the fullest GPU", format_bytes(shown_memory(plan.estimate)),
                                 format_bytes(plan.estimate.tiers.usable))},
          {"epoch", epoch_text(plan)},
          {"training", training_text(answer)}};
}

std::vector<StepShare> step_shares(const Simulation& simulation) {
  const Seconds step = simulation.step_time();
  // those who wait for it compute slower meanwhile: the kernel of their collective holds multiprocessors
  const bool has_straggler = std::ranges::any_of(simulation.critical, &CriticalItem::is_straggler);
  std::vector<StepShare> out{
      {"compute",
       has_straggler ? "a compute kernel runs; slower beside a collective that waits" : "a compute kernel runs", 0,
       simulation.compute * step - simulation.side_compute},
      {"exposed communication", "compute waits while data moves", 0,
       simulation.exposed_communication - simulation.side_exposed},
      {std::string(kBubble), "waits for another pipeline stage", 0, simulation.bubble},
      {"host-bound", "waits for the host to launch kernels", 0, simulation.host_bound},
      {"idle", "nothing of the above", 0, simulation.idle}};
  for (const CriticalItem& item : simulation.critical)
    if (item.is_phase) out.push_back({item.what, "before or after the pass with gradients", 0, item.time});
  for (StepShare& s : out)
    if (step.value > 0) s.share = s.time / step;
  return out;
}

std::string step_text(const SimulationAnswer& answer) {
  const SimulatedPlan& plan = answer.plan;
  const std::string training = training_text(answer);
  return fmt::format("{} takes {} a step, {} tokens/s{}{}", plan.estimate.strategy.name,
                     with_range(plan.simulation.step_time(), plan.estimate.time_range),
                     rate_text(plan.tokens_per_second), training.empty() ? "" : "; ", training);
}

namespace {

std::string bound_of(const CriticalItem& item) {
  if (item.is_phase) return item.what;
  if (item.is_straggler) return "a slow GPU";
  if (item.is_host) return "the host";
  if (item.activity == Activity::HostOptimizer) return "the optimizer on the host";
  return is_communication(item.activity) ? "communication" : "compute";
}

}  // namespace

std::string bound_text(const Simulation& simulation) {
  const std::vector<StepShare> shares = step_shares(simulation);
  const StepShare& most = *std::ranges::max_element(shares, {}, &StepShare::share);
  if (simulation.critical.empty() || most.name == kBubble)
    return fmt::format("Bound by {}, {:.0f} % of the step (mean over GPUs).", most.name, 100 * most.share);
  std::vector<std::pair<std::string, double>> kinds;
  for (const CriticalItem& item : simulation.critical) {
    const std::string kind = bound_of(item);
    const auto at = std::ranges::find(kinds, kind, &std::pair<std::string, double>::first);
    if (at == kinds.end())
      kinds.emplace_back(kind, item.share);
    else
      at->second += item.share;
  }
  const auto& [kind, share] = *std::ranges::max_element(kinds, {}, &std::pair<std::string, double>::second);
  const CriticalItem& first = simulation.critical.front();
  std::string text = fmt::format("Bound by {}, {:.0f} % of what the step waits for.", kind, 100 * share);
  if (first.what == kind && first.remedy.empty()) return text;
  return text + fmt::format(" Longest on it: {}, {}{}.", first.what, format_duration(first.time),
                            first.remedy.empty() ? "" : " (" + first.remedy + ")");
}

std::string fit_warning(const SimulatedPlan& plan) {
  if (plan.estimate.fit == Fit::Yes) return "";
  const std::string& why = plan.estimate.why_not_yes;
  if (plan.estimate.fit == Fit::IfHost) return fmt::format("It rests on the host's memory: {}.", why);
  if (plan.estimate.fit == Fit::Tight)
    return fmt::format("It fits tightly, in {:.0f} of 100 cases: {}.", 100 * plan.estimate.chance, why);
  return fmt::format("It does not fit{}{}. This is the step that it would take with enough memory.",
                     why.empty() ? "" : ": ", why);
}

std::string method_text(const SimulationAnswer& answer) {
  const Simulation& simulation = answer.plan.simulation;
  std::string text = fmt::format(
      "{}; {} event{}",
      simulation.network == NetworkFidelity::Flow ? "messages as flows that share the links of the topology"
                                                  : "collectives by closed formulas, no sharing of links between them",
      format_grouped(std::int64_t(simulation.num_events)), simulation.num_events == 1 ? "" : "s");
  if (simulation.is_folded)
    text += fmt::format("; GPUs that behave alike are simulated once: {} for {}", simulation.ranks.size(),
                        answer.plan.estimate.num_gpus_used);
  if (answer.options.jitter > 0)
    text += fmt::format("; compute varies by {:g} %, seed {}", 100 * answer.options.jitter, answer.options.seed);
  for (const auto& [rank, factor] : answer.options.stragglers)
    text += fmt::format("; GPU {} computes {:g} times as long", rank, factor);
  return text;
}

std::string link_name(const Simulation& simulation, std::uint32_t link) {
  const auto& topology = simulation.topology;
  if (!topology || link >= topology->num_links()) return fmt::format("link {}", link);
  return fmt::format("{} → {} ({})", topology->vertex(topology->source(link)).name,
                     topology->vertex(topology->target(link)).name, to_string(topology->link(link).kind));
}

std::string_view plan_name(const SimulatedPlan& plan) {
  return plan.label.empty() ? plan.estimate.strategy.name : plan.label;
}

double scaling_efficiency(const SimulatedPlan& plan, const SimulatedPlan& first) {
  return first.tokens_per_second_per_gpu > 0 ? plan.tokens_per_second_per_gpu / first.tokens_per_second_per_gpu : 0;
}

namespace {

std::string busy_cell(SimTime busy, SimTime step) {
  if (busy.ps == 0 || step.ps == 0) return "";
  return fmt::format("{} {:3.0f} %", format_duration(busy.seconds()), 100.0 * double(busy.ps) / double(step.ps));
}

}  // namespace

std::vector<ShownRank> shown_ranks(const Simulation& simulation, std::size_t max_ranks) {
  const auto& ranks = simulation.ranks;
  std::vector<ShownRank> each, firsts;
  std::vector<std::int64_t> num_alike(ranks.size());
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    num_alike[ranks[r].alike] += ranks[r].stands_for;
    each.push_back({r, ranks[r].stands_for - 1});
    if (ranks[r].alike == r) firsts.push_back({r});
  }
  for (ShownRank& first : firsts) first.others = num_alike[first.rank] - 1;
  std::vector<ShownRank>& shown = ranks.size() <= max_ranks || firsts.size() <= 1 ? each : firsts;
  shown.resize(std::min(shown.size(), max_ranks));
  return shown;
}

std::int64_t num_not_shown(const Simulation& simulation, std::size_t max_ranks) {
  std::int64_t left = 0, shown = 0;
  for (const SimulatedRank& rank : simulation.ranks) left += rank.stands_for;
  for (const ShownRank& rank : shown_ranks(simulation, max_ranks)) shown += 1 + rank.others;
  return left - shown;
}

Table streams_table(const Simulation& simulation, std::size_t max_rows) {
  Table table{.columns = {{"  GPU"}}, .rows = {}};
  for (int s = 0; s < kNumStreams; ++s) table.columns.push_back({std::string(name_of(StreamId(s))), Align::Right});
  table.columns.push_back({"sent", Align::Right, 1});
  table.columns.push_back({"tensors at peak", Align::Right, 2});
  for (const ShownRank& shown : shown_ranks(simulation, max_rows)) {
    const SimulatedRank& rank = simulation.ranks[shown.rank];
    std::vector<Cell> row{{"  " + rank.name + (shown.others > 0 ? fmt::format(" × {}", shown.others + 1) : "")}};
    for (const SimTime busy : rank.busy) row.push_back({busy_cell(busy, simulation.step)});
    row.push_back({rank.sent.count > 0 ? format_bytes(rank.sent) : ""});
    row.push_back({format_bytes(rank.peak)});
    table.add(std::move(row));
  }
  return without_empty_columns(std::move(table));
}

Table links_table(const Simulation& simulation, std::size_t max_rows) {
  Table table{.columns = {{"  link"}, {"in use", Align::Right}, {"of its capacity", Align::Right}}, .rows = {}};
  for (std::size_t i = 0; i < std::min(max_rows, simulation.links.size()); ++i) {
    const LinkUseSummary& link = simulation.links[i];
    table.add({{"  " + link_name(simulation, link.link)},
               {fmt::format("{:.0f} %", 100 * link.busy)},
               {fmt::format("{:.0f} %", 100 * link.utilisation)}});
  }
  return table;
}

}  // namespace gpuplan

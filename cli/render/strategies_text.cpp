// The table of strategies: what fits, how full the fullest GPU is, how fast, how much it sends, what it costs.
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "cli/render/estimate_text.h"
#include "cli/render/table.h"
#include "cli/render/text.h"

namespace gpuplan {
namespace {

constexpr int kWidestBar = 24, kNarrowestBar = 8;

std::string_view short_name(PeakInstant instant) {
  switch (instant) {
    case PeakInstant::Forward: return "forward";
    case PeakInstant::LogitsAndLoss: return "loss";
    case PeakInstant::Backward: return "backward";
    case PeakInstant::OptimizerStep: return "step";
    case PeakInstant::Resident: return "resident";
  }
  return "";
}

/// What every strategy may use, when that is the same for all.
std::string memory_title(const EstimateResult& result) {
  std::optional<Bytes> usable;
  for (const StrategyEstimate& e : result.strategies) {
    if (!e.not_applicable.empty()) continue;
    if (usable && *usable != e.tiers.usable) return "per GPU";
    usable = e.tiers.usable;
  }
  return usable ? "of " + format_bytes(*usable) : "";
}

std::string communication_cell(const StrategyEstimate& e) {
  if (e.communication_level == CommunicationLevel::None) return "none";
  return fmt::format("{} {}", to_string(e.communication_level), format_bytes(e.communication));
}

Table make_table(const EstimateAnswer& answer, int bar_width) {
  Table table{.columns = {{"  strategy"}, {"fits"}, {"memory"}, {memory_title(answer.result), Align::Right}, {"peak at", Align::Left, 3}, {"step", Align::Right},
                          {"tokens/s", Align::Right}, {"sent per step", Align::Left, 1}, {"1 epoch", Align::Right, 2}, {"cost", Align::Right, 4}},
              .rows = {}};
  for (const StrategyEstimate& e : answer.result.strategies) {
    if (!e.not_applicable.empty()) continue;
    const bool is_best = answer.fits() && e.strategy.name == answer.result.recommended->strategy;
    const Ink verdict = e.fits ? Ink::Good : Ink::Bad, figure = e.fits ? Ink::Plain : Ink::Faint;
    const Bytes amount = e.fits ? e.tiers.process : e.tiers.needed;
    table.add({{(is_best ? "★ " : "  ") + e.strategy.name, is_best ? Ink::Strong : figure},
               {e.fits ? "yes" : "no", verdict},
               {bar(amount / e.tiers.usable, bar_width), verdict},
               {format_bytes(amount), figure},
               {std::string(short_name(e.peak.instant)), figure},
               {format_duration(e.time.step), figure},
               {format_grouped(std::llround(e.tokens_per_second)), figure},
               {communication_cell(e), figure},
               {e.epoch ? format_duration(*e.epoch) : "", figure},
               {e.cost_usd ? format_usd(*e.cost_usd) : "", figure}});
  }
  return table;
}

/// The reasons why strategies are not in the table, those alike together.
std::string not_applicable_text(const EstimateResult& result, const Screen& screen) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const StrategyEstimate& e : result.strategies) {
    if (e.not_applicable.empty()) continue;
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == e.not_applicable; });
    if (known == reasons.end()) reasons.emplace_back(e.not_applicable, e.strategy.name);
    else known->second += ", " + e.strategy.name;
  }
  if (reasons.empty()) return "";
  std::string text = "Not applicable: ";
  for (const auto& [reason, names] : reasons) text += fmt::format("{}{} ({})", text.ends_with(": ") ? "" : "; ", names, reason);
  return wrap(text, screen.width, "  ", "  ");
}

}  // namespace

std::string strategies_text(const EstimateAnswer& answer, const Screen& screen) {
  int bar_width = kWidestBar;
  while (bar_width > kNarrowestBar && width_of(make_table(answer, bar_width)) > screen.width) --bar_width;
  const Table table = fit_to(make_table(answer, bar_width), screen.width);
  return (table.rows.empty() ? "" : render(table, screen)) + not_applicable_text(answer.result, screen);
}

}  // namespace gpuplan

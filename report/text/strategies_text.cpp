// The table of strategies: what fits, how full the fullest GPU is, how fast, how much it sends, what it costs.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kFigureWidth = 6;  // " 131.9"

double in_gib(Bytes amount) { return amount / Bytes{std::int64_t(1) << 30}; }

std::string_view short_name(PeakInstant instant) {
  switch (instant) {
    case PeakInstant::Forward: return "forward";
    case PeakInstant::LogitsAndLoss: return "loss";
    case PeakInstant::Backward: return "backward";
    case PeakInstant::OptimizerStep: return "step";
    case PeakInstant::Resident: return "resident";
    case PeakInstant::Loading: return "loading";
    case PeakInstant::Evaluation: return "evaluation";
    case PeakInstant::Saving: return "saving";
    case PeakInstant::OtherModel: return "reference";
    case PeakInstant::Generation: return "generation";
  }
  return "";
}

/// The unit, and what every strategy may use when that is the same for all; in words where there is room.
std::string memory_title(const EstimateResult& result, int room) {
  std::optional<Bytes> usable;
  for (const StrategyEstimate& e : result.strategies) {
    if (!e.not_applicable.empty()) continue;
    if (usable && *usable != e.tiers.usable) return "GiB per GPU";
    usable = e.tiers.usable;
  }
  const std::string title = usable ? fmt::format("GiB of {:.3g}", in_gib(*usable)) : "GiB";
  const std::string longer = title + " usable";
  return width_of(longer) <= room ? longer : title;
}

std::string memory_cell(const StrategyEstimate& e, int bar_width) {
  const Bytes amount = shown_memory(e);
  return fmt::format("{} {:>5.{}f}", bar(amount / e.tiers.usable, bar_width), in_gib(amount),
                     in_gib(amount) < 999.5 ? 1 : 0);
}

/// The host memory of one machine, to load and to train.
std::string host_cell(const StrategyEstimate& e) {
  const double amount = in_gib(e.host.needed());
  return fmt::format("{:.{}f}", amount, amount < 99.5 ? 1 : 0);
}

std::string communication_cell(const StrategyEstimate& e) {
  if (e.communication_level == CommunicationLevel::None) return "none";
  return fmt::format("{} {}", to_string(e.communication_level), format_bytes(e.communication));
}

/// The heading of the column of time, and of the cost beside it.
std::string epochs_title(const Dataset& data) {
  return fmt::format("{:g} epoch{}", data.epochs, data.epochs == 1 ? "" : "s");
}

Table make_table(const EstimateAnswer& answer, const std::vector<const StrategyEstimate*>& rows, int bar_width) {
  Table table{.columns = {{"  strategy"},
                          {"fits"},
                          {memory_title(answer.result, bar_width + kFigureWidth)},
                          {"highest in", Align::Left, 5},
                          {"step", Align::Right},
                          {"tokens/s", Align::Right},
                          {"host GiB", Align::Right, 1},
                          {"sent per step", Align::Left, 2},
                          {epochs_title(answer.request.dataset), Align::Right, 4},
                          {"cost", Align::Right, 3}},
              .rows = {}};
  for (const StrategyEstimate* row : rows) {
    const StrategyEstimate& e = *row;
    const bool is_best = answer.fits() && e.strategy.name == answer.result.recommended->strategy;
    const Ink verdict = ink_of(e.fit), figure = e.fits() ? Ink::Plain : Ink::Faint;
    table.add({{(is_best ? "★ " : "  ") + e.strategy.title(), is_best ? Ink::Strong : figure},
               {verdict_text(e), verdict},
               {memory_cell(e, bar_width), verdict},
               {std::string(short_name(e.peak.instant)), figure},
               {format_short_duration(e.time.step), figure},
               {format_grouped(std::llround(e.tokens_per_second)), figure},
               {host_cell(e), figure},
               {communication_cell(e), figure},
               {e.total ? format_short_duration(*e.total) : "", figure},
               {e.cost_usd ? format_usd(*e.cost_usd) : "", figure}});
  }
  return without_empty_columns(std::move(table));
}

}  // namespace

Bytes shown_memory(const StrategyEstimate& e) {
  return e.fits() ? e.tiers.process - e.tiers.given_back() : e.tiers.process;
}

std::string strategies_table_text(const EstimateAnswer& answer, const std::vector<const StrategyEstimate*>& rows,
                                  const Screen& screen) {
  return render_with_bars([&](int bar_width) { return make_table(answer, rows, bar_width); }, screen);
}

std::string not_applicable_text(const EstimateResult& result, const Screen& screen) {
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const StrategyEstimate& e : result.strategies) {
    if (e.not_applicable.empty()) continue;
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == e.not_applicable; });
    if (known == reasons.end())
      reasons.emplace_back(e.not_applicable, e.strategy.name);
    else
      known->second += ", " + e.strategy.name;
  }
  if (reasons.empty()) return "";
  std::string text = "Not applicable: ";
  for (const auto& [reason, names] : reasons)
    text += fmt::format("{}{} ({})", text.ends_with(": ") ? "" : "; ", names, reason);
  return wrap(text, prose_width(screen), "  ", "  ");
}

std::string strategies_text(const EstimateAnswer& answer, const Screen& screen) {
  std::vector<const StrategyEstimate*> rows;
  for (const StrategyEstimate& e : answer.result.strategies)
    if (e.not_applicable.empty()) rows.push_back(&e);
  const std::string words = screen.format == TableFormat::Text ? words_of_table(answer, rows) : "";
  return strategies_table_text(answer, rows, screen) +
         (words.empty() ? "" : wrap(words, prose_width(screen), "  ", "  ")) +
         not_applicable_text(answer.result, screen);
}

}  // namespace gpuplan

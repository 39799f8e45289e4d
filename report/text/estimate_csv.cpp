// The rows of `estimate` for a spreadsheet or a script: figures without units, in columns that name them.
#include <fmt/format.h>

#include "report/text/answers_text.h"
#include "report/text/table.h"

namespace gpuplan {
namespace {

std::string number(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

double gib(Bytes amount) { return amount / Bytes{std::int64_t(1) << 30}; }

}  // namespace

std::string estimate_csv(const EstimateAnswer& answer, const Screen& screen) {
  constexpr int kGib = 2, kShare = 3, kSeconds = 6, kHours = 4, kDollars = 2, kTokens = 1;  // decimals
  Table table{.columns = {{"strategy"},
                          {"recommended"},
                          {"verdict"},
                          {"probability"},
                          {"memory_gib"},
                          {"memory_gib_low"},
                          {"memory_gib_high"},
                          {"usable_gib"},
                          {"host_gib"},
                          {"step_seconds"},
                          {"step_seconds_low"},
                          {"step_seconds_high"},
                          {"tokens_per_second"},
                          {"sent_gib_per_step"},
                          {"num_gpus"},
                          {"hours"},
                          {"hours_low"},
                          {"hours_high"},
                          {"usd"},
                          {"usd_low"},
                          {"usd_high"},
                          {"why_not_yes"}},
              .rows = {}};
  for (const StrategyEstimate& e : answer.result.strategies) {
    if (!e.not_applicable.empty()) continue;
    const AccuracyRange time = e.time_range.value_or(AccuracyRange{}),
                        memory = e.memory_range.value_or(AccuracyRange{});
    const auto hours = [&](double factor) { return e.total ? number(factor * e.total->value / 3600, kHours) : ""; };
    const auto usd = [&](double factor) { return e.cost_usd ? number(factor * *e.cost_usd, kDollars) : ""; };
    const auto seconds = [&](double factor) { return number(factor * e.time.step.value, kSeconds); };
    const double held = gib(e.tiers.process);
    table.add({{e.strategy.title()},
               {answer.fits() && e.strategy.name == answer.result.recommended->strategy ? "yes" : "no"},
               {std::string(to_string(e.fit))},
               {number(e.chance, kShare)},
               {number(held, kGib)},
               {number(memory.low * held, kGib)},
               {number(memory.high * held, kGib)},
               {number(gib(e.tiers.usable), kGib)},
               {number(gib(e.host.needed()), kGib)},
               {seconds(1)},
               {seconds(time.low)},
               {seconds(time.high)},
               {number(e.tokens_per_second, kTokens)},
               {number(gib(e.communication), kGib)},
               {fmt::format("{}", e.num_gpus_used)},
               {hours(1)},
               {hours(time.low)},
               {hours(time.high)},
               {usd(1)},
               {usd(time.low)},
               {usd(time.high)},
               {e.why_not_yes}});
  }
  return render(table, screen);
}

}  // namespace gpuplan

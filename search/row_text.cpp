#include "search/row_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"

namespace gpuplan {
namespace {

/// "H100 SXM5 80GB" of "NVIDIA H100 SXM5 80GB": the maker is known to everyone.
std::string short_gpu_name(const std::string& name) {
  std::string out = name;
  for (const std::string_view word : {"NVIDIA ", "GeForce ", "AMD ", "Instinct ", " Workstation/Server", " Generation"})
    if (const std::size_t at = out.find(word); at != std::string::npos) out.erase(at, word.size());
  return out.substr(0, out.find(" ("));
}

/// "1.8 times", "12 % more", "12 % less".
std::string compared(double ratio, const char* more, const char* less) {
  if (ratio >= 1.95) return fmt::format("{:.1f} times {}", ratio, more);
  return fmt::format("{:.0f} % {}", 100 * std::abs(ratio - 1), ratio > 1 ? more : less);
}

/// Gives what is better for the model in a row of higher quality than the first.
const char* better_quality(Method method, Method first) {
  if (method != Method::Full) return "16-bit base";
  return first == Method::Full ? "weights in fp32" : "trains every weight";
}

}  // namespace

Merit PlanRow::merit() const {
  const double gpu_hours = double(estimate().num_gpus_used) * total.value / 3600;
  return merit_of(plan, total, cost_usd.value_or(gpu_hours), is_rented);
}

std::string machine_name(const ClusterSpec& cluster) {
  std::string text;
  for (std::size_t i = 0; i < cluster.gpus.size();) {
    std::size_t end = cluster.gpus.behind(i);
    while (end < cluster.gpus.size() && cluster.gpus[end].id == cluster.gpus[i].id) end = cluster.gpus.behind(end);
    text += fmt::format("{}{}x {}", text.empty() ? "" : " + ", end - i, short_gpu_name(cluster.gpus[i].name));
    i = end;
  }
  return text;
}

/// Gives what the question leaves open.
static std::string flags_of(SearchedStrategy strategy, const SearchQuestion& q) {
  if (q.base.options.tp > 1) strategy.tp = 1, strategy.splits_sequence = false;
  if (q.base.options.cp > 1) strategy.cp = 1;
  if (q.base.options.ep > 1) strategy.ep = 1;
  if (q.base.options.pp > 1) strategy.pp = strategy.virtual_stages = 1;
  const std::string flags = strategy.flags(), name = fmt::format("--strategy {}", strategy.name);
  return q.pinned.contains("strategy") ? flags.substr(std::min(flags.size(), name.size() + 1)) : flags;
}

std::string command_of(const Space& space, const RankedPlan& plan, const std::string& given) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = q.machines[plan.machine];
  std::string text = "gpuplan estimate " + given;
  const auto add = [&](const std::string& flags) {
    if (!flags.empty()) text += (text.ends_with(' ') ? "" : " ") + flags;
  };
  add(machine.flags);
  add(space.ways[plan.way].flags);
  if (!q.pinned.contains("strategy") ||
      q.base.options.tp * q.base.options.cp * q.base.options.ep * q.base.options.pp == 1)
    add(flags_of(space.strategies[plan.strategy], q));
  if (!q.pinned.contains("micro-batch")) add(fmt::format("--micro-batch {}", plan.batch.micro));
  if (!q.pinned.contains("grad-accum")) add(fmt::format("--grad-accum {}", plan.batch.accum));
  add("--as-given");  // what is not said is the default, as the search took it
  const Offer& offer = machine.offers[plan.offer];
  if (q.is_rented && offer.usd_per_gpu_hour) add(fmt::format("--price-per-gpu-hour {:g}", *offer.usd_per_gpu_hour));
  return text;
}

std::string reason_of(const PlanRow& row, std::span<const PlanRow> rows, const SearchQuestion& q, double error,
                      Seconds fastest) {
  const PlanRow& best = rows.front();
  const Merit mine = row.merit(), chosen = best.merit();
  if (&row == &best) {
    const auto beats = [&](const PlanRow& other) {
      const Merit m = other.merit();
      return q.preference == Preference::Speed  ? m.time * (1 + error) < chosen.time
             : q.preference == Preference::Cost ? m.cost * (1 + error) < chosen.cost
                                                : m.headroom > chosen.headroom + kEqualHeadroom;
    };
    const bool is_safest_only = std::any_of(rows.begin(), rows.end(), beats);
    if (q.preference == Preference::Speed && row.is_rented && fastest.value * (1 + error) < row.plan.total.value)
      return fmt::format("as fast as any, with the {:.0f} min that a rented machine takes to be ready",
                         kReadyTime.value / 60);
    const bool is_simplest_only = fastest.value < 0.995 * row.plan.total.value;
    const char* what = q.preference == Preference::Speed  ? is_simplest_only ? "as fast as any" : "the fastest"
                       : q.preference == Preference::Cost ? "the cheapest"
                                                          : "the one with the most room";
    return fmt::format("{}{}{}{}", what, q.under || q.budget ? " within the limits" : "",
                       !is_safest_only   ? ""
                       : chosen.offloads ? " that fits well"
                                         : " that fits well without offload",
                       q.preference == Preference::Speed && is_simplest_only ? ", within the error" : "");
  }
  std::vector<std::string> parts;
  const double time = row.total / best.total, cost = mine.cost / chosen.cost;
  if (time > 1 + error / 2 || time < 1 / (1 + error / 2)) parts.push_back(compared(time, "the time", "less time"));
  if (cost > 1 + error / 2 || cost < 1 / (1 + error / 2)) parts.push_back(compared(cost, "the cost", "cheaper"));
  for (std::string& part : parts)
    if (part.find("% the") != std::string::npos) part.replace(part.find("the"), 3, "more");
  if (mine.headroom > chosen.headroom + kEqualHeadroom)
    parts.push_back(fmt::format("{:.0f} % of the memory stays free", 100 * mine.headroom));
  if (row.quality() > best.quality())
    parts.push_back(better_quality(row.request.recipe.method, best.request.recipe.method));
  return parts.empty() ? "as good as the first, within the error" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string used_machine(const ClusterSpec& cluster, std::int64_t num_used) {
  const std::string all = machine_name(cluster);
  return num_used < cluster.num_gpus() ? fmt::format("{} of {}", num_used, all) : all;
}

std::string summary_of(const PlanRow& row) {
  std::string text = row.gpus;
  if (!row.offer.vendor.empty()) text += " at " + row.offer.name;
  text += fmt::format(", {} with {}: {}", method_word(row.request.recipe), strategy_title(row.request),
                      format_duration(row.total));
  if (row.cost_usd) text += ", " + format_usd(*row.cost_usd);
  return text;
}

std::string method_word(const Recipe& recipe) {
  if (recipe.method == Method::Full) return "full";
  const QuantFormat& base = format_of(recipe.quant.kind);
  if (base.kind != BaseQuant::None && !base.is_bitsandbytes) return fmt::format("LoRA on {}", base.text);
  return recipe.method == Method::Lora ? "LoRA" : "QLoRA";
}

}  // namespace gpuplan

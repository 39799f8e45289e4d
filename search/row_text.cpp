#include "search/row_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "planner/engine_gpus.h"
#include "planner/recommend.h"

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
  if (q.base.options.tp > 1) strategy.tp = 1;
  if (q.base.options.splits_sequence) strategy.splits_sequence = false;
  if (q.base.options.cp > 1) strategy.cp = 1;
  if (q.base.options.ep > 1) strategy.ep = 1;
  if (q.base.options.etp > 1) strategy.etp = 1;
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
  add(flags_of(space.strategies[plan.strategy], q));
  if (!q.pinned.contains("micro-batch")) add(fmt::format("--micro-batch {}", plan.batch.micro));
  if (!q.pinned.contains("grad-accum")) add(fmt::format("--grad-accum {}", plan.batch.accum));
  add("--as-given");  // what is not said is the default, as the search took it
  const Offer& offer = machine.offers[plan.offer];
  if (q.is_rented && offer.usd_per_gpu_hour) add(fmt::format("--price-per-gpu-hour {:g}", *offer.usd_per_gpu_hour));
  if (q.overhead.value > 0) add(fmt::format("--overhead {:g}min", q.overhead.value / 60));
  return text;
}

namespace {

/// The best of `all` by what was asked for; infinite where none is let in.
template <class Admits>
double least_score(std::span<const Merit> all, Preference wish, Admits admits) {
  double least = std::numeric_limits<double>::infinity();
  for (const Merit& m : all)
    if (admits(m)) least = std::min(least, score(m, wish));
  return least;
}

/// " that fits well without offload", where others would be better but for that.
std::string restriction(const Merit& chosen, std::span<const Merit> all, Preference wish, double error) {
  const double mine = score(chosen, wish);
  const auto is_beaten_by = [&](auto admits) { return least_score(all, wish, admits) * (1 + error) < mine; };
  std::string text;
  if (is_beaten_by([&](const Merit& m) { return m.fit < chosen.fit; })) text += " that fits well";
  if (!chosen.offloads && is_beaten_by([&](const Merit& m) { return m.fit >= chosen.fit && m.offloads; }))
    text += " without offload";
  return text;
}

/// "the cheapest within the limits", and where another rule decided, by which.
std::string reason_of_first(const PlanRow& best, std::span<const PlanRow> rows, const SearchQuestion& q,
                            const Wishes& wishes, std::span<const Merit> all) {
  const Merit chosen = best.merit();
  const Preference wish = wishes.first;
  if (q.takes_fewest_gpus) {
    SearchQuestion among = q;
    among.takes_fewest_gpus = false;
    return "the fewest GPUs that do it; of these " + reason_of_first(best, rows, among, wishes, all);
  }
  if (wish == Preference::Speed && best.is_rented && best.total < kReadyTime)
    return fmt::format("as fast as any, with the {:.0f} min that a rented machine takes to be ready",
                       kReadyTime.value / 60);
  const double least = least_score(all, wish, [&](const Merit& m) { return rank_of(m) >= rank_of(chosen); });
  const bool is_fastest = wish != Preference::Speed || chosen.time <= least * (1 + kAlike);
  const std::string limits = q.under || q.budget ? " within the limits" : "",
                    rest = limits + restriction(chosen, all, wish, wishes.is_exact ? kAlike : wishes.row_error);
  if (wish == Preference::Cost) return "the cheapest" + rest;
  if (wish == Preference::Memory) return "the one with the most room" + rest;
  if (is_fastest) return "the fastest" + rest;
  if (!wishes.is_exact) return "as fast as any" + rest + ", within the error";
  std::string text = fmt::format("the cheapest within {:.0f} % of the fastest{}", 100 * wishes.first_error, rest);
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (rows[i].merit().time <= least * (1 + kAlike))
      return text + fmt::format(", {}: row {}", format_duration(rows[i].total), i + 1);
  return text;
}

}  // namespace

std::string reason_of(const PlanRow& row, std::span<const PlanRow> rows, const SearchQuestion& q, double error,
                      std::span<const Merit> all) {
  const PlanRow& best = rows.front();
  const Merit mine = row.merit(), chosen = best.merit();
  const Wishes wishes = wishes_of(q, error);
  if (&row == &best) return reason_of_first(best, rows, q, wishes, all);
  const double least = wishes.is_exact ? kAlike : error / 2;
  std::vector<std::string> parts;
  const double time = row.total / best.total, cost = mine.cost / chosen.cost;
  if (time > 1 + least || time < 1 / (1 + least)) parts.push_back(compared(time, "the time", "less time"));
  if (cost > 1 + least || cost < 1 / (1 + least)) parts.push_back(compared(cost, "the cost", "cheaper"));
  for (std::string& part : parts)
    if (part.find("% the") != std::string::npos) part.replace(part.find("the"), 3, "more");
  if (mine.headroom > chosen.headroom + kEqualHeadroom)
    parts.push_back(fmt::format("{:.0f} % of the memory stays free", 100 * mine.headroom));
  if (row.quality() > best.quality())
    parts.push_back(better_quality(row.request.recipe.method, best.request.recipe.method));
  if (row.plan.offloads && !best.plan.offloads) parts.push_back("with offload");
  return parts.empty() ? "as good as the first, within the error" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string reason_of_star(const PlanRow& replaced, std::span<const PlanRow> rows, const SearchQuestion& q,
                           double error, std::span<const Merit> all) {
  const PlanRow& star = rows.front();
  const Wishes wishes = wishes_of(q, error);
  const double mine = score(star.merit(), wishes.first);
  if (mine <= score(replaced.merit(), wishes.first) * (1 + kAlike)) return reason_of_first(star, rows, q, wishes, all);
  const bool is_surer = star.plan.chance > replaced.plan.chance + kAlikeChance,
             costs = wishes.first == Preference::Cost && replaced.cost_usd,
             is_of_memory = wishes.first == Preference::Memory;
  const std::string figure = costs          ? format_usd(*replaced.cost_usd)
                             : is_of_memory ? format_bytes(replaced.process())
                                            : format_duration(replaced.total);
  const std::string name = strategy_title(replaced.request);
  const char* const why = is_surer                                              ? "likelier to fit"
                          : replaced.plan.takes_turns && !star.plan.takes_turns ? "no GPU waits for another"
                          : star.plan.simplicity < replaced.plan.simplicity     ? "simpler"
                          : star.total < replaced.total                         ? "faster"
                                                                                : "what estimate recommends";
  return fmt::format("as {} as {} within the error ({}), and {}; {} is {}",
                     costs          ? "cheap"
                     : is_of_memory ? "small"
                                    : "fast",
                     name, figure, why, name, reason_of_first(replaced, rows, q, wishes, all));
}

std::string used_machine(const EstimateRequest& r, std::int64_t num_used) {
  const std::int64_t that_train = r.cluster.num_gpus(), in_all = num_gpus_in_all(r);
  std::string all = machine_name(r.cluster);
  if (in_all > that_train) all = fmt::format("{}x {}", in_all, short_gpu_name(r.cluster.gpus.front().name));
  const std::int64_t nodes = r.cluster.num_nodes();
  if (nodes > 1) all += fmt::format(" ({} machines)", nodes);
  if (in_all > that_train && num_used == in_all) return fmt::format("{} ({} for the engine)", all, in_all - that_train);
  return num_used < in_all ? fmt::format("{} of {}", num_used, all) : all;
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

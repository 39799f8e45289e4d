#include "search/neighbours.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "planner/engine_gpus.h"
#include "search/row_text.h"
#include "search/shortlist.h"

namespace gpuplan {
namespace {

std::string words_of(const PlanRow& row) { return summary_of(row) + (row.plan.fit == Fit::Tight ? " (tight)" : ""); }

/// " (8 of 10 such runs: 10 h 21 min to 14 h 24 min, $65.14 to $90.68)".
std::string range_words(const PlanRow& row) {
  const auto& range = row.estimate().time_range;
  if (!range) return "";
  const std::string cost = row.cost_usd ? fmt::format(", {} to {}", format_usd(range->low * *row.cost_usd),
                                                      format_usd(range->high * *row.cost_usd))
                                        : "";
  return fmt::format(" (8 of 10 such runs: {} to {}{})", format_duration(range->low * row.total),
                     format_duration(range->high * row.total), cost);
}

/// The best plan of a question by its preference.
struct Best {
  RankedPlan plan;
  std::string words;
};

std::optional<Best> best_of_plans(const Space& space, const std::vector<RankedPlan>& plans, Preference preference) {
  if (plans.empty()) return std::nullopt;
  SearchQuestion wanted = space.question;
  wanted.preference = preference;
  const SearchQuestion& q = space.question;
  std::vector<Merit> merits;
  for (const RankedPlan& plan : plans) merits.push_back(merit_of(plan, plan.total, plan.cost, q.is_rented));
  double error = 0;
  for (const Hardware& machine : q.machines) error = std::max(error, machine.profile.time_error);
  const RankedPlan& plan = plans[best_of(merits, wishes_of(wanted, error))];
  const Hardware& machine = q.machines[plan.machine];
  PlanRow row;
  row.plan = plan;
  row.request = request_of(space, plan);
  row.offer = machine.offers[plan.offer];
  row.gpus = used_machine(row.request, machine.num_gpus());
  row.total = plan.total;
  if (plan.has_price) row.cost_usd = plan.cost;
  return Best{plan, words_of(row)};
}

std::optional<Best> best_of_question(const SearchQuestion& q, const SearchOptions& options) {
  if (q.machines.empty() || q.methods.empty()) return std::nullopt;
  const Space space(q);
  const Found found = search(space, {.num_threads = options.num_threads, .stop = options.stop, .progress = {}});
  return best_of_plans(space, found.ranking.plans, q.preference);
}

/// Two digits, upwards: a limit that one would type.
double rounded_up(double value) {
  const double step = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::ceil(value / step) * step;
}

class Relaxer {
 public:
  Relaxer(const Space& space, const std::vector<RankedPlan>& fitting, const SearchOptions& options)
      : q_(space.question),
        fitting_(fitting),
        options_(options) {}

  std::vector<WouldDo> all() {
    if (q_.budget) {
      SearchQuestion open = q_;
      open.budget.reset();
      open.preference = Preference::Cost;
      for (const PlanRow& row : best_rows(open))
        add(fmt::format("--budget {:g}", rounded_up(*row.cost_usd)), words_of(row) + range_words(row));
    }
    if (q_.under) {
      SearchQuestion open = q_;
      open.under.reset();
      open.preference = Preference::Speed;
      for (const PlanRow& row : best_rows(open))
        add(fmt::format("--under {:g}h", rounded_up(row.total.value / 3600)), words_of(row) + range_words(row));
    }
    try_methods();
    if (!q_.is_rented) {
      try_more_gpus();
      for (WouldDo& one : or_rent(q_, options_)) out_.push_back(std::move(one));
    }
    if (out_.empty()) try_shorter();
    return std::move(out_);
  }

 private:
  /// The first row of the answer to another question of limits alone, simulated as that answer would be, and the
  /// cheapest with offload where that is cheaper.
  std::vector<PlanRow> best_rows(const SearchQuestion& open) const {
    const Space space(open);
    double error = 0;
    for (const Hardware& machine : open.machines) error = std::max(error, machine.profile.time_error);
    std::vector<RankedPlan> within;  // of the other limit: prices without a date count where no other keeps it
    std::ranges::copy_if(fitting_, std::back_inserter(within), [&](const RankedPlan& p) {
      return (!open.under || p.total <= *open.under) && (!open.budget || !p.has_price || p.cost <= *open.budget);
    });
    const std::string given;
    Shortlist list(space, within, given, error, options_.num_threads);
    std::vector<PlanRow> rows = list.frontier_rows(1);
    if (rows.empty() || (!open.budget && q_.budget && !rows.front().cost_usd)) return {};
    for (PlanRow& row : list.cheaper_with_offload(rows.front()))
      if (rows.size() < 2) rows.push_back(std::move(row));
    return rows;
  }

  void add(const std::string& change, const std::string& words) { out_.push_back({change, words}); }

  void try_question(const std::string& change, const SearchQuestion& q) {
    if (const auto best = best_of_question(q, options_)) add(change, best->words);
  }

  /// Each method that was not allowed, the best quality first.
  void try_methods() {
    for (const auto& [method, flag] :
         {std::pair(Method::Lora, "--method lora"), std::pair(Method::Qlora, "--method qlora")}) {
      if (std::find(q_.methods.begin(), q_.methods.end(), method) != q_.methods.end()) continue;
      SearchQuestion other = q_;
      other.methods = {method};
      other.least_quality = Quality::Ok;
      try_question(flag, other);
    }
  }

  /// Twice as many until it fits.
  void try_more_gpus() {
    constexpr int kMostDoublings = 5;
    SearchQuestion more = q_;
    for (int i = 0; i < kMostDoublings; ++i) {
      const ClusterSpec& cluster = more.machines.front().cluster;
      if (cluster.is_mixed()) return;
      Variant now{more.base, {}};
      now.request.cluster = cluster;
      const Setting twice = set_to("num-gpus", std::to_string(2 * more.machines.front().num_gpus()));
      const auto grown = changed_if_possible(std::move(now), {&twice, 1});
      if (!grown) return;  // a machine without a network has no more GPUs
      more.machines.front().cluster = grown->request.cluster;
      more.machines.front().engine_gpus = engine_gpus(grown->request, grown->request.cluster.num_gpus());
      if (const auto best = best_of_question(more, options_))
        return add(fmt::format("{} GPUs of this kind", more.machines.front().num_gpus()), best->words);
    }
  }

  /// Half the sequence until it fits.
  void try_shorter() {
    constexpr std::int64_t kShortest = 256;
    SearchQuestion shorter = q_;
    for (std::int64_t& length = shorter.base.recipe.seq_len; length / 2 >= kShortest;) {
      length /= 2;
      const auto best = best_of_question(shorter, options_);
      if (best) return add(fmt::format("--seq-len {}", length), best->words);
    }
  }

  const SearchQuestion& q_;
  const std::vector<RankedPlan>& fitting_;
  const SearchOptions& options_;
  std::vector<WouldDo> out_;
};

}  // namespace

std::vector<WouldDo> or_rent(const SearchQuestion& question, const SearchOptions& options) {
  SearchQuestion rented = question;
  rented.is_rented = true;
  if (rented.overhead.value == 0) rented.overhead = kReadyTime;  // as `plan` counts a machine that is rented
  rented.preference = Preference::Cost;
  rented.base.price_per_gpu_hour.reset();
  for (const std::int64_t count : {1, 8}) {  // one card where it does, else a machine of them
    rented.machines = rentable({});
    std::erase_if(rented.machines, [&](const Hardware& machine) { return machine.num_gpus() != count; });
    for (Hardware& machine : rented.machines)  // as rows prefer offers whose price has a date
      std::erase_if(machine.offers, [](const Offer& offer) { return !offer.is_dated(); });
    std::erase_if(rented.machines, [](const Hardware& machine) { return machine.offers.empty(); });
    if (const auto best = best_of_question(rented, options)) return {{"renting", best->words}};
  }
  return {};
}

std::vector<WouldDo> what_would_do(const Space& space, const std::vector<RankedPlan>& fitting,
                                   const SearchOptions& options) {
  return Relaxer(space, fitting, options).all();
}

}  // namespace gpuplan

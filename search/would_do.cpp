#include "search/neighbours.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "planner/engine_gpus.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

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
  row.request = request_of(space, plan);
  row.offer = machine.offers[plan.offer];
  row.gpus = used_machine(row.request, machine.num_gpus());
  row.total = plan.total;
  if (plan.has_price) row.cost_usd = plan.cost;
  std::string words = summary_of(row);
  if (plan.fit == Fit::Tight) words += " (tight)";
  return Best{plan, std::move(words)};
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

/// An offered limit leaves this much room: plans are found by the time of the forward pass, and simulation, which adds
/// to it, decides whether they keep a limit. The figure is assumed, not measured.
constexpr double kSimulated = 1.05;

class Relaxer {
 public:
  Relaxer(const Space& space, const std::vector<RankedPlan>& fitting, const SearchOptions& options)
      : space_(space),
        q_(space.question),
        fitting_(fitting),
        options_(options) {}

  std::vector<WouldDo> all() {
    if (q_.budget)
      if (const auto best = best_that(Preference::Cost, [&](const RankedPlan& p) { return is_in_time(p); }))
        add(fmt::format("--budget {:g}", rounded_up(kSimulated * best->plan.cost)), best->words);
    if (q_.under)
      if (const auto best = best_that(Preference::Speed, [&](const RankedPlan& p) { return is_in_budget(p); }))
        add(fmt::format("--under {:g}h", rounded_up(kSimulated * best->plan.total.value / 3600)), best->words);
    try_methods();
    if (!q_.is_rented) {
      try_more_gpus();
      for (WouldDo& one : or_rent(q_, options_)) out_.push_back(std::move(one));
    }
    if (out_.empty()) try_shorter();
    return std::move(out_);
  }

 private:
  bool is_in_time(const RankedPlan& p) const { return !q_.under || kSimulated * p.total <= *q_.under; }
  bool is_in_budget(const RankedPlan& p) const {
    return !q_.budget || !p.has_price || kSimulated * p.cost <= *q_.budget;
  }

  template <class Meets>
  std::optional<Best> best_that(Preference preference, Meets meets) const {
    std::vector<RankedPlan> plans;
    std::copy_if(fitting_.begin(), fitting_.end(), std::back_inserter(plans), meets);
    return best_of_plans(space_, plans, preference);
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

  const Space& space_;
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

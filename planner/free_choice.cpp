#include "planner/free_choice.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "planner/recommend.h"
#include "planner/rollout_phases.h"

namespace gpuplan {

std::string why_not_chosen(const Strategy& strategy, const FrameworkConvention& framework) {
  const auto offloads_alone = [&](const StrategyRow& row) {
    return row.engine == ShardingEngine::Zero && row.can_offload_params && has_strategy(framework, row.name);
  };
  const bool is_alone = is_fsdp(strategy.engine) && strategy.mesh.world() == 1;
  return is_alone && std::ranges::any_of(strategy_rows(), offloads_alone)
             ? "FSDP over one GPU shards nothing, and ZeRO offloads there too"
             : "";
}
namespace {

/// A setting that is free: what it may be, from the first, which leaves it, to those that rest on the host.
struct FreeRow {
  std::string_view name;
  std::vector<std::vector<Setting>> values{{}};
  std::size_t num_on_gpu = 1;
};

/// Rows of the request that nobody gave, and micro batch against accumulation.
std::vector<FreeRow> free_rows(const EstimateRequest& r) {
  std::vector<FreeRow> out;
  for (const Change& change : changes()) {
    if (!change.free || !r.not_given.contains(change.name)) continue;
    FreeRow row{.name = change.name};
    const FreeValues free = change.free(r);
    for (const std::string& value : free.values) row.values.push_back({set_to(change.name, value)});
    row.num_on_gpu = row.values.size();
    for (const std::string& value : free.from_host) row.values.push_back({set_to(change.name, value)});
    if (row.values.size() > 1) out.push_back(std::move(row));
  }
  if (r.not_given.contains("micro-batch") && r.not_given.contains("grad-accum")) {
    FreeRow row{.name = "micro-batch"};
    for (std::vector<Setting>& settings : rebatchings(r.recipe)) row.values.push_back(std::move(settings));
    row.num_on_gpu = row.values.size();
    if (row.values.size() > 1) out.push_back(std::move(row));
  }
  return out;
}

/// A value of each row.
using Point = std::vector<std::size_t>;

std::int64_t num_changed(const Point& point) {
  return std::count_if(point.begin(), point.end(), [](std::size_t value) { return value > 0; });
}

/// Holds what one point is worth.
struct Standing {
  int rank = -1;  // rank_of its best plan; 0: nothing fits; below: not possible
  double score = std::numeric_limits<double>::infinity();     // the least of its plans of that rank; bytes missing
  double short_of = std::numeric_limits<double>::infinity();  // bytes that plans miss which keep all GPUs at work
  std::optional<StrategyEstimate> chosen;                     // best_of its plans

  bool beats(const Standing& other) const {
    constexpr double kVisibly = 0.99;  // what is nearly alike is no step
    return rank > other.rank || (rank == other.rank && score < (rank > 0 ? kVisibly : 1) * other.score) ||
           leaves_more_memory(other);
  }
  /// As good and much smaller: room for what is faster.
  bool leaves_more_memory(const Standing& other) const {
    constexpr double kMuch = 0.9;
    return rank == other.rank && chosen && other.chosen && score <= other.score &&
           double(chosen->tiers.needed.count) < kMuch * double(other.chosen->tiers.needed.count);
  }
  /// Comes nearer to a plan that fits and keeps all GPUs at work, however fast GPUs that take turns would be.
  bool is_nearer_than(const Standing& other) const {
    const bool works = rank >= kWorksTogether, other_works = other.rank >= kWorksTogether;
    return works != other_works ? works : !works && short_of < other.short_of;
  }
};

/// Bytes that are missing on the GPU or on the host, whichever lacks more.
double missing(const StrategyEstimate& e) {
  const double gpu = double((e.tiers.needed - e.tiers.usable).count);
  const double host =
      e.host.fits ? -std::numeric_limits<double>::infinity() : double((e.host.needed() - e.host.capacity).count);
  return std::max(gpu, host);
}

class Chooser {
 public:
  explicit Chooser(const Variant& asked)
      : asked_(asked),
        preference_(asked.request.preference),
        error_(asked.profile.time_error),
        least_quality_(asked.request.not_given.least_quality.value_or(quality_of(asked.request.recipe))),
        rows_(free_rows(asked.request)) {}

  FreeChoice run() {
    const Point start(rows_.size(), 0);
    const Point* found = climb(&at(start)->first);
    if (!works_together(*found)) found = approach(found);
    if (!works_together(*found)) {
      from_host_ = true;
      found = climb(found);
      if (!works_together(*found)) found = approach(found);
    }
    for (const Point* simple = simplest(found);; simple = simplest(found)) {  // whose neighbours were not all seen
      from_host_ = from_host_ || rests_on_host(*simple);
      const Point* const higher = visibly_better(*simple);
      if (!higher) return answer(*simple);
      found = climb(higher);
    }
  }

 private:
  using Seen = std::map<Point, Standing>;

  std::vector<Setting> settings_of(const Point& point) const {
    std::vector<Setting> out;
    for (std::size_t row = 0; row < point.size(); ++row)
      out.insert(out.end(), rows_[row].values[point[row]].begin(), rows_[row].values[point[row]].end());
    return out;
  }

  /// Says whether the host holds something already: then it may hold something else as well.
  bool rests_on_host(const Point& point) const {
    return preference_ != Preference::Memory && changed(asked_, settings_of(point)).request.recipe.offload.any();
  }

  /// Estimated once.
  Seen::iterator at(const Point& point) {
    const auto known = seen_.find(point);
    return known != seen_.end() ? known : seen_.emplace(point, estimate(point)).first;
  }

  Standing estimate(const Point& point) {
    Standing out;
    const auto possible = changed_if_possible(asked_, settings_of(point));
    if (!possible || !has_whole_prompts(possible->request)) return out;
    const Variant& variant = *possible;
    const Recipe& recipe = variant.request.recipe;
    if (quality_of(recipe) < std::min(least_quality_, quality_of(asked_.request.recipe))) return out;
    std::vector<StrategyEstimate> plans = estimate_strategies(variant, Parts::IfFits, &blocks_);
    if (recipe.optimizer->is_8bit && recipe.optimizer != asked_.request.recipe.optimizer &&
        !recipe.framework->choices.shards_8bit_optimizers)
      std::erase_if(plans, [](const StrategyEstimate& e) { return e.strategy.layout.shards_optimizer; });
    for (const StrategyEstimate& e : plans) {
      const int rank = rank_of(e);
      if (!e.strategy.takes_turns()) out.short_of = std::min(out.short_of, missing(e));
      const double score = rank > 0 ? score_of(e, preference_) : missing(e);
      if (rank > out.rank || (rank == out.rank && score < out.score)) out.rank = rank, out.score = score;
    }
    if (const StrategyEstimate* best = best_of(plans, preference_, error_)) out.chosen = *best;
    return out;
  }

  /// One row set otherwise; beside a value that rests on the host also with the optimizer that steps there.
  template <class Use>
  void each_neighbour(const Point& point, Use use) {
    for (std::size_t row = 0; row < rows_.size(); ++row)
      for (std::size_t value = 0; value < (from_host_ ? rows_[row].values.size() : rows_[row].num_on_gpu); ++value) {
        if (value == point[row]) continue;
        Point other = point;
        other[row] = value;
        use(other);
        if (value < rows_[row].num_on_gpu) continue;
        for (std::size_t i = 0; i < rows_.size(); ++i)
          if (rows_[i].name.starts_with("optimizer")) other[i] = 0;
        use(other);
      }
  }

  /// Goes from neighbour to neighbour, each the best of those that are better.
  template <class Better>
  const Point* follow(const Point* from, Better better) {
    for (auto best = seen_.find(*from);;) {
      const auto start = best;
      each_neighbour(start->first, [&](const Point& point) {
        const auto other = at(point);
        if (better(other->second, best->second)) best = other;
      });
      if (best == start) return &best->first;
    }
  }
  const Point* climb(const Point* from) { return follow(from, std::mem_fn(&Standing::beats)); }

  bool works_together(const Point& point) { return at(point)->second.rank >= kWorksTogether; }

  /// Where GPUs that take turns fit, one change alone makes them slower, and only two let all GPUs work. Gives the best
  /// point behind such changes, else `otherwise`.
  const Point* approach(const Point* otherwise) {
    const Point start(rows_.size(), 0);
    const Point* const found = follow(&at(start)->first, std::mem_fn(&Standing::is_nearer_than));
    const Point* const best = climb(found);
    return at(*best)->second.beats(at(*otherwise)->second) ? best : otherwise;
  }

  bool is_visibly_better(const Point& a, const Point& b) {
    const Standing &x = seen_.at(a), &y = seen_.at(b);
    return x.rank > y.rank || (x.rank == y.rank && y.rank > 0 && y.chosen && x.score * (1 + error_) < own_score(y));
  }

  /// The best neighbour that is better by more than the error; null where none is.
  const Point* visibly_better(const Point& from) {
    const Point* best = nullptr;
    each_neighbour(from, [&](const Point& point) {
      const auto& [other, standing] = *at(point);
      if (is_visibly_better(other, from) && (!best || standing.beats(seen_.at(*best)))) best = &other;
    });
    return best;
  }

  double own_score(const Standing& s) const { return s.chosen ? score_of(*s.chosen, preference_) : s.score; }

  /// Of the points seen that are as good as the best one but for the error, the one that changes the fewest defaults.
  const Point* simplest(const Point* best) const {
    const Standing& top = seen_.at(*best);
    if (top.rank <= 0) return best;
    std::vector<const Seen::value_type*> pool;
    for (const Seen::value_type& one : seen_)
      if (one.second.rank == top.rank && own_score(one.second) <= top.score * (1 + error_)) pool.push_back(&one);
    for (const Preference wish : {preference_, second_wish(preference_)}) {
      double least = std::numeric_limits<double>::infinity();
      for (const auto* one : pool) least = std::min(least, score_of(*one->second.chosen, wish));
      std::erase_if(pool, [&](const auto* one) { return score_of(*one->second.chosen, wish) > least * (1 + error_); });
    }
    const auto host = [](const auto* one) { return double(one->second.chosen->host.needed().count); };
    if (top.chosen->fit == Fit::IfHost) {  // what nobody knows to be there is asked for sparingly
      double least = std::numeric_limits<double>::infinity();
      for (const auto* one : pool) least = std::min(least, host(one));
      std::erase_if(pool, [&](const auto* one) { return host(one) > least * (1 + error_); });
    }
    const auto key = [&](const Seen::value_type* one) {
      return std::tuple(num_changed(one->first), one->second.chosen->strategy.simplicity, own_score(one->second));
    };
    return &(*std::min_element(pool.begin(), pool.end(), [&](auto* a, auto* b) { return key(a) < key(b); }))->first;
  }

  FreeChoice answer(const Point& point) {
    FreeChoice out;
    out.settings = settings_of(point);
    out.request = changed(asked_, out.settings).request;
    const Standing &chosen = seen_.at(point), &usual = seen_.at(Point(rows_.size(), 0));
    if (chosen.rank > 0) out.best = chosen.chosen;
    if (usual.rank > 0) out.usual = usual.chosen;
    return out;
  }

  const Variant& asked_;
  Preference preference_;
  double error_;
  Quality least_quality_;
  std::vector<FreeRow> rows_;
  bool from_host_ = false;
  BlockCache blocks_;
  Seen seen_;
};

}  // namespace

FreeChoice choose_freely(const Variant& asked) { return Chooser(asked).run(); }

std::optional<StrategyEstimate> best_answer(const Variant& asked) {
  return asked.request.not_given.are_chosen ? choose_freely(asked).best : best_fitting(asked);
}

}  // namespace gpuplan

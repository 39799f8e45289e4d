#include "mend/ways.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/names.h"
#include "models/recipe_names.h"
#include "planner/recommend.h"

namespace gpuplan {
namespace {

using Settings = std::vector<Setting>;
/// Settings of one kind, of which one is taken.
using Choice = std::vector<Settings>;

constexpr std::int64_t kShortestContext = 512;

bool is_method(std::string_view name) {
  return name == "lora" || name == "qlora" || name == "full" || name == "precision";
}

/// Says whether the trainer evaluates by its micro batch, as no file says another batch.
bool evaluates_micro_batch(const FixQuestion& question) {
  const EstimateRequest& r = question.given.request;
  return r.eval_batch == r.recipe.micro_batch && !question.given.reading.setup.eval_batch;
}

/// The batch in other parts: sequences per pass times passes stay as they are.
Choice batch_choice(const FixQuestion& question) {
  const Recipe& recipe = question.given.request.recipe;
  const std::int64_t product = recipe.micro_batch * recipe.grad_accum;
  const bool evaluation_follows = evaluates_micro_batch(question);
  Choice out;
  const auto add = [&](Settings settings, std::int64_t micro) {
    if (evaluation_follows) settings.push_back(set_to("eval-batch", std::to_string(micro)));
    out.push_back(std::move(settings));
  };
  for (std::int64_t micro = std::min<std::int64_t>(product, 1024); micro > 0; --micro) {
    if (product % micro != 0 || micro == recipe.micro_batch) continue;
    if (micro > recipe.micro_batch && question.goal == Goal::Fits) continue;
    add({set_to("micro-batch", std::to_string(micro)), set_to("grad-accum", std::to_string(product / micro))}, micro);
  }
  if (!question.allowed.batch) return out;
  for (std::int64_t micro = recipe.micro_batch / 2; micro > 0; micro /= 2)  // fewer sequences a step
    add({set_to("micro-batch", std::to_string(micro))}, micro);
  return out;
}

Choice context_choice(const FixQuestion& question) {
  std::set<std::int64_t, std::greater<>> lengths;
  const std::int64_t now = question.given.request.recipe.seq_len;
  for (std::int64_t length = now / 2; length >= kShortestContext; length /= 2) lengths.insert(length);
  // the shortest that cuts no row
  if (const std::int64_t longest = question.given.rows.at_most(); longest > 0 && longest < now) lengths.insert(longest);
  Choice out;
  for (const std::int64_t length : lengths) out.push_back({set_to("seq-len", std::to_string(length))});
  return out;
}

/// Lists what can be changed: the suggestions of the table, those of one row as one choice, and the batch.
std::vector<Choice> choices(const FixQuestion& question) {
  const EstimateRequest& r = question.given.request;
  std::vector<Suggested> all = suggest(r, Purpose::SaveMemory);
  const auto add = [&](Purpose purpose) {
    const std::vector<Suggested> more = suggest(r, purpose);
    all.insert(all.end(), more.begin(), more.end());
  };
  add(Purpose::Resolve);  // what was asked for excludes other things: an engine's share, its groups of GPUs
  if (question.goal != Goal::Fits) add(Purpose::RunBetter);
  std::vector<std::pair<std::string, Choice>> rows;
  for (const Suggested& one : all) {
    const std::string_view name = one.setting.change->name;
    if (name == "micro-batch" || name == "seq-len" || (is_method(name) && !question.allowed.method)) continue;
    const std::string row = is_method(name) ? "method" : std::string(name);
    auto found = std::ranges::find(rows, row, &std::pair<std::string, Choice>::first);
    if (found == rows.end()) found = rows.insert(rows.end(), {row, {}});
    found->second.push_back({one.setting});
    // trainers that switch the kernels of loss and layers together have no other word for one of them
    if (name == "loss" && one.setting.value == "fused")
      found->second.push_back({one.setting, set_to("kernels", "fused")});
  }
  std::vector<Choice> out;
  for (auto& [name, choice] : rows) out.push_back(std::move(choice));
  if (Choice batch = batch_choice(question); !batch.empty()) out.push_back(std::move(batch));
  if (r.eval_batch > r.recipe.micro_batch)
    out.push_back({{set_to("eval-batch", std::to_string(r.recipe.micro_batch))}});
  if (question.allowed.context)
    if (Choice context = context_choice(question); !context.empty()) out.push_back(std::move(context));
  return out;
}

/// GPU seconds or seconds for the same rows, by the goal: the time of a token of the text.
double score(const StrategyEstimate& e, Goal goal) {
  if (e.tokens_per_second <= 0) return std::numeric_limits<double>::infinity();
  return (goal == Goal::Cheap ? double(e.num_gpus_used) : 1) / e.tokens_per_second;
}

class Search {
 public:
  Search(const FixQuestion& question, const std::optional<StrategyEstimate>& before)
      : question_(question),
        before_(before),
        as_given_(question.given.request.strategy) {}

  std::vector<MendWay> find(std::size_t most_changes) {
    const std::vector<Choice> all = choices(question_);
    for (std::size_t count = 0; count <= std::min(most_changes, all.size()); ++count) {
      const bool had_one = !found_.empty();
      combine(all, count, 0, {});
      if (had_one && question_.goal == Goal::Fits) break;  // one more change than needed shows what is much faster
    }
    return ranked();
  }

 private:
  void combine(const std::vector<Choice>& all, std::size_t count, std::size_t from, const Settings& settings) {
    if (count == 0) return estimate_all(settings);
    for (std::size_t i = from; i + count <= all.size(); ++i)
      for (const Settings& one : all[i]) {
        Settings more = settings;
        more.insert(more.end(), one.begin(), one.end());
        combine(all, count - 1, i + 1, more);
      }
  }

  void estimate_all(const Settings& settings) {
    auto possible = changed_if_possible({question_.given.request, question_.profile}, settings);
    if (!possible) return;
    Variant& variant = *possible;
    if (as_given_ == "auto") {
      if (settings.empty()) return;
      if (auto best = best_fitting(variant, cache_for(variant))) add(settings, "", std::move(*best));
      return;
    }
    variant.request.strategy = "auto";
    for (StrategyEstimate& e : estimate_strategies(variant, Parts::IfFits, cache_for(variant))) {
      const bool is_other = e.strategy.name != as_given_;
      if (!is_other && settings.empty()) continue;
      std::string name = is_other ? e.strategy.name : "";
      add(settings, std::move(name), std::move(e));
    }
  }

  /// Blocks are shared by variants of one method.
  BlockCache* cache_for(const Variant& variant) {
    const Recipe &own = question_.given.request.recipe, &other = variant.request.recipe;
    return own.method == other.method && own.quant == other.quant ? &blocks_ : nullptr;
  }

  void add(const Settings& settings, std::string strategy, StrategyEstimate e) {
    if (!serves(e, question_.goal, before_)) return;
    const bool keeps_batch =
        question_.allowed.batch || as_given_ == "auto" || !before_ || e.global_batch == before_->global_batch;
    if (!keeps_batch) return;
    const auto has = [&](std::string_view name) {
      return std::ranges::any_of(settings, [&](const Setting& s) { return s.change->name == name; });
    };
    // micro batch and passes change together; another optimizer learns otherwise, and so is more than one change
    const bool has_evaluation = has("micro-batch") && evaluates_micro_batch(question_);
    const std::size_t num_changes = settings.size() - (has("grad-accum") ? 1 : 0) - (has_evaluation ? 1 : 0) +
                                    (has("optimizer") ? 1 : 0) + (strategy.empty() ? 0 : 1);
    found_.push_back({settings, std::move(strategy), std::move(e), num_changes});
  }

  /// Leaves the ways of which every change is needed: that fit no more without one of them.
  void keep_least() {
    const auto is_part = [](const MendWay& less, const MendWay& more) {
      const bool has_all = std::ranges::all_of(less.settings, [&](const Setting& mine) {
        return std::ranges::any_of(more.settings, [&](const Setting& other) {
          return mine.change == other.change && mine.value == other.value;
        });
      });
      // kernels of loss and layers together are one word of many trainers
      const auto has_kernels = [](const MendWay& way) {
        return std::ranges::any_of(way.settings, [](const Setting& s) { return s.change->name == "kernels"; });
      };
      return has_all && has_kernels(less) == has_kernels(more) &&
             (less.strategy.empty() || less.strategy == more.strategy);
    };
    std::ranges::stable_sort(found_, {},
                             [](const MendWay& way) { return way.settings.size() + (way.strategy.empty() ? 0 : 1); });
    std::vector<MendWay> least;
    for (MendWay& way : found_)
      if (std::ranges::none_of(least, [&](const MendWay& other) { return is_part(other, way); }))
        least.push_back(std::move(way));
    found_ = std::move(least);
  }

  /// The pace by which ways that make room are slow: the fastest of them, or the files' own, where these say how they
  /// train. What is faster than the files were is no reason to change more of them.
  double measure(double best) const {
    const bool is_known = as_given_ != "auto" || (before_ && !before_->strategy.takes_turns());
    if (question_.goal != Goal::Fits || !is_known || !before_ || before_->tokens_per_second <= 0) return best;
    return std::max(best, score(*before_, question_.goal));
  }

  bool cuts_rows(const MendWay& way) const {
    return std::ranges::any_of(way.settings, [&](const Setting& s) {
      return s.change->name == "seq-len" && parse_integer(s.value, "seq-len", 1) < question_.given.rows.longest();
    });
  }

  /// Much slower is half as long again; by the other goals what lies inside of the error is alike.
  std::vector<MendWay> ranked() {
    constexpr double kMuchSlower = 0.5;
    const Goal goal = question_.goal;
    if (goal == Goal::Fits) keep_least();
    const double error = question_.profile.time_error;
    if (goal != Goal::Fits && before_ && serves(*before_, goal, before_))
      std::erase_if(
          found_, [&](const MendWay& way) { return score(way.estimate, goal) * (1 + error) > score(*before_, goal); });
    double best = std::numeric_limits<double>::infinity();
    for (const MendWay& way : found_) best = std::min(best, score(way.estimate, goal));
    const double limit = measure(best) * (1 + (goal == Goal::Fits ? kMuchSlower : error));
    std::ranges::stable_sort(found_, [&](const MendWay& a, const MendWay& b) {
      if (cuts_rows(a) != cuts_rows(b)) return cuts_rows(b);
      const bool is_slow = score(a.estimate, goal) > limit, other_is_slow = score(b.estimate, goal) > limit;
      if (is_slow != other_is_slow) return other_is_slow;
      // a run out of memory is run again
      const double mine = score(a.estimate, goal) / a.estimate.chance,
                   other = score(b.estimate, goal) / b.estimate.chance;
      if (is_slow) return mine < other;
      return std::pair(a.num_changes, mine) < std::pair(b.num_changes, other);
    });
    return std::move(found_);
  }

  const FixQuestion& question_;
  const std::optional<StrategyEstimate>& before_;
  const std::string as_given_;
  BlockCache blocks_;
  std::vector<MendWay> found_;
};

}  // namespace

bool serves(const StrategyEstimate& e, Goal goal, const std::optional<StrategyEstimate>& before) {
  const bool rests_on_host = goal != Goal::Fits && before && before->fit == Fit::IfHost;
  return e.fits_well() || (rests_on_host && e.fit == Fit::IfHost && e.host.needed() <= before->host.needed());
}

std::optional<StrategyEstimate> estimate_as_given(const Variant& variant) {
  std::vector<StrategyEstimate> all = estimate_strategies(variant);
  if (const StrategyEstimate* best = best_of(all, variant.request.preference, variant.profile.time_error)) return *best;
  const auto least = std::ranges::min_element(
      all, {}, [](const StrategyEstimate& e) { return std::tuple(e.fit < Fit::Tight, is_refused(e), e.tiers.needed); });
  return least == all.end() ? std::nullopt : std::optional(*least);
}

std::vector<MendWay> find_ways(const FixQuestion& question, const std::optional<StrategyEstimate>& before,
                               std::size_t most_changes) {
  const Allowed& allowed = question.allowed;
  std::vector<MendWay> out;
  if (question.goal == Goal::Fits && (allowed.context || allowed.batch || allowed.method)) {
    FixQuestion kept = question;  // what may change otherwise does so where nothing else makes it fit
    kept.allowed = {};
    out = Search(kept, before).find(most_changes);
  }
  std::vector<MendWay> all = Search(question, before).find(most_changes);
  std::ranges::move(all, std::back_inserter(out));
  return out;
}

}  // namespace gpuplan

#include "planner/recommend.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/training_method.h"
#include "planner/changes.h"
#include "planner/free_choice.h"
#include "planner/rollout_phases.h"
#include "planner/step_batch.h"

namespace gpuplan {

double score_of(const StrategyEstimate& e, Preference preference) {
  if (preference == Preference::Memory) return double(e.tiers.process.count);
  const double seconds_per_token = 1 / e.tokens_per_second;
  return preference == Preference::Cost ? seconds_per_token * double(e.num_gpus_used) : seconds_per_token;
}

Preference second_wish(Preference first) { return first == Preference::Speed ? Preference::Cost : Preference::Speed; }

int rank_of(const StrategyEstimate& e) {
  constexpr int kTight = 6, kIfHost = 4, kTightIfHost = 2;  // apart by two: taking turns costs one
  const int by_host = e.fit_on_gpus() == Fit::Yes ? kIfHost : kTightIfHost;
  const int by_verdict = e.fit == Fit::Yes      ? kWorksTogether
                         : e.fit == Fit::Tight  ? kTight
                         : e.fit == Fit::IfHost ? by_host
                                                : 0;
  return by_verdict > 0 && e.strategy.takes_turns() ? by_verdict - 1 : by_verdict;
}

namespace {

using EstimateRow = StrategyEstimate;

double score(const EstimateRow& e, Preference preference) { return score_of(e, preference); }

/// Gives what decides between plans whose difference by the preference lies inside the error, in this order.
std::array<Preference, 2> wishes(Preference first) { return {first, second_wish(first)}; }

template <class Matches>
const EstimateRow* find_row(const EstimateResult& result, Matches matches) {
  for (const EstimateRow& e : result.strategies)
    if (e.not_applicable.empty() && matches(e.strategy)) return &e;
  return nullptr;
}

using Rows = std::vector<const EstimateRow*>;

/// Those of the highest rank.
Rows candidates(std::span<const EstimateRow> rows) {
  int highest = 1;
  for (const EstimateRow& e : rows)
    if (e.not_applicable.empty()) highest = std::max(highest, rank_of(e));
  Rows out;
  for (const EstimateRow& e : rows)
    if (e.not_applicable.empty() && rank_of(e) == highest) out.push_back(&e);
  return out;
}

/// Those of `rows` whose score is the best one, but for the error of a prediction.
Rows within_error(const Rows& rows, Preference preference, double error) {
  double best = std::numeric_limits<double>::infinity();
  for (const EstimateRow* e : rows) best = std::min(best, score(*e, preference));
  Rows out;
  for (const EstimateRow* e : rows)
    if (score(*e, preference) <= best * (1 + error)) out.push_back(e);
  return out;
}

}  // namespace

bool is_refused(const StrategyEstimate& e) { return e.fit == Fit::No && e.tiers.needed <= e.tiers.usable; }

std::size_t best_of(std::span<const Contender> all, double error) {
  const int highest = std::ranges::max_element(all, {}, &Contender::rank)->rank;
  std::vector<const Contender*> left;
  for (const Contender& one : all)
    if (one.rank == highest) left.push_back(&one);
  for (const auto score : {&Contender::first, &Contender::second}) {
    const double best = (*std::ranges::min_element(left, {}, [&](const Contender* c) { return c->*score; }))->*score;
    std::erase_if(left, [&](const Contender* c) { return c->*score > best * (1 + error); });
  }
  keep_likeliest(left, [](const Contender* c) { return c->chance; });
  return std::size_t(*std::ranges::min_element(left, {}, [](const Contender* c) { return c->simplicity; }) -
                     all.data());
}

const EstimateRow* best_of(std::span<const EstimateRow> all, Preference preference, double error) {
  const auto [first, second] = wishes(preference);
  std::vector<const EstimateRow*> rows;
  std::vector<Contender> contenders;
  for (const EstimateRow& e : all) {
    if (!e.not_applicable.empty() || rank_of(e) < 1) continue;
    rows.push_back(&e);
    contenders.push_back({rank_of(e), score(e, first), score(e, second), e.chance, e.strategy.simplicity});
  }
  return rows.empty() ? nullptr : rows[best_of(contenders, error)];
}

namespace {

/// "single costs the same within the error and takes 3.9 times as long": who lost a tie by the preference.
std::string tie_text(const EstimateRow& chosen, const EstimateRequest& r, const EstimateResult& result) {
  constexpr double kVisible = 1.05;
  const auto [first, second] = std::pair{wishes(r.preference)[0], wishes(r.preference)[1]};
  for (const EstimateRow* other : within_error(candidates(result.strategies), first, result.profile.time_error)) {
    if (other->strategy.simplicity >= chosen.strategy.simplicity) continue;
    const double ratio = score(*other, second) / score(chosen, second);
    if (ratio < kVisible) continue;
    const char* equal = first == Preference::Cost    ? "costs the same"
                        : first == Preference::Speed ? "takes as long"
                                                     : "needs as much memory";
    return fmt::format("; {} {} within the error, but {} {:.1f} times as much{}", other->strategy.name, equal,
                       second == Preference::Cost ? "costs" : "takes", ratio,
                       second == Preference::Cost ? "" : " time");
  }
  return {};
}

/// Says whether every plan of this kind runs out of memory.
template <class Matches>
bool none_fits(const EstimateResult& result, Matches matches) {
  for (const EstimateRow& e : result.strategies)
    if (e.not_applicable.empty() && matches(e.strategy) && e.fits()) return false;
  return true;
}

/// "the fastest of those that fit (well)", or of which one it is as good.
std::string best_text(const EstimateRow& chosen, Preference preference, const EstimateResult& result) {
  const EstimateRow* best = &chosen;
  for (const EstimateRow* e : candidates(result.strategies))
    if (score(*e, preference) < score(*best, preference)) best = e;
  const bool is_best = score(chosen, preference) <= 1.01 * score(*best, preference);
  const bool is_beaten_by_tight =
      chosen.fit == Fit::Yes &&
      std::any_of(result.strategies.begin(), result.strategies.end(), [&](const EstimateRow& e) {
        return e.not_applicable.empty() && e.fit == Fit::Tight && score(e, preference) < score(chosen, preference);
      });
  const std::string of_those = is_beaten_by_tight ? "of those that fit well" : "of those that fit";
  switch (preference) {
    case Preference::Speed:
      return is_best ? "the fastest " + of_those
                     : fmt::format("as fast as {} within the error, and simpler", best->strategy.name);
    case Preference::Cost:
      return is_best ? "the cheapest " + of_those
                     : fmt::format("as cheap as {} within the error, and faster or simpler", best->strategy.name);
    case Preference::Memory:
      return is_best ? "the one that needs the least memory"
                     : fmt::format("needs as little memory as {} within the error, and is faster or simpler",
                                   best->strategy.name);
  }
  return {};
}

/// "mp would be 2.9 times as fast, its GPUs taking turns": what a plan that keeps them all at work forgoes.
std::string turns_text(const EstimateRow& chosen, Preference preference, const EstimateResult& result) {
  if (chosen.strategy.takes_turns() || preference != Preference::Speed) return {};
  for (const EstimateRow& e : result.strategies)
    if (e.not_applicable.empty() && e.strategy.takes_turns() && e.fit >= chosen.fit) {
      const double gain = score(chosen, preference) / score(e, preference);
      if (gain > 1 + result.profile.time_error)
        return fmt::format("; {} would be {:.1f} times as fast, though its GPUs take turns", e.strategy.name, gain);
    }
  return {};
}

/// "fsdp fits tightly and would be 2.9 times as fast": what a plan that fits well forgoes.
std::string tight_text(const EstimateRow& chosen, Preference preference, const EstimateResult& result) {
  if (chosen.fit != Fit::Yes || preference == Preference::Memory) return {};
  const EstimateRow* best = &chosen;
  for (const EstimateRow& e : result.strategies)
    if (e.not_applicable.empty() && e.fit == Fit::Tight && score(e, preference) < score(*best, preference)) best = &e;
  const double gain = score(chosen, preference) / score(*best, preference);
  if (gain <= 1 + result.profile.time_error) return {};
  return preference == Preference::Cost
             ? fmt::format("; {} fits tightly and would cost {:.0f} % less", best->strategy.name, 100 * (1 - 1 / gain))
             : fmt::format("; {} fits tightly and would be {:.1f} times as fast", best->strategy.name, gain);
}

/// "nothing is shared on one GPU, and single is not possible: no optimizer offload".
std::string alone_text(const EstimateResult& result) {
  for (const EstimateRow& e : result.strategies)
    if (e.strategy.is_one_gpu() && !e.not_applicable.empty())
      return fmt::format("nothing is shared on one GPU, and {} is not possible: {}", e.strategy.name, e.not_applicable);
  return "nothing is shared on one GPU";
}

std::string reason_for(const EstimateRow& chosen, const EstimateRequest& r, const EstimateResult& result) {
  const Strategy& strategy = chosen.strategy;
  const std::string tight = chosen.fit == Fit::Tight    ? fmt::format("; tight: {}", chosen.why_not_yes)
                            : chosen.fit == Fit::IfHost ? fmt::format("; {}", chosen.why_not_yes)
                                                        : "";
  if (r.strategy != "auto") return (tight.empty() ? "as described, and it fits" : "as described") + tight;
  const EstimateRow* single = find_row(result, [](const Strategy& s) { return s.is_one_gpu(); });
  const auto is_replicated = [](const Strategy& s) { return s.is_replicated(); };
  const auto is_sharded = [](const Strategy& s) { return s.layout.shards_optimizer; };
  std::string text = best_text(chosen, r.preference, result);
  if (strategy.is_one_gpu()) {
    text = r.cluster.num_gpus() == 1 ? "it fits on the one GPU there is"
           : r.preference == Preference::Memory
               ? text
               : "it fits on one GPU, and more would cost more per token than they gain";
  } else if (r.cluster.num_gpus() == 1) {
    text = alone_text(result);
  } else if (strategy.is_replicated()) {
    text = std::string(holds_part(strategy.mesh)
                           ? "every replica is a whole model, so between them only gradients travel; "
                           : "every GPU holds the whole model, so only gradients travel; ") +
           text;
  } else if (strategy.takes_turns()) {
    if (none_fits(result, is_sharded))
      text = "no sharded strategy fits, so the layers are spread over the GPUs; they work one after the other";
  } else if (none_fits(result, is_replicated)) {
    if (!strategy.layout.shards_weights && strategy.layout.shards_optimizer)
      text = fmt::format("replicas of the weights fit, the optimizer{} sharded over the GPUs",
                         strategy.layout.shards_gradients ? " and the gradients are" : " is");
    else if (strategy.layout.shards_weights && single && !single->fits())
      text = fmt::format("one GPU does not hold it ({}), so weights, gradients and optimizer are sharded",
                         format_bytes(single->tiers.process));
    if (strategy.layout.shards_weights && !strategy.layout.reshards_after_forward)
      text += "; weights stay gathered until backward because the memory is there, which saves a third of the traffic";
  }
  const EstimateRow* fsdp = find_row(result, [](const Strategy& s) {
    return is_fsdp(s.engine) && s.layout.reshards_after_forward && s.mesh.copies() == 1;
  });
  if (strategy.is_replicated() && fsdp && fsdp->tokens_per_second > 0 &&
      chosen.tokens_per_second > 1.2 * fsdp->tokens_per_second)
    text += fmt::format("; FSDP would be {:.1f} times slower", chosen.tokens_per_second / fsdp->tokens_per_second);
  return text + turns_text(chosen, r.preference, result) + tight_text(chosen, r.preference, result) +
         tie_text(chosen, r, result) + tight;
}

/// What would be better, although the recipe is never changed for the user.
void add_hints(std::vector<std::string>& advice, const EstimateRow& chosen, const EstimateRequest& r,
               const EstimateResult& result) {
  if (chosen.max_micro_batch && *chosen.max_micro_batch > r.recipe.micro_batch && r.recipe.grad_accum == 1 &&
      chosen.time.host > 0.7 * chosen.time.step)
    advice.push_back(fmt::format(
        "the host launches kernels for {} of the {} step: a larger micro batch (up to {} is predicted to fit) uses the "
        "GPU better",
        format_duration(chosen.time.host), format_duration(chosen.time.step), *chosen.max_micro_batch));
  for (const Purpose purpose : {Purpose::LeaveOut, Purpose::Quality})
    for (const Suggested& hint : suggest(r, purpose)) {
      const std::string_view name = hint.setting.change->name;
      if (suggest(r, Purpose::RunBetter, name)) continue;                  // a better way says it with figures
      if (r.not_given.are_chosen && r.not_given.contains(name)) continue;  // chosen because it is better so
      const auto without = estimate_variant(changed({r, result.profile}, {&hint.setting, 1}), chosen.strategy.name);
      if (without && without->fits_well())
        advice.push_back(fmt::format("it fits without {} too: {}", hint.why->title,
                                     describe_suggested({&hint, 1}, "", describe_time(chosen, *without))));
    }
}

/// Changes that leave what is trained, and on how many tokens per step, as asked; where what is not given is chosen, of
/// what was given.
std::vector<std::vector<Setting>> ways_to_run(const EstimateRequest& r) {
  const bool chooses = r.not_given.are_chosen;
  std::vector<std::vector<Setting>> singles;
  for (const Suggested& one : suggest(r, Purpose::RunBetter))
    if (!chooses || !r.not_given.contains(one.setting.change->name)) singles.push_back({one.setting});
  if (!chooses || !r.not_given.contains("micro-batch") || !r.not_given.contains("grad-accum"))
    for (std::vector<Setting>& batch : rebatchings(r.recipe)) singles.push_back(std::move(batch));
  std::vector<std::vector<Setting>> out{{}};
  if (chooses) {
    out.insert(out.end(), singles.begin(), singles.end());
    return out;
  }
  out.insert(out.end(), singles.begin(), singles.end());
  for (std::size_t a = 0; a < singles.size(); ++a)
    for (std::size_t b = a + 1; b < singles.size(); ++b) {
      if (singles[a].front().change == singles[b].front().change) continue;
      out.push_back(singles[a]);
      out.back().insert(out.back().end(), singles[b].begin(), singles[b].end());
    }
  return out;
}

/// The plans of a question: with what it leaves free chosen, the best alone.
std::vector<EstimateRow> plans_of(const Variant& variant) {
  if (!variant.request.not_given.are_chosen) return estimate_strategies(variant);
  const std::optional<EstimateRow> best = choose_freely(variant).best;
  return best ? std::vector<EstimateRow>{*best} : std::vector<EstimateRow>{};
}

constexpr std::string_view kPasses = "grad-accum";

/// Plans one or two changes away from the question that are better than `chosen` by more than the error.
std::vector<BetterWay> better_ways(const EstimateRequest& r, const EstimateRequest& asked, const EstimateResult& result,
                                   const EstimateRow& chosen) {
  const double error = result.profile.time_error;
  std::vector<BetterWay> all;
  for (const std::vector<Setting>& settings : ways_to_run(r)) {
    if (settings.empty() && r.strategy == "auto") continue;
    Variant variant = changed({asked, result.profile}, settings);
    set_strategy_of_batch(variant.request, "auto");
    for (EstimateRow& e : plans_of(variant)) {
      if (!e.fits() || rank_of(e) < rank_of(chosen)) continue;
      const bool is_other = r.strategy != "auto" && e.strategy.name != r.strategy;
      if (settings.empty() && !is_other) continue;
      BetterWay way;
      const std::int64_t passes = passes_under(variant.request, e.strategy);
      bool says_passes = false;
      for (Setting s : settings) {
        if (s.change->name == kPasses) s.value = std::to_string(passes), says_passes = true;
        way.flags.push_back(describe(s));
      }
      if (!says_passes && passes != asked.recipe.grad_accum && generates(asked.recipe))
        way.flags.push_back(fmt::format("--{} {}", kPasses, passes));  // the batch of all ranks stays
      if (is_other) way.flags.push_back("--strategy " + e.strategy.name);
      way.plan = std::move(e);
      all.push_back(std::move(way));
    }
  }
  int safest = 0;  // a safe way goes before a tight one
  for (const BetterWay& way : all)
    if (score(way.plan, r.preference) * (1 + error) <= score(chosen, r.preference))
      safest = std::max(safest, rank_of(way.plan));
  std::erase_if(all, [&](const BetterWay& way) { return rank_of(way.plan) < safest; });
  std::vector<BetterWay> out;
  for (const Preference wish : wishes(r.preference)) {
    const double limit = out.empty() ? score(chosen, wish) : std::min(score(chosen, wish), score(out[0].plan, wish));
    double best = limit / (1 + error);
    for (const BetterWay& way : all) best = std::min(best, score(way.plan, wish));
    const BetterWay* pick = nullptr;
    for (const BetterWay& way : all) {
      const double mine = score(way.plan, wish);
      if (mine > best * (1 + error) || mine > limit / (1 + error)) continue;
      const auto rank = [](const BetterWay& w) { return std::pair(w.flags.size(), w.plan.strategy.simplicity); };
      if (!pick || rank(way) < rank(*pick)) pick = &way;
    }
    if (pick) out.push_back(*pick);
  }
  return out;
}

/// Suggestions that are tried together.
using Together = std::vector<Suggested>;

/// Finds what makes a request fit that does not.
class Search {
 public:
  /// `least`: what counts as fitting.
  Search(const EstimateRequest& request, const EstimateResult& result, Fit least)
      : result_(result),
        now_{request, result.profile},
        least_(least) {}

  /// Each saver alone or beside checkpointing, what resolves a clash of what was asked for, another strategy, these
  /// together; then savers that change what is trained; else all savers one after the other; more GPUs; and where
  /// nothing fits, settings that are no saver by themselves.
  std::vector<std::string> what_would_help() const {
    std::vector<std::string> advice;
    const auto add = [&](std::string text) {
      if (text.empty()) return false;
      advice.push_back(std::move(text));
      return true;
    };
    const Together savers = of_what_is_given(Purpose::SaveMemory);
    std::vector<const Change*> helped;  // the milder of two values of one change is enough
    const auto add_of = [&](const Suggested& one, std::string text) {
      if (add(std::move(text))) helped.push_back(one.setting.change);
    };
    const auto is_open = [&](const Suggested& one) { return std::ranges::count(helped, one.setting.change) == 0; };
    Together keeping = savers;
    std::erase_if(keeping, changes_training);
    for (const Suggested& saver : keeping)
      if (is_open(saver)) add_of(saver, try_until_it_fits(saver));
    for (const Suggested& way_out : of_what_is_given(Purpose::Resolve))
      if (const auto fitting = fits_with({way_out})) add_of(way_out, worded({way_out}, "", *fitting, "then"));
    add(try_other_strategies());
    if (advice.empty()) add(try_beside_other_strategies(keeping));
    for (const Suggested& saver : savers)
      if (changes_training(saver) && is_open(saver)) add_of(saver, try_until_it_fits(saver));
    if (advice.empty()) add(try_together(savers));
    if (advice.empty()) add(try_together(joined(of_what_is_given(Purpose::Resolve), savers)));
    add(try_more_gpus());
    if (least_ == Fit::IfHost)
      for (const Suggested& other : other_values(savers))
        if (is_open(other))
          if (const auto fitting = fits_with({other})) add_of(other, worded({other}, "", *fitting, "then"));
    const auto is_possible = [](const StrategyEstimate& e) { return e.not_applicable.empty(); };
    if (advice.empty() && std::ranges::any_of(result_.strategies, is_possible)) add(std::string(kNothingHelps));
    return advice;
  }

 private:
  /// Says whether a setting is one of those that were chosen from freely: the request has it as it is best.
  bool was_free(const Setting& setting) const {
    const NotGiven& free = now_.request.not_given;
    if (!free.are_chosen || !setting.change->free || !free.contains(setting.change->name)) return false;
    const FreeValues chosen_from = setting.change->free(now_.request);
    return std::ranges::count(chosen_from.values, setting.value) +
               std::ranges::count(chosen_from.from_host, setting.value) >
           0;
  }

  Together of_what_is_given(Purpose purpose) const {
    Together out = suggest(now_.request, purpose);
    std::erase_if(out, [&](const Suggested& one) { return was_free(one.setting); });
    return out;
  }

  /// Returns changes that are no savers by themselves: leaving a saver out, and values that a search tries.
  Together other_values(const Together& savers) const {
    static constexpr Suggestion kOther{};
    Together out = of_what_is_given(Purpose::LeaveOut);
    for (const Change& change : changes())
      if (change.tried)
        for (const std::string_view value : change.tried(now_.request))
          out.push_back({set_to(change.name, value), &kOther});
    std::erase_if(out, [&](const Suggested& one) {
      return was_free(one.setting) || std::ranges::any_of(savers, [&](const Suggested& saver) {
               return saver.setting.change == one.setting.change && saver.setting.value == one.setting.value;
             });
    });
    return out;
  }

  static Together joined(Together first, const Together& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  /// The same change with another value, or another method: one model is trained by one.
  static bool replaces(const Suggested& one, const Suggested& before) {
    static constexpr std::array<std::string_view, 3> kMethods{"lora", "qlora", "full"};
    const auto is_method = [](const Suggested& s) {
      return std::ranges::find(kMethods, s.setting.change->name) != kMethods.end();
    };
    return one.setting.change == before.setting.change || (is_method(one) && is_method(before));
  }

  std::string try_together(const Together& all) const {
    Together combined;
    for (const Suggested& one : all) {
      std::erase_if(combined, [&](const Suggested& before) { return replaces(one, before); });
      combined.push_back(one);
      if (combined.size() == 1) continue;
      if (const auto fitting = fits_with(combined)) return worded(combined, " + ", *fitting, "together, then");
    }
    return {};
  }

  /// Another method, another context and weights in 16 bit train something else; other savers the same, or nearly.
  static bool changes_training(const Suggested& one) {
    static constexpr std::array<std::string_view, 4> kWhat{"lora", "qlora", "seq-len", "precision"};
    return std::ranges::find(kWhat, one.setting.change->name) != kWhat.end();
  }

  /// A smaller micro batch is of no use where an evaluation keeps the larger one.
  std::string try_with_evaluation(const Suggested& saver) const {
    if (saver.setting.change->name != "micro-batch") return {};
    const auto smaller = suggest(with({saver}).request, Purpose::SaveMemory, "eval-batch");
    if (!smaller) return {};
    const Together both{saver, *smaller};
    const auto fitting = fits_with(both);
    return fitting ? worded(both, " + ", *fitting, "together, then") : std::string();
  }

  /// A saver that may be applied again is, as a sequence is halved.
  std::string try_until_it_fits(Suggested saver) const {
    for (Variant tried = now_;;) {
      if (std::string text = try_one(saver); !text.empty()) return text;
      if (std::string text = try_with_evaluation(saver); !text.empty()) return text;
      tried = changed(std::move(tried), {&saver.setting, 1});
      auto next = suggest(tried.request, Purpose::SaveMemory, saver.setting.change->name);
      if (!next || next->why != saver.why) return {};
      saver = *std::move(next);
    }
  }

  std::string try_other_strategies() const {
    if (now_.request.strategy == "auto") return {};
    Variant free = now_;
    free.request.strategy = "auto";
    const auto fitting = fitting_plan(free);
    if (!fitting) return {};
    static constexpr Suggestion kOther{};
    return worded({{set_to("strategy", fitting->strategy.name), &kOther}}, "", *fitting, "then");
  }

  /// One saver and another strategy, where neither does it alone: the first that fits well, else the first that fits.
  std::string try_beside_other_strategies(const Together& all) const {
    if (now_.request.strategy == "auto") return {};
    static constexpr Suggestion kOther{};
    std::string tight;
    for (const Suggested& one : all) {
      Variant free = with({one});
      free.request.strategy = "auto";
      const auto fitting = fitting_plan(free);
      if (!fitting || (!fitting->fits_well() && !tight.empty())) continue;
      std::string text =
          worded({one, {set_to("strategy", fitting->strategy.name), &kOther}}, " + ", *fitting, "together, then");
      if (fitting->fits_well()) return text;
      tight = std::move(text);
    }
    return tight;
  }

  Variant with(const Together& all) const {
    Variant variant = now_;
    for (const Suggested& one : all) variant = changed(std::move(variant), {&one.setting, 1});
    return variant;
  }

  std::optional<StrategyEstimate> fits_with(const Together& all) const { return fitting_plan(with(all)); }

  std::optional<StrategyEstimate> fitting_plan(const Variant& variant) const {
    std::optional<StrategyEstimate> e = best_answer(variant);
    return e && e->fit >= least_ ? e : std::nullopt;
  }

  /// The row that a changed plan is compared with: that of its strategy, else the first one that is possible.
  const EstimateRow* counterpart(const StrategyEstimate& e) const {
    const EstimateRow* same = find_row(result_, [&](const Strategy& s) { return s.name == e.strategy.name; });
    return same ? same : find_row(result_, [](const Strategy&) { return true; });
  }

  /// "--loss fused (12 % more time per token): then fsdp fits".
  std::string worded(const Together& all, std::string_view joined_by, const StrategyEstimate& fitting, const char* then,
                     const char* remark = "") const {
    const EstimateRow* before = counterpart(fitting);
    const std::string time = before ? describe_time(*before, fitting) : "";
    const std::string how = fitting.fit == Fit::Tight ? " tightly"
                            : fitting.fit == Fit::IfHost
                                ? fmt::format(" if the host has {}", format_bytes(fitting.host.needed()))
                                : "";
    return fmt::format("{}: {} {} fits{}{}", describe_suggested(all, joined_by, time), then, fitting.strategy.name, how,
                       remark);
  }

  /// A plan whose GPUs compute one after the other is named only if checkpointing does not help it to a better one.
  std::string try_one(const Suggested& saver) const {
    const auto in_step = [](const auto& e) { return e && e->strategy.schedule == Schedule::Sequential; };
    const Together alone{saver};
    const auto fitting = fits_with(alone);
    if (in_step(fitting)) return worded(alone, "", *fitting, "then");
    if (const auto checkpointing = suggest(with(alone).request, Purpose::SaveMemory, "checkpointing")) {
      const Together both{saver, *checkpointing};
      const auto fits = fits_with(both);
      if (fits && (!fitting || in_step(fits))) return worded(both, " with ", *fits, "then");
    }
    const bool takes_turns = fitting && fitting->strategy.takes_turns();
    return fitting ? worded(alone, "", *fitting, "then", takes_turns ? ", the GPUs taking turns" : "") : "";
  }

  std::string try_more_gpus() const {
    constexpr int kMostDoublings = 6;
    Variant more = now_;
    for (int doublings = 1; doublings <= kMostDoublings; ++doublings) {
      const Together all = suggest(more.request, Purpose::MoreGpus);
      if (all.empty()) return {};
      auto grown = changed_if_possible(std::move(more), {&all.front().setting, 1});
      if (!grown) return {};  // a machine without a network has no more GPUs
      more = std::move(*grown);
      if (const auto fitting = fitting_plan(more)) return worded(all, "", *fitting, "then");
    }
    return {};
  }

  const EstimateResult& result_;
  Variant now_;
  Fit least_;
};

}  // namespace

Recommendation recommend(const EstimateRequest& r, const EstimateRequest& asked, const EstimateResult& result) {
  Recommendation out;
  const EstimateRow* chosen = best_of(result.strategies, r.preference, result.profile.time_error);
  if (!chosen) {
    out.reason = r.strategy == "auto" ? "no strategy fits" : fmt::format("{} does not fit", r.strategy);
    for (const EstimateRow& e : result.strategies)
      if (r.strategy != "auto" && !e.not_applicable.empty())
        out.reason = fmt::format("{} is not possible here: {}", r.strategy, e.not_applicable);
    const FrameworkConvention& framework = *r.recipe.framework;
    if (r.strategy != "auto" && !has_strategy(framework, r.strategy))
      out.advice = {fmt::format("--strategy {}: {} has these", fmt::join(framework.distributed.strategies, ", "),
                                framework.name)};
    else
      out.advice = Search(asked, result, Fit::IfHost).what_would_help();
    return out;
  }
  out.strategy = chosen->strategy.name;
  out.reason = reason_for(*chosen, r, result);
  out.better = better_ways(r, asked, result, *chosen);
  if (chosen->fit != Fit::Yes)
    out.advice = Search(asked, result, Fit::Yes).what_would_help();
  else
    add_hints(out.advice, *chosen, r, result);
  return out;
}

}  // namespace gpuplan

#include "search/frontier.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "planner/recommend.h"

namespace gpuplan {

double score(const Merit& m, Preference wish) {
  switch (wish) {
    case Preference::Speed: return m.time;
    case Preference::Cost: return m.cost;
    case Preference::Memory: return 1 - m.headroom;
  }
  return 0;
}

namespace {

using Indices = std::vector<std::size_t>;

double best_score(const std::vector<Merit>& all, const Indices& of, Preference wish) {
  double best = std::numeric_limits<double>::infinity();
  for (const std::size_t i : of) best = std::min(best, score(all[i], wish));
  return best;
}

/// Those whose score is the best one, but for the error.
Indices within_error(const std::vector<Merit>& all, const Indices& of, Preference wish, double error) {
  const double best = best_score(all, of, wish);
  Indices out;
  for (const std::size_t i : of)
    if (score(all[i], wish) <= best * (1 + error)) out.push_back(i);
  return out;
}

/// Those whose room is the most, but for what counts as equal.
Indices roomiest(const std::vector<Merit>& all, const Indices& of) {
  double best = 0;
  for (const std::size_t i : of) best = std::max(best, all[i].room);
  Indices out;
  for (const std::size_t i : of)
    if (all[i].room >= best - kEqualHeadroom) out.push_back(i);
  return out;
}

/// Those that are about as likely to fit as the likeliest.
Indices surest(const std::vector<Merit>& all, Indices of) {
  keep_likeliest(of, [&](std::size_t i) { return all[i].chance; });
  return of;
}

Indices safest(const std::vector<Merit>& all) {
  int best = 0;
  for (const Merit& m : all) best = std::max(best, rank_of(m));
  Indices out;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (rank_of(all[i]) == best) out.push_back(i);
  return out;
}

/// The simplest of `of`; of those alike the one that scores best.
std::size_t simplest(const std::vector<Merit>& all, const Indices& of, Wishes wishes) {
  return *std::min_element(of.begin(), of.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      return std::tuple(all[i].simplicity, score(all[i], wishes.first), score(all[i], wishes.second), i);
    };
    return key(a) < key(b);
  });
}

/// The simplest plan that is as good as the one at `index`, but for the error, and fits as well.
std::size_t simplest_equal(const std::vector<Merit>& all, std::size_t index, Wishes wishes) {
  Indices equals;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (rank_of(all[i]) >= rank_of(all[index]) && is_no_worse(all[i], all[index], wishes.row_error))
      equals.push_back(i);
  return simplest(all, equals, wishes);
}

/// A plan that fits more surely than the one at `index` and is as good but for the error: the surest, of those the
/// roomiest and the fastest. `index` itself where there is none.
std::size_t surer_equal(const std::vector<Merit>& all, std::size_t index, double error) {
  const Merit& one = all[index];
  const auto key = [&](const Merit& m) { return std::tuple(-int(m.fit), -m.room, m.time, m.cost); };
  std::size_t best = index;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_surer = all[i].fit > one.fit && rank_of(all[i]) > rank_of(one) && all[i].offloads <= one.offloads;
    if (is_surer && is_no_worse(all[i], one, error) && (best == index || key(all[i]) < key(all[best]))) best = i;
  }
  return best;
}

/// The frontier in the order in which it is shown: its ends, the cheapest of each better quality, then what lies in the
/// middle of the largest gaps of time.
Indices by_interest(const std::vector<Merit>& all, const Indices& front) {
  Indices out;
  const auto add = [&](const Indices& of, auto less) {
    if (!of.empty()) out.push_back(*std::min_element(of.begin(), of.end(), less));
  };
  const auto cheaper = [&](std::size_t a, std::size_t b) { return all[a].cost < all[b].cost; };
  add(front, [&](std::size_t a, std::size_t b) { return all[a].time < all[b].time; });
  add(front, cheaper);
  for (auto quality = kQualities.rbegin(); quality != kQualities.rend(); ++quality) {
    Indices own;
    for (const std::size_t i : front)
      if (all[i].quality == quality->value) own.push_back(i);
    add(own, cheaper);
  }
  add(front, [&](std::size_t a, std::size_t b) { return all[a].room > all[b].room; });
  // halves of halves, so that a short list spreads over the whole
  for (std::size_t step = std::max<std::size_t>(1, front.size() / 2); step >= 1; step /= 2)
    for (std::size_t at = step; at < front.size(); at += 2 * step) out.push_back(front[at]);
  return out;
}

}  // namespace

int rank_of(const Merit& m) { return 2 * int(m.fit) + (m.offloads ? 0 : 1); }

Merit merit_of(const RankedPlan& plan, Seconds total, double cost, bool is_rented) {
  return {.time = is_rented ? std::max(total, kReadyTime).value : total.value,
          .cost = cost,
          .headroom = plan.headroom(),
          .room = is_rented ? std::round(100 * plan.chance) / 100 : std::clamp(plan.headroom(), 0.0, kUsefulHeadroom),
          .chance = plan.chance,
          .quality = plan.quality,
          .fit = plan.fit,
          .offloads = plan.offloads,
          .takes_turns = plan.takes_turns,
          .simplicity = plan.simplicity};
}

Wishes wishes_of(const SearchQuestion& q, double error) {
  if (q.preference == Preference::Cost) return {Preference::Cost, Preference::Speed, kAlike, kAlike, kWorthRow, true};
  if (q.preference == Preference::Memory) return {Preference::Memory, Preference::Speed, error, error, error, false};
  if (q.is_rented) return {Preference::Speed, Preference::Cost, error, kAlike, kWorthRow, true};
  return {Preference::Speed, Preference::Cost, error, error, error, false};
}

namespace {

/// The safest; those with offload that fit as well instead, where they are so much faster or cheaper that it is worth
/// its trouble.
Indices safest_worth_it(const std::vector<Merit>& all, Preference wish) {
  Indices safe = safest(all), with_offload;
  const Merit& one = all[safe.front()];
  if (one.offloads || wish == Preference::Memory) return safe;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].fit == one.fit && all[i].offloads) with_offload.push_back(i);
  const bool all_take_turns = std::all_of(safe.begin(), safe.end(), [&](std::size_t i) { return all[i].takes_turns; });
  const double worth = all_take_turns ? 1 : kWorthOffload;  // a pipeline that idles is no simpler
  return best_score(all, with_offload, wish) * worth < best_score(all, safe, wish) ? with_offload : safe;
}

}  // namespace

std::size_t best_of(const std::vector<Merit>& all, Wishes wishes) {
  Indices left = within_error(all, safest_worth_it(all, wishes.first), wishes.first, wishes.first_error);
  left = within_error(all, left, wishes.second, wishes.second_error);
  left = wishes.is_exact ? roomiest(all, within_error(all, left, wishes.first, kAlike)) : surest(all, left);
  return simplest(all, left, wishes);
}

bool is_no_worse(const Merit& a, const Merit& b, double error) {
  return a.time <= b.time * (1 + error) && a.cost <= b.cost * (1 + error) && a.quality >= b.quality &&
         a.room >= b.room - kEqualHeadroom;
}

std::vector<std::size_t> pareto(const std::vector<Merit>& all) {
  Indices order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      return std::tuple(all[i].time, all[i].cost, -all[i].room, -std::ptrdiff_t(all[i].quality), i);
    };
    return key(a) < key(b);
  });
  // of those before, by quality: cost -> the most headroom at that cost or less; both rise along the map
  std::array<std::map<double, double>, kQualities.size()> best_of_quality;
  Indices out;
  for (const std::size_t i : order) {
    const double cost = all[i].cost, room = all[i].room;
    const auto covers = [&](const std::map<double, double>& best) {
      const auto above = best.upper_bound(cost);
      return above != best.begin() && std::prev(above)->second >= room;
    };
    const auto own = best_of_quality.begin() + std::ptrdiff_t(all[i].quality);
    if (std::any_of(own, best_of_quality.end(), covers)) continue;
    std::map<double, double>& best = *own;
    auto above = best.upper_bound(cost);
    out.push_back(i);
    while (above != best.end() && above->second <= room) above = best.erase(above);
    best[cost] = room;
  }
  return out;
}

std::vector<std::size_t> frontier(const std::vector<Merit>& all, Wishes wishes, std::size_t most) {
  if (all.empty() || most == 0) return {};
  Indices out{best_of(all, wishes)};
  const Merit& best = all[out.front()];
  std::vector<Merit> worthy;  // of a look
  Indices places;
  for (std::size_t i = 0; i < all.size(); ++i) {
    // what is riskier than the best must be faster or cheaper
    const bool gains = all[i].time * kWorthRisk < best.time || all[i].cost * kWorthRisk < best.cost;
    if (rank_of(all[i]) < rank_of(best) && !gains) continue;
    // predicted above the card: only where nothing is predicted below it
    if (all[i].fit != Fit::Yes && all[i].headroom < 0 && best.headroom >= 0) continue;
    worthy.push_back(all[i]), places.push_back(i);
  }
  for (const std::size_t at : by_interest(worthy, pareto(worthy))) {
    if (out.size() >= most) break;
    const std::size_t i = surer_equal(all, places[at], wishes.row_error);
    const auto covers = [&](std::size_t shown) {
      return rank_of(all[shown]) >= rank_of(all[i]) && is_no_worse(all[shown], all[i], wishes.row_error);
    };
    if (std::any_of(out.begin(), out.end(), covers)) continue;
    out.push_back(wishes.is_exact ? i : simplest_equal(all, i, wishes));
  }
  return out;
}

}  // namespace gpuplan

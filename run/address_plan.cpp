#include "run/address_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

namespace gpuplan {
namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

/// What is placed already.
struct Placed {
  std::int64_t offset{}, end{};
  std::uint32_t from{}, to{};
};

enum class Fit : std::uint8_t { Lowest, Tightest };

/// Where `bytes` fit among what lives at the same time: the lowest gap, or the tightest. `placed` is in order of offsets.
std::int64_t find_gap(const std::vector<Placed>& placed, const Lifetime& life, std::int64_t bytes, Fit fit) {
  std::int64_t at = 0, best = -1, tightest = std::numeric_limits<std::int64_t>::max();
  for (const Placed& p : placed) {
    if (p.to <= life.begin || life.end <= p.from) continue;
    const std::int64_t gap = p.offset - at;
    if (gap >= bytes && gap < tightest) best = at, tightest = gap;
    if (best >= 0 && fit == Fit::Lowest) return best;
    at = std::max(at, p.end);
  }
  return best >= 0 ? best : at;
}

using Order = std::vector<std::size_t>;

struct Attempt {
  Order order;
  Fit fit{};
  AddressPlan plan;
};

/// One after the other, in this order.
void place(const std::vector<Lifetime>& lifetimes, Attempt& attempt) {
  attempt.plan = {.offsets = std::vector<Bytes>(lifetimes.size()), .size = {}};
  std::vector<Placed> placed;
  placed.reserve(lifetimes.size());
  for (const std::size_t i : attempt.order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t bytes = aligned(life.bytes.count), at = find_gap(placed, life, bytes, attempt.fit);
    attempt.plan.offsets[i] = Bytes{at};
    attempt.plan.size = std::max(attempt.plan.size, Bytes{at + bytes});
    const Placed here{at, at + bytes, life.begin, life.end};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), here,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }), here);
  }
}

/// What comes first: the largest, the longest, or the largest area in time and memory.
using Weight = double (*)(const Lifetime&);
constexpr std::array<Weight, 3> kWeights{[](const Lifetime& l) { return double(l.bytes.count); },
                                         [](const Lifetime& l) { return double(l.end - l.begin); },
                                         [](const Lifetime& l) { return double(l.bytes.count) * double(l.end - l.begin); }};

Attempt best_order(const std::vector<Lifetime>& lifetimes, Fit fit) {
  Attempt best;
  for (const Weight weight : kWeights) {
    Attempt attempt{.order = Order(lifetimes.size()), .fit = fit, .plan = {}};
    std::iota(attempt.order.begin(), attempt.order.end(), std::size_t{0});
    std::stable_sort(attempt.order.begin(), attempt.order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(lifetimes[a]) > weight(lifetimes[b]); });
    place(lifetimes, attempt);
    if (best.order.empty() || attempt.plan.size < best.plan.size) best = std::move(attempt);
  }
  return best;
}

/// Another order of those that live while the arena's end is in use: two of them change places.
void disturb(const std::vector<Lifetime>& lifetimes, Attempt& attempt, std::mt19937& draw) {
  std::size_t top = 0;
  while (attempt.plan.offsets[top].count + aligned(lifetimes[top].bytes.count) < attempt.plan.size.count) ++top;
  std::vector<std::size_t> beside;  // positions in the order
  for (std::size_t k = 0; k < attempt.order.size(); ++k)
    if (const Lifetime& l = lifetimes[attempt.order[k]]; l.begin < lifetimes[top].end && lifetimes[top].begin < l.end) beside.push_back(k);
  std::swap(attempt.order[beside[draw() % beside.size()]], attempt.order[beside[draw() % beside.size()]]);
}

}  // namespace

AddressPlan plan_addresses(const std::vector<Lifetime>& lifetimes) {
  if (lifetimes.empty()) return {};
  constexpr double kEnough = 1.02;          // of the least that aligned pieces can need
  constexpr double kMostWork = 1e8;         // comparisons of two lifetimes: a tenth of a second
  constexpr int kMostTries = 2000;
  std::vector<Lifetime> padded = lifetimes;
  for (Lifetime& l : padded) l.bytes.count = aligned(l.bytes.count);
  const double least = double(peak_of(padded).count);
  const int num_tries = int(std::min<double>(kMostTries, kMostWork / double(lifetimes.size() * lifetimes.size())));
  AddressPlan result;
  for (const Fit fit : {Fit::Lowest, Fit::Tightest}) {
    if (!result.offsets.empty() && double(result.size.count) <= kEnough * least) break;
    Attempt best = best_order(lifetimes, fit);
    std::mt19937 draw(1);
    for (int i = 0; i < num_tries && double(best.plan.size.count) > kEnough * least; ++i) {
      Attempt next = best;
      disturb(lifetimes, next, draw);
      place(lifetimes, next);
      if (next.plan.size <= best.plan.size) best = std::move(next);
    }
    if (result.offsets.empty() || best.plan.size < result.size) result = std::move(best.plan);
  }
  return result;
}

Bytes peak_of(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
  for (const Lifetime& life : lifetimes) {
    changes.emplace_back(life.begin, life.bytes.count);
    changes.emplace_back(life.end, -life.bytes.count);
  }
  std::sort(changes.begin(), changes.end());  // frees of an instant come first
  std::int64_t live = 0, peak = 0;
  for (const auto& [when, change] : changes) peak = std::max(peak, live += change);
  return Bytes{peak};
}

}  // namespace gpuplan

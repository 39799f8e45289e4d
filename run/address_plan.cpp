#include "run/address_plan.h"
#include "base/narrow.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

namespace gpuplan {
namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

/// A lifetime that is placed already.
struct Placed {
  std::int64_t offset{}, end{};
  std::uint32_t from{}, to{};
};

/// Placed lifetimes by slots of time: most are short and meet few others.
class Timeline {
 public:
  explicit Timeline(const std::vector<Lifetime>& lifetimes) {
    std::uint32_t last = 1;
    for (const Lifetime& l : lifetimes) last = std::max(last, l.end);
    const std::size_t num_slots = std::clamp<std::size_t>(lifetimes.size() / 16, 1, 4096);
    width_ = narrow<std::uint32_t>(last / num_slots + 1);
    slots_.resize(num_slots + 1);
  }

  void add(const Placed& p) {
    for (std::uint32_t slot = p.from / width_; slot <= (p.to - 1) / width_; ++slot) slots_[slot].push_back(p);
  }

  /// Placed lifetimes that overlap `life`, in order of offsets.
  const std::vector<Placed>& beside(const Lifetime& life) {
    beside_.clear();
    const std::uint32_t first = life.begin / width_;
    for (std::uint32_t slot = first; slot <= (life.end - 1) / width_; ++slot) {
      looked_at_ += std::int64_t(slots_[slot].size());
      for (const Placed& p : slots_[slot])
        if (p.from < life.end && life.begin < p.to && slot == std::max(first, p.from / width_))
          beside_.push_back(p);  // once
    }
    std::sort(beside_.begin(), beside_.end(), [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    return beside_;
  }

  std::int64_t looked_at() const { return looked_at_; }

 private:
  std::uint32_t width_{};
  std::int64_t looked_at_ = 0;
  std::vector<std::vector<Placed>> slots_;
  std::vector<Placed> beside_;
};

enum class Gap : std::uint8_t { Lowest, Tightest };

/// Offset at which `bytes` fit among `beside`, which is in order of offsets: the lowest gap, or the tightest.
std::int64_t find_gap(const std::vector<Placed>& beside, std::int64_t bytes, Gap wanted) {
  std::int64_t at = 0, best = -1, tightest = std::numeric_limits<std::int64_t>::max();
  for (const Placed& p : beside) {
    const std::int64_t gap = p.offset - at;
    if (gap >= bytes && gap < tightest) best = at, tightest = gap;
    if (best >= 0 && wanted == Gap::Lowest) return best;
    at = std::max(at, p.end);
  }
  return best >= 0 ? best : at;
}

using Order = std::vector<std::size_t>;

struct Attempt {
  Order order;
  Gap gap{};
  AddressPlan plan;
  std::int64_t work = 0;  // other lifetimes that were looked at
};

/// One after the other, in this order.
void place(const std::vector<Lifetime>& lifetimes, Attempt& attempt) {
  attempt.plan = {.offsets = std::vector<Bytes>(lifetimes.size()), .size = {}};
  Timeline placed(lifetimes);
  for (const std::size_t i : attempt.order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t bytes = aligned(life.bytes.count), at = find_gap(placed.beside(life), bytes, attempt.gap);
    attempt.plan.offsets[i] = Bytes{at};
    attempt.plan.size = std::max(attempt.plan.size, Bytes{at + bytes});
    placed.add({at, at + bytes, life.begin, life.end});
  }
  attempt.work = placed.looked_at();
}

/// Order of placing: the largest, the longest, or the largest area in time and memory first.
using Weight = double (*)(const Lifetime&);
constexpr std::array<Weight, 3> kWeights{
    [](const Lifetime& l) { return double(l.bytes.count); }, [](const Lifetime& l) { return double(l.end - l.begin); },
    [](const Lifetime& l) { return double(l.bytes.count) * double(l.end - l.begin); }};

/// The first order that is good enough, or the best.
Attempt best_order(const std::vector<Lifetime>& lifetimes, Gap gap, double enough) {
  Attempt best;
  for (const Weight weight : kWeights) {
    Attempt attempt{.order = Order(lifetimes.size()), .gap = gap, .plan = {}};
    std::iota(attempt.order.begin(), attempt.order.end(), std::size_t{0});
    std::stable_sort(attempt.order.begin(), attempt.order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(lifetimes[a]) > weight(lifetimes[b]); });
    place(lifetimes, attempt);
    if (best.order.empty() || attempt.plan.size < best.plan.size) best = std::move(attempt);
    if (double(best.plan.size.count) <= enough) break;
  }
  return best;
}

/// Another order of those that live while the arena's end is in use: two of them change places.
void disturb(const std::vector<Lifetime>& lifetimes, Attempt& attempt, std::mt19937& draw) {
  std::size_t top = 0;
  while (attempt.plan.offsets[top].count + aligned(lifetimes[top].bytes.count) < attempt.plan.size.count) ++top;
  std::vector<std::size_t> beside;  // positions in the order
  for (std::size_t k = 0; k < attempt.order.size(); ++k)
    if (const Lifetime& l = lifetimes[attempt.order[k]]; l.begin < lifetimes[top].end && lifetimes[top].begin < l.end)
      beside.push_back(k);
  std::swap(attempt.order[beside[draw() % beside.size()]], attempt.order[beside[draw() % beside.size()]]);
}

}  // namespace

AddressPlan plan_addresses(const std::vector<Lifetime>& lifetimes) {
  if (lifetimes.empty()) return {};
  constexpr double kSlack = 1.02;    // over the least that aligned pieces can need
  constexpr double kMostWork = 5e6;  // lifetimes looked at: less than a tenth of a second
  constexpr int kMostTries = 2000;
  std::vector<Lifetime> padded = lifetimes;
  for (Lifetime& l : padded) l.bytes.count = aligned(l.bytes.count);
  const double enough = kSlack * double(peak_of(padded).count);
  AddressPlan result;
  for (const Gap gap : {Gap::Lowest, Gap::Tightest}) {
    if (!result.offsets.empty() && double(result.size.count) <= enough) break;
    Attempt best = best_order(lifetimes, gap, enough);
    const int num_tries = int(std::min<double>(kMostTries, kMostWork / double(best.work + 1)));
    std::mt19937 draw(1);
    for (int i = 0; i<num_tries&& double(best.plan.size.count)> enough; ++i) {
      Attempt next = best;
      disturb(lifetimes, next, draw);
      place(lifetimes, next);
      if (next.plan.size <= best.plan.size) best = std::move(next);
    }
    if (result.offsets.empty() || best.plan.size < result.size) result = std::move(best.plan);
  }
  return result;
}

namespace {

struct Highest {
  std::int64_t bytes = 0;
  std::uint32_t when = 0;
};

Highest highest(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
  for (const Lifetime& life : lifetimes) {
    changes.emplace_back(life.begin, life.bytes.count);
    changes.emplace_back(life.end, -life.bytes.count);
  }
  std::sort(changes.begin(), changes.end());  // frees of an instant come first
  std::int64_t live = 0;
  Highest out;
  for (const auto& [when, change] : changes)
    if (live += change; live > out.bytes) out = {live, when};
  return out;
}

}  // namespace

Bytes peak_of(const std::vector<Lifetime>& lifetimes) { return Bytes{highest(lifetimes).bytes}; }
std::uint32_t instant_of_peak(const std::vector<Lifetime>& lifetimes) { return highest(lifetimes).when; }

}  // namespace gpuplan

#include "run/address_plan.h"

#include <algorithm>
#include <numeric>

namespace gpuplan {
namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

/// What is placed already.
struct Placed {
  std::int64_t offset{}, end{};
  std::uint32_t from{}, to{};
};

/// The lowest offset where `bytes` fit among what lives at the same time; `placed` is in order of offsets.
std::int64_t lowest_gap(const std::vector<Placed>& placed, const Lifetime& life, std::int64_t bytes) {
  std::int64_t at = 0;
  for (const Placed& p : placed) {
    if (p.to <= life.begin || life.end <= p.from) continue;
    if (p.offset >= at + bytes) return at;
    at = std::max(at, p.end);
  }
  return at;
}

}  // namespace

AddressPlan plan_addresses(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  AddressPlan plan{.offsets = std::vector<Bytes>(lifetimes.size()), .size = {}};
  std::vector<Placed> placed;
  for (const std::size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t bytes = aligned(life.bytes.count), at = lowest_gap(placed, life, bytes);
    plan.offsets[i] = Bytes{at};
    plan.size = std::max(plan.size, Bytes{at + bytes});
    const Placed here{at, at + bytes, life.begin, life.end};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), here,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }), here);
  }
  return plan;
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

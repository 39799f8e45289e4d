#include "base/work_count.h"

#include <atomic>

namespace gpuplan {
namespace {

/// A line of the cache each: threads of a search add to one of them at once.
struct alignas(64) Counter {
  std::atomic<std::int64_t> amount{0};
};

std::array<Counter, std::size_t(kNumWorks)>& counters() {
  static std::array<Counter, std::size_t(kNumWorks)> all;
  return all;
}

}  // namespace

std::string_view to_string(Work work) {
  constexpr std::array<std::string_view, std::size_t(kNumWorks)> kNames{"bytes", "instructions", "events"};
  return kNames[std::size_t(work)];
}

void count_work(Work work, std::int64_t amount) {
  counters()[std::size_t(work)].amount.fetch_add(amount, std::memory_order_relaxed);
}

WorkCounts work_counts() {
  WorkCounts out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = counters()[i].amount.load(std::memory_order_relaxed);
  return out;
}

}  // namespace gpuplan

#include "planner/limits.h"

#include <algorithm>

namespace gpuplan {
namespace {

/// Largest value in steps of `step` for which `fits`, starting the doubling at `from`; empty when not even `step` does.
template <class Fits>
std::optional<std::int64_t> largest(std::int64_t step, std::int64_t from, std::int64_t most, Fits fits) {
  const auto ok = [&](std::int64_t units) { return fits(units * step); };
  std::int64_t low = std::max<std::int64_t>(1, from / step);
  if (!ok(low)) {
    if (low == 1) return std::nullopt;
    std::int64_t high = low;
    low = 0;
    while (high - low > 1) {
      const std::int64_t mid = (low + high) / 2;
      (ok(mid) ? low : high) = mid;
    }
    return low > 0 ? std::optional(low * step) : std::nullopt;
  }
  std::int64_t high = low;
  while (high * step < most && ok(high)) low = high, high *= 2;
  if (high * step >= most) {
    high = most / step;
    if (ok(high)) return high * step;
  }
  while (high - low > 1) {
    const std::int64_t mid = (low + high) / 2;
    (ok(mid) ? low : high) = mid;
  }
  return low * step;
}

}  // namespace

void find_limits(StrategyEstimate& e, const Job& asked, StepProgram& program) {
  Job job = asked;
  Recipe& recipe = job.request.recipe;
  StrategyEstimate probe;
  constexpr std::int64_t kMostSequences = 4096, kMostTokens = 4 << 20, kTokenStep = 256;
  e.max_micro_batch = largest(1, recipe.micro_batch, kMostSequences, [&](std::int64_t b) {
    recipe.micro_batch = b;
    return evaluate(probe, job, program);
  });
  recipe.micro_batch = asked.recipe().micro_batch;
  e.max_seq_len = largest(kTokenStep, recipe.seq_len, kMostTokens, [&](std::int64_t s) {
    recipe.seq_len = s;
    return evaluate(probe, job, program);
  });
}

}  // namespace gpuplan

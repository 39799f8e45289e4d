#include "planner/advice.h"

#include <array>

#include "planner/advice/rows.h"

namespace gpuplan {
namespace {

constexpr std::array kRows{&kSaversNotNeeded, &kCombinedSavers,    &kLargerBatch,   &kKeepGathered,
                           &kEffectiveBatch,  &kGenerationCache,   &kQuantiseAlone, &kMixedPrecision,
                           &kBf16Weights,     &kOptimizerVariants, &kZeroOrFsdp};

}  // namespace

std::span<const AdviceRow* const> advice_rows() { return kRows; }

std::vector<Advice> advise(const AdviceCase& c) {
  std::vector<Advice> out;
  for (const AdviceRow* row : kRows)
    if (row->applies(c)) out.push_back({row->name, row->title, row->lines(c)});
  return out;
}

}  // namespace gpuplan

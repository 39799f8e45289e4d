#include "planner/advice.h"

#include <array>

namespace gpuplan {
namespace {

constexpr std::array kAdviceRows{&kSaversNotNeeded, &kCombinedSavers,    &kLargerBatch,   &kKeepGathered,
                                 &kEffectiveBatch,  &kGenerationCache,   &kQuantiseAlone, &kMixedPrecision,
                                 &kBf16Weights,     &kOptimizerVariants, &kZeroOrFsdp};

}  // namespace

std::span<const AdviceRow* const> advice_rows() { return kAdviceRows; }

std::vector<Advice> advise(const AdviceCase& c) {
  std::vector<Advice> out;
  for (const AdviceRow* row : kAdviceRows)
    if (row->applies(c)) out.push_back({row->name, row->title, row->lines(c)});
  return out;
}

}  // namespace gpuplan

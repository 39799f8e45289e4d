// The rows of planner/advice.cpp; each is defined beside its condition and its figures.
#pragma once

#include "planner/advice.h"

namespace gpuplan {

extern const AdviceRow kSaversNotNeeded, kCombinedSavers;                // savers.cpp
extern const AdviceRow kLargerBatch, kEffectiveBatch, kGenerationCache;  // batch.cpp
extern const AdviceRow kKeepGathered, kZeroOrFsdp;                       // sharding.cpp
extern const AdviceRow kQuantiseAlone, kMixedPrecision, kBf16Weights;    // precision.cpp
extern const AdviceRow kOptimizerVariants;                               // optimizers.cpp

}  // namespace gpuplan

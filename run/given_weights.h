// The weights that a run begins with: random ones, a model's files, an adapter's. They must be those of the model that
// config.json describes.
#pragma once

#include <memory>

#include "run/initial_state.h"
#include "run/training.h"

namespace gpuplan {

/// Throws InputError for files that are missing or damaged, and for tensors that the model or the adapter's plan lacks:
/// they would be left out without a word.
std::unique_ptr<WeightSource> given_weights(const NativeJob& job, const RankPlace& place,
                                            const TrainingOptions& options);

}  // namespace gpuplan

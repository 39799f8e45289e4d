// Internal to the meaning of set-ups: where the engines of a training on answers stand.
#pragma once

#include "ecosystem/setup.h"
#include "models/rollout.h"

namespace gpuplan {

/// Reads the place and the GPUs of engines, and how weights come to them. `engine` has what is said of it itself.
void place_engine(const Setup& setup, EngineChoice& engine);

}  // namespace gpuplan

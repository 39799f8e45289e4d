// Trainers whose engines never wait for them (data/rl_trainers.yaml).
#pragma once

#include <string_view>

namespace gpuplan {

/// Its engine always generates the next batch while this one trains.
bool always_lags(std::string_view framework);

}  // namespace gpuplan

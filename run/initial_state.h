// First values of a rank's persistent buffers: weights cut as the strategy cuts them, adapters, quantised codes,
// position tables; optimizer states are zero.
#pragma once

#include <vector>

#include "device/device.h"
#include "run/native_job.h"
#include "run/rank_memory.h"
#include "run/weight_source.h"

namespace gpuplan {

/// Offsets of double quantisation by unit, and in each by index of UnitLayout::frozen: scalars that kernels get by
/// value.
using QuantOffsets = std::vector<std::vector<float>>;

/// Reads only what this rank keeps (a quantised tensor is read whole, and cut after it is quantised).
QuantOffsets load_state(const NativeJob& job, const RankPlace& place, const RankMemory& memory,
                        const WeightSource& source, Device& device);

}  // namespace gpuplan

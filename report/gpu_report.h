// What `gpuplan gpus` says about one GPU, gathered before it is shown.
#pragma once

#include <optional>
#include <vector>

#include "cluster/cluster_spec.h"

namespace gpuplan {

struct GpuReport {
  GpuSpec gpu;
  std::vector<GpuPrice> prices;
  std::optional<GpuPrice> lowest;  // which estimates use
};

GpuReport report_gpu(const GpuSpec& gpu);

}  // namespace gpuplan

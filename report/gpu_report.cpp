#include "report/gpu_report.h"

#include "cluster/gpu_file.h"
#include "cluster/gpu_catalogue.h"

namespace gpuplan {

GpuReport report_gpu(const GpuSpec& gpu) {
  GpuReport report{.gpu = gpu, .prices = list_prices(gpu.id), .lowest = {}};
  if (const GpuPrice* price = cheapest(report.prices)) report.lowest = *price;
  return report;
}

}  // namespace gpuplan

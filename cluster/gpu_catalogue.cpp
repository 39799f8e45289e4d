#include "cluster/cluster_spec.h"

#include <algorithm>

#include <fmt/format.h>

#include "cluster/gpu_names.h"

namespace gpuplan {

bool ClusterSpec::is_mixed() const {
  return std::any_of(gpus.begin(), gpus.end(), [&](const GpuSpec& gpu) { return gpu.id != gpus.front().id; });
}

GpuSpec find_gpu(const std::string& text, std::string* assumption) {
  const GpuChoice choice = resolve_gpu(text);
  GpuSpec gpu = read_gpu_file(gpu_path(choice.id)).spec;
  if (assumption) *assumption = choice.assumption.empty() ? "" : fmt::format("{} ({})", choice.assumption, gpu.name);
  return gpu;
}

std::vector<GpuSpec> list_gpus() {
  std::vector<GpuSpec> out;
  for (const GpuNames& names : list_gpu_names()) out.push_back(read_gpu_file(gpu_path(names.id)).spec);
  return out;
}

std::vector<GpuPrice> list_prices(const std::string& gpu_id) {
  return read_gpu_file(gpu_path(resolve_gpu(gpu_id).id)).prices;
}

}  // namespace gpuplan

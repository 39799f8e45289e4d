#include "cluster/local_product.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/gpu_names.h"

namespace gpuplan {
namespace {

double capability_of(const std::string& text) {
  try {
    return parse_number(text, "");
  } catch (const InputError&) { return 0; }
}

bool has_word(const std::string& text, std::string_view word) { return to_lower(text).find(word) != std::string::npos; }
bool is_sxm(const std::string& text) { return has_word(text, "sxm"); }
bool is_consumer(const std::string& name) {
  return has_word(name, "geforce");
}  // slower matrix products with fp32 accumulation

/// How unlike `known` is to the GPU: an older capability first, then another form, another market, another size.
std::array<double, 4> distance(const GpuSpec& known, const LocalGpu& gpu) {
  const double size = gpu.num_sms > 0
                          ? double(gpu.num_sms) / double(known.sm_count)
                          : double(std::max<std::int64_t>(1, gpu.memory.count)) / double(known.device_memory.count);
  return {capability_of(gpu.compute_capability) - capability_of(known.compute_capability),
          is_sxm(gpu.name) == is_sxm(known.form_factor) ? 0.0 : 1.0,
          is_consumer(gpu.name) == is_consumer(known.name) ? 0.0 : 1.0, std::abs(std::log(size))};
}

/// The nearest NVIDIA GPU of the same or the next older capability.
std::optional<GpuFile> nearest_product(const LocalGpu& gpu) {
  std::optional<GpuFile> best;
  for (const GpuNames& names : list_gpu_names()) {
    GpuFile known = read_gpu_file(gpu_path(names.id));
    if (known.spec.vendor != "nvidia" || distance(known.spec, gpu)[0] < 0) continue;
    if (!best || distance(known.spec, gpu) < distance(best->spec, gpu)) best = std::move(known);
  }
  return best;
}

/// What the driver says of the card itself stands over the like one's.
void take_identity(GpuFile& product, const LocalGpu& gpu) {
  GpuSpec& spec = product.spec;
  spec.source = "NVML, and rates scaled from " + spec.source;
  spec.id = product.names.id = product_id(gpu.name);
  spec.name = gpu.name;
  spec.compute_capability = gpu.compute_capability;
  spec.form_factor = is_sxm(gpu.name) ? "sxm" : is_sxm(spec.form_factor) ? "pcie" : spec.form_factor;
  spec.is_plan_only = capability_of(gpu.compute_capability) < kOldestRunnableCapability;
  spec.nvlink_per_direction = {};  // what links it really has comes from the driver too
  spec.nvlink_kind.clear();
  if (gpu.pcie.max_generation > 0) spec.pcie_generation = gpu.pcie.max_generation;
  if (gpu.pcie.max_lanes > 0) spec.pcie_lanes = std::min<std::int64_t>(16, gpu.pcie.max_lanes);
  product.names.aliases = {gpu.name};
  product.names.assumed_for.clear(), product.names.ambiguous.clear();
  product.prices.clear(), product.rings.clear();
  product.devices_per_card = 1;
}

GpuFile made_up(const LocalGpu& gpu, GpuFile like, std::vector<std::string>& assumptions) {
  const std::string like_name = like.spec.name;
  const std::int64_t like_sms = like.spec.sm_count;
  std::string text = fmt::format("{} is not in the catalogue: rates are those of {} (compute capability {})", gpu.name,
                                 like_name, like.spec.compute_capability);
  if (gpu.num_sms > 0) {
    const double factor = double(gpu.num_sms) / double(like_sms);
    scale_compute(like.spec, factor);
    like.spec.sm_count = gpu.num_sms;
    like.spec.memory_bandwidth = like.spec.memory_bandwidth * factor;
    text += fmt::format(" times {} / {} multiprocessors", gpu.num_sms, like_sms);
  }
  if (gpu.memory_bandwidth.value > 0) {
    like.spec.memory_bandwidth = gpu.memory_bandwidth;
    text += fmt::format(", its memory moves {:.4g} GB/s by clock and bus width", gpu.memory_bandwidth.value / 1e9);
  }
  take_identity(like, gpu);
  assumptions.push_back(text + "; calibrate measures them");
  return like;
}

}  // namespace

std::string product_id(const std::string& name) {
  std::string id;
  for (const char c : to_lower(name))
    if (std::isalnum(static_cast<unsigned char>(c)))
      id += c;
    else if (!id.empty() && id.back() != '-')
      id += '-';
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id.empty() ? "unknown-gpu" : id;
}

GpuFile product_of(const LocalGpu& gpu, std::vector<std::string>& assumptions) {
  try {
    const GpuChoice choice = resolve_gpu(gpu.name);
    GpuFile product = read_gpu_file(gpu_path(choice.id));
    if (!choice.assumption.empty()) assumptions.push_back(fmt::format("{} ({})", choice.assumption, product.spec.name));
    return product;
  } catch (const InputError& error) {
    if (!error.where().empty() || gpu.compute_capability.empty()) throw;
    if (auto like = nearest_product(gpu)) return made_up(gpu, *std::move(like), assumptions);
    throw InputError("",
                     fmt::format("'{}' is not in the catalogue, nor anything as old (compute capability {})", gpu.name,
                                 gpu.compute_capability),
                     "describe it in a file of data/gpus");
  }
}

GpuFile instance_of(GpuFile product, const LocalMigInstance& instance) {
  GpuSpec& spec = product.spec;
  const double share = double(instance.memory.count) / double(spec.device_memory.count);
  const double compute =
      instance.num_sms > 0 && spec.sm_count > 0 ? double(instance.num_sms) / double(spec.sm_count) : share;
  scale_compute(spec, compute);
  if (instance.num_sms > 0) spec.sm_count = instance.num_sms;
  spec.memory_bandwidth = spec.memory_bandwidth * std::min(1.0, share);
  spec.nvlink_per_direction = {};
  spec.has_p2p_over_pcie = false;
  product.prices.clear();  // nobody rents this part at the card's price
  return product;
}

void take_real_memory(GpuSpec& spec, const LocalGpu& gpu) {
  if (gpu.memory.count <= 0) return;
  const Bytes hidden = gpu.memory_reserved.value_or(spec.device_memory - spec.framework_memory);
  spec.device_memory = gpu.memory;
  spec.framework_memory = std::max(Bytes{1}, gpu.memory - hidden);
}

}  // namespace gpuplan

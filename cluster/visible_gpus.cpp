#include "cluster/visible_gpus.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The GPU or MIG instance that one entry names.
std::optional<VisibleGpu> named(const std::vector<LocalGpu>& all, const std::string& text) {
  if (is_number(text)) {
    if (text.size() > 6) return std::nullopt;
    const auto index = std::size_t(parse_integer(text, "", 0));
    return index < all.size() ? std::optional(VisibleGpu{index, {}}) : std::nullopt;
  }
  if (text.size() <= 4) return std::nullopt;  // "GPU-" alone
  for (std::size_t gpu = 0; gpu < all.size(); ++gpu) {
    if (all[gpu].uuid.starts_with(text)) return VisibleGpu{gpu, {}};
    for (std::size_t i = 0; i < all[gpu].mig_instances.size(); ++i)
      if (all[gpu].mig_instances[i].uuid.starts_with(text)) return VisibleGpu{gpu, i};
  }
  return std::nullopt;
}

bool is_same(const VisibleGpu& a, const VisibleGpu& b) {
  return a.index == b.index && a.mig_instance == b.mig_instance;
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all, const char* variable) {
  std::vector<VisibleGpu> out;
  if (!variable) {
    for (std::size_t i = 0; i < all.size(); ++i) out.push_back({i, {}});
    return out;
  }
  for (const std::string& part : split(variable, ',')) {
    const auto gpu = named(all, std::string(trim(part)));
    if (!gpu) break;
    if (std::any_of(out.begin(), out.end(), [&](const VisibleGpu& seen) { return is_same(seen, *gpu); })) return {};
    out.push_back(*gpu);
  }
  return out;
}

std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all) {
  return visible_gpus(all, std::getenv("CUDA_VISIBLE_DEVICES"));
}

}  // namespace gpuplan

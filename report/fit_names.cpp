#include "report/fit_names.h"

#include <fmt/format.h>

namespace gpuplan {

namespace {

/// Of products with a surface of their own.
std::string regime_suffix(GemmRegime regime) {
  return regime == GemmRegime::Wide ? "" : fmt::format(", {}", to_string(regime));
}

}  // namespace

std::string gemm_name(const GemmSurface& surface) {
  return fmt::format("{} {} GEMM{}", to_string(surface.type), to_string(surface.layout), regime_suffix(surface.regime));
}

std::string kernel_name(const KernelRate& rate) { return fmt::format("{} {}", rate.kernel, to_string(rate.dtype)); }

std::string attention_name(const AttentionRate& rate) {
  return fmt::format("{} attention {}, head size {}", rate.kernel, to_string(rate.dtype), rate.head_size);
}

std::string collective_name(const CollectiveCurve& curve) {
  const char* const scope = curve.scope == RankScope::All ? "" : ", in pairs";
  return fmt::format("{} of {} ranks{}", to_string(curve.kind), curve.num_ranks, scope);
}

std::string ranks_suffix(std::int64_t num_ranks) {
  return num_ranks == 1 ? "" : fmt::format(", {} ranks at once", num_ranks);
}

std::string error_percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0); }

std::string quality_text(const FitQuality& q) {
  if (q.num_points == 0) return "";
  std::string out = fmt::format("off by {} (p90 {})", error_percent(q.median_error), error_percent(q.p90_error));
  if (q.held_out_median > 0 || q.held_out_p90 > 0)
    out += fmt::format(", held out {} (p90 {})", error_percent(q.held_out_median), error_percent(q.held_out_p90));
  return out + fmt::format("; {} samples, {} outlier{}", q.num_points, q.num_outliers, q.num_outliers == 1 ? "" : "s");
}

}  // namespace gpuplan

#include "cluster/profile/profile_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/machine.h"

namespace gpuplan {
namespace {

constexpr FitUnit kFlopUnit = FitUnit::FlopRate, kRateUnit = FitUnit::ByteRate, kTimeUnit = FitUnit::Time,
                  kByteUnit = FitUnit::ByteCount, kPlainUnit = FitUnit::Plain;

// Efficiency factors, which times are divided by: from 0.001 on, since 0 would divide by zero.
constexpr NumberRange kShareOfRate{1e-3, 1e3};
constexpr NumberRange kShare{0, 1};
constexpr NumberRange kLaunch{0, 10};          // s; ranks that share a core wait for each other
constexpr NumberRange kFlops{1e8, 1e18};       // FLOP/s of a product; a core without vector units has more
constexpr NumberRange kMemoryRate{1e6, 1e16};  // B/s; a disk has more
constexpr NumberRange kLinkRate{1e4, 1e16};    // B/s; ranks that share a core exchange messages slowly
constexpr NumberRange kHalf{0, 1e4};           // elements
constexpr NumberRange kLoss{0, 3};             // of one cause: four times as long
constexpr NumberRange kSize{0, 1e15};          // bytes, elements of a shape
constexpr NumberRange kFixedMemory{0, 1e11};   // B
constexpr NumberRange kNumPoints{0, 1e9}, kRanks{1, double(kMostGpus)};
constexpr NumberRange kError{0, 1e3};  // |ln|: doubles end before

// clang-format off
constexpr std::array kRanges{
    ProfileRange{"values", "gemm_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "gemm_fallback", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "flash_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "cudnn_attention_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "flash3_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "small_head_attention", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "batched_gemm_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "head_alignment", kPlainUnit, {0, 4096}},
    ProfileRange{"values", "memory_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "nvlink_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "pcie_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "network_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "host_link_efficiency", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "fused_bytes_factor", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "compiled_bytes_factor", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "gptq_bytes_factor", kPlainUnit, kShareOfRate},
    ProfileRange{"values", "wave_loss", kPlainUnit, kShare},
    ProfileRange{"values", "gemm_exposed_traffic", kPlainUnit, kShare},
    ProfileRange{"values", "pool_slack", kPlainUnit, kShare},
    ProfileRange{"values", "time_error", kPlainUnit, kShare},
    ProfileRange{"values", "margin", kPlainUnit, kShare},
    ProfileRange{"values", "overlap_slowdown", kPlainUnit, {0, 1e3}},
    ProfileRange{"values", "gpu_spread", kPlainUnit, kShare},
    ProfileRange{"values", "kernel_overhead", kTimeUnit, {0, 1}},
    ProfileRange{"values", "dispatch_eager", kTimeUnit, {0, 1}},
    ProfileRange{"values", "dispatch_compiled", kTimeUnit, {0, 1}},
    ProfileRange{"values", "eager_sm_bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"values", "dequant_sm_bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"values", "cpu_optimizer_bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"values", "torch_cpu_optimizer_bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"values", "nvme_bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"values", "context", kByteUnit, kFixedMemory},
    ProfileRange{"values", "nccl", kByteUnit, kFixedMemory},
    ProfileRange{"values", "blas_workspace", kByteUnit, kFixedMemory},
    ProfileRange{"fit", "interval", kPlainUnit, {0, 1e18}},  // low and high of a fit: shown, and not computed with
    ProfileRange{"fit", "points", kPlainUnit, kNumPoints, true},
    ProfileRange{"fit", "outliers", kPlainUnit, kNumPoints, true},
    ProfileRange{"fit", "samples", kPlainUnit, kNumPoints, true},
    ProfileRange{"fit", "median_error", kPlainUnit, kError},
    ProfileRange{"fit", "p90_error", kPlainUnit, kError},
    ProfileRange{"fit", "held_out_median", kPlainUnit, kError},
    ProfileRange{"fit", "held_out_p90", kPlainUnit, kError},
    ProfileRange{"fit", "residual", kPlainUnit, kError},
    ProfileRange{"fit", "median", kPlainUnit, kError},
    ProfileRange{"fit", "p90", kPlainUnit, kError},
    ProfileRange{"measured_on", "num_devices", kPlainUnit, {1, 1024}, true},
    ProfileRange{"measured_on", "num_cores", kPlainUnit, {1, 1e6}, true},
    ProfileRange{"measured_on", "memory_bytes", kByteUnit, {1, 1e15}, true},
    ProfileRange{"loads", "ranks", kPlainUnit, kRanks, true},
    ProfileRange{"gemm", "rate", kFlopUnit, kFlops},
    ProfileRange{"gemm", "bandwidth", kRateUnit, kMemoryRate},
    ProfileRange{"gemm", "launch", kTimeUnit, kLaunch},
    ProfileRange{"gemm", "m_half", kPlainUnit, kHalf},
    ProfileRange{"gemm", "n_half", kPlainUnit, kHalf},
    ProfileRange{"gemm", "k_half", kPlainUnit, kHalf},
    ProfileRange{"gemm", "wave_loss", kPlainUnit, kShare},
    ProfileRange{"gemm", "exposed", kPlainUnit, kShare},
    ProfileRange{"gemm", "depth_loss", kPlainUnit, kLoss},
    ProfileRange{"gemm", "spill_loss", kPlainUnit, kLoss},
    ProfileRange{"gemm", "tail_loss", kPlainUnit, kLoss},
    ProfileRange{"gemm", "ragged_loss", kPlainUnit, kLoss},
    ProfileRange{"gemm", "stride_loss", kPlainUnit, kLoss},
    ProfileRange{"gemm", "k_depth", kPlainUnit, {0, 1e6}},
    ProfileRange{"gemm", "memory_loss", kPlainUnit, {0, 100}},  // what no cache holds over what one does
    ProfileRange{"gemm", "cache", kByteUnit, {0, 1e12}},
    ProfileRange{"gemm", "tile_m", kPlainUnit, {1, 4096}, true},
    ProfileRange{"gemm", "tile_n", kPlainUnit, {1, 4096}, true},
    ProfileRange{"gemm", "num_units", kPlainUnit, {1, 1e4}, true},
    ProfileRange{"gemm", "least", kPlainUnit, kSize, true},
    ProfileRange{"gemm", "most", kPlainUnit, kSize, true},
    ProfileRange{"kernels", "launch_s", kTimeUnit, kLaunch},
    ProfileRange{"kernels", "bandwidth_byte_s", kRateUnit, kMemoryRate},
    ProfileRange{"kernels", "least_bytes", kByteUnit, kSize, true},
    ProfileRange{"kernels", "most_bytes", kByteUnit, kSize, true},
    ProfileRange{"kernels", "bytes of curve_bytes_s", kByteUnit, {1, 1e15}, true},
    ProfileRange{"kernels", "seconds of curve_bytes_s", kTimeUnit, {1e-9, 1e4}},
    ProfileRange{"kernels", "bytes over seconds of curve_bytes_s", kRateUnit, kLinkRate},
    ProfileRange{"attention", "head_size", kPlainUnit, {1, 65'536}, true},
    ProfileRange{"attention", "launch_s", kTimeUnit, kLaunch},
    ProfileRange{"attention", "rate_flop_s", kFlopUnit, {1e6, 1e18}},
    ProfileRange{"collectives", "ranks", kPlainUnit, {2, double(kMostGpus)}, true},
    ProfileRange{"collectives", "least_bytes", kByteUnit, kSize, true},
    ProfileRange{"collectives", "most_bytes", kByteUnit, kSize, true},
    ProfileRange{"collectives", "from_bytes", kByteUnit, kSize, true},
    ProfileRange{"collectives", "alpha_s", kTimeUnit, kLaunch},
    ProfileRange{"collectives", "bandwidth_byte_s", kRateUnit, kLinkRate},
    ProfileRange{"correction", "reach", kPlainUnit, {0.01, 100}},
    ProfileRange{"correction", "alignment", kPlainUnit, {0, 100}},
    ProfileRange{"correction", "size", kPlainUnit, kSize, true},
    ProfileRange{"correction", "weight", kPlainUnit, {-1e4, 1e4}},
    ProfileRange{"scalars", "ranks", kPlainUnit, kRanks, true},
    ProfileRange{"scalars", "s", kTimeUnit, kLaunch},
    ProfileRange{"scalars", "B/s", kRateUnit, kLinkRate},
    ProfileRange{"scalars", "B", kByteUnit, {0, 1e12}},
    ProfileRange{"scalars", "", kPlainUnit, {0, 1e3}},
};
// clang-format on

std::string_view unit_name(FitUnit unit) {
  switch (unit) {
    case FitUnit::FlopRate: return " FLOP/s";
    case FitUnit::ByteRate: return " B/s";
    case FitUnit::Time: return " s";
    case FitUnit::ByteCount: return " B";
    case FitUnit::Plain: return "";
  }
  return "";
}

}  // namespace

std::span<const ProfileRange> profile_ranges() { return kRanges; }

const ProfileRange& profile_range(std::string_view part, std::string_view name) {
  const auto row = std::find_if(kRanges.begin(), kRanges.end(),
                                [&](const ProfileRange& r) { return r.part == part && r.name == name; });
  GPUPLAN_CHECK(row != kRanges.end(), "a number of a profile without a range");
  return *row;
}

std::string to_string(const ProfileRange& row) {
  return fmt::format("{:.9g} to {:.9g}{}", row.range.least, row.range.most, unit_name(row.unit));
}

bool check_range(Fields& fields, std::string_view key, double value, const ProfileRange& row,
                 const std::string& shown) {
  const bool is_inside = value >= row.range.least && value <= row.range.most;
  if (is_inside && (!row.is_whole || value == std::floor(value))) return true;
  fields.report(key, fmt::format("{} is {}: {}", shown.empty() ? fmt::format("{}", value) : shown,
                                 is_inside ? "no whole number" : "out of range", to_string(row)));
  return false;
}

}  // namespace gpuplan

#include "planner/cost.h"

#include <algorithm>

namespace gpuplan {
namespace {

struct DtypeRates {
  FlopsPerSec datasheet, measured;
};

DtypeRates rates_of(const GpuSpec& gpu, Dtype dtype) {
  if (dtype == Dtype::F32) return {gpu.fp32, gpu.gemm_fp32};
  if (dtype == Dtype::F16) return {gpu.fp16, gpu.gemm_fp16};
  return {gpu.bf16, gpu.gemm_bf16};
}

}  // namespace

CostModel make_cost_model(const GpuSpec& gpu, const Profile& profile, ComputeKind compute) {
  DtypeRates rates = rates_of(gpu, compute.dtype);
  if (rates.datasheet.value <= 0 && rates.measured.value <= 0)
    rates = {gpu.fp32, gpu.gemm_fp32};  // no such path: falls back to fp32 units
  const FlopsPerSec best = rates.measured.value > 0 ? rates.measured : rates.datasheet * profile.gemm_fallback;
  CostModel m;
  m.gemm = best * profile.gemm_efficiency;
  m.batched_gemm = m.gemm * profile.batched_gemm_efficiency;
  m.flash = m.gemm * profile.flash_efficiency;
  m.memory = gpu.memory_bandwidth * profile.memory_efficiency;
  if (compute.is_fp8 && gpu.fp8.value > 0) m.gemm_fp8 = gpu.fp8 * (best.value / std::max(1.0, rates.datasheet.value)) * profile.gemm_efficiency;
  m.bytes_factor = {profile.eager_bytes_factor, profile.compiled_bytes_factor, profile.fused_bytes_factor};
  m.dequant_bytes = profile.dequant_bytes_factor;
  m.misaligned = profile.misaligned_gemm;
  m.kernel_overhead = profile.kernel_overhead;
  m.dispatch = compute.launches_few ? profile.dispatch_compiled : profile.dispatch_eager;
  m.overlap_slowdown = profile.overlap_slowdown;
  m.peak = rates.datasheet.value > 0 ? rates.datasheet : rates.measured;
  return m;
}

}  // namespace gpuplan

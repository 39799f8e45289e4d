#include "planner/cost.h"

#include <algorithm>
#include <cmath>

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

constexpr std::int64_t kAlignment = 64;       // elements: a tile of the tensor cores' k, 128 bytes of a row
constexpr std::int64_t kHeadAlignment = 8;    // elements: 16 bytes, below which batched GEMMs leave the tensor cores
constexpr std::int64_t kLargeHead = 128;      // head size that flash attention's tiles are made for
constexpr double kTile = 128, kSplit = 512;   // output tile of a GEMM; least k of a part when k is split over SMs

bool is_aligned(std::int64_t size, std::int64_t to) { return size % to == 0; }

}  // namespace

/// A GEMM of ceil(m / 128) ceil(n / 128) tiles runs in whole waves over the SMs: the last one is not full. With fewer tiles
/// than SMs the library splits k. Source: NVIDIA Matrix Multiplication Background User's Guide, "Wave Quantization".
double CostModel::wave_factor(const LayerOp& op) const {
  if (num_sms <= 0) return 1;
  double tiles = std::ceil(double(op.m) / kTile) * std::ceil(double(op.n) / kTile);
  tiles *= std::max(1.0, std::min(std::floor(num_sms / tiles), std::floor(double(op.k) / kSplit)));
  const double waves = tiles / num_sms;
  return 1 + wave_loss * (std::ceil(waves) / waves - 1);
}

Seconds CostModel::gemm_time(const LayerOp& op, Software software) const {
  const bool is_fp8 = op.weight != 0xff && gemm_fp8.value > 0;
  const bool aligned = is_aligned(op.n, kAlignment) && is_aligned(op.k, kAlignment);
  const FlopsPerSec rate = (is_fp8 ? gemm_fp8 : gemm) * (aligned ? 1.0 : misaligned);
  const double compute = op.flops / rate.value * wave_factor(op), bytes = op.traffic / memory.value;
  // fp8: both operands are read in 16 bit and written in 8 before the GEMM; a weight gradient uses what others converted
  const double converted = is_fp8 && !op.is_weight_gradient ? 3.0 * double(op.k) * double(op.m + op.n) : 0;
  return Seconds{std::max(compute, bytes) + exposed_traffic * std::min(compute, bytes) + converted * bytes_factor[std::size_t(software)] / memory.value} +
         double(op.kernels) * kernel_overhead;
}

Seconds CostModel::attention_time(const LayerOp& op, FlopsPerSec rate) const {
  return Seconds{op.flops / (rate.value * (op.k < kLargeHead ? small_heads : 1.0))} + kernel_overhead;
}

Seconds CostModel::op_time(const LayerOp& op, Software software) const {
  switch (op.cost) {
    case CostClass::Gemm: return gemm_time(op, software);
    case CostClass::FlashAttention: return attention_time(op, flash);
    case CostClass::CudnnAttention: return attention_time(op, cudnn);
    case CostClass::BatchedGemm:
      return Seconds{op.flops / (batched_gemm.value * (is_aligned(op.k, kHeadAlignment) ? 1.0 : misaligned_heads))} +
             kernel_overhead;
    case CostClass::Memory: return Seconds{op.traffic * bytes_factor[std::size_t(software)] / memory.value};
    case CostClass::Dequantise: return Seconds{op.traffic * dequant_bytes / memory.value};
    case CostClass::DequantiseGptq: return Seconds{op.traffic * gptq_bytes / memory.value};
  }
  return {};
}

BytesPerSec host_optimizer_rate(const Profile& profile, const FrameworkConvention& framework, Engine engine,
                                BytesPerSec host_link) {
  if (framework.streams_offloaded_states) return host_link * 2.0;
  const bool is_fsdp = engine == Engine::Fsdp1 || engine == Engine::Fsdp2;
  return is_fsdp ? profile.torch_cpu_optimizer_bandwidth : profile.cpu_optimizer_bandwidth;
}

CostModel make_cost_model(const GpuSpec& gpu, const Profile& profile, ComputeKind compute) {
  DtypeRates rates = rates_of(gpu, compute.dtype);
  if (rates.datasheet.value <= 0 && rates.measured.value <= 0)
    rates = {gpu.fp32, gpu.gemm_fp32};  // no such path: falls back to fp32 units
  const FlopsPerSec best = rates.measured.value > 0 ? rates.measured : rates.datasheet * profile.gemm_fallback;
  CostModel m;
  m.gemm = best * profile.gemm_efficiency;
  m.batched_gemm = m.gemm * profile.batched_gemm_efficiency;
  m.flash = m.gemm * profile.flash_efficiency;
  m.cudnn = m.gemm * profile.cudnn_attention_efficiency;
  m.memory = gpu.memory_bandwidth * profile.memory_efficiency;
  if (compute.is_fp8 && gpu.fp8.value > 0)
    m.gemm_fp8 = gpu.fp8 * (best.value / std::max(1.0, rates.datasheet.value)) * profile.gemm_efficiency * profile.fp8_efficiency;
  m.bytes_factor = {profile.eager_bytes_factor, profile.compiled_bytes_factor, profile.fused_bytes_factor};
  m.dequant_bytes = profile.dequant_bytes_factor;
  m.gptq_bytes = profile.gptq_bytes_factor;
  m.misaligned = profile.misaligned_gemm;
  m.misaligned_heads = profile.misaligned_heads;
  m.small_heads = profile.small_head_attention;
  m.wave_loss = profile.wave_loss;
  m.exposed_traffic = profile.gemm_exposed_traffic;
  m.num_sms = double(gpu.sm_count);
  m.kernel_overhead = profile.kernel_overhead;
  m.dispatch = compute.launches_few ? profile.dispatch_compiled : profile.dispatch_eager;
  m.overlap_slowdown = profile.overlap_slowdown;
  m.peak = rates.datasheet.value > 0 ? rates.datasheet : rates.measured;
  return m;
}

}  // namespace gpuplan

#include "planner/cost.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "cluster/host.h"

namespace gpuplan {
namespace {

struct DtypeRates {
  FlopsPerSec datasheet, measured;
};

DtypeRates rates_of(const GpuSpec& gpu, Dtype dtype) {
  if (dtype == Dtype::F32) return {gpu.fp32, gpu.gemm_fp32};
  // tensor cores take both 16-bit formats at one rate: what was measured of one holds for the other
  const auto or_other = [](FlopsPerSec own, FlopsPerSec datasheet, FlopsPerSec other, FlopsPerSec its_datasheet) {
    if (own.value > 0 || its_datasheet.value <= 0) return own;
    return other * (datasheet / its_datasheet);
  };
  if (dtype == Dtype::F16) return {gpu.fp16, or_other(gpu.gemm_fp16, gpu.fp16, gpu.gemm_bf16, gpu.bf16)};
  return {gpu.bf16, or_other(gpu.gemm_bf16, gpu.bf16, gpu.gemm_fp16, gpu.fp16)};
}

constexpr std::int64_t kLargeHead = 128;     // head size that flash attention's tiles are made for
constexpr double kTile = 128, kSplit = 512;  // output tile of a GEMM; least k of a part when k is split over SMs

GemmType gemm_type_of(Dtype dtype) {
  return dtype == Dtype::F32 ? GemmType::F32 : dtype == Dtype::F16 ? GemmType::F16 : GemmType::BF16;
}

/// The measured kernel that an op of the executor is nearest to.
std::string_view kernel_of(OpKind kind) {
  switch (kind) {
    case OpKind::Norm: return "rms-norm";
    case OpKind::SwiGlu:
    case OpKind::Activation:
    case OpKind::Multiply: return "swiglu";
    case OpKind::CrossEntropy: return "cross-entropy";
    case OpKind::Dequantise: return "nf4-dequantise";
    default: return "copy";
  }
}

/// Finds it by name and, where there are several, by number format.
const KernelRate* find_kernel(const MeasurementsAtRanks* load, std::string_view name, Dtype dtype) {
  const KernelRate* best = nullptr;
  if (!load) return best;
  for (const KernelRate& rate : load->kernels)
    if (rate.kernel == name && (!best || rate.dtype == dtype)) best = &rate;
  return best;
}

/// Attention's backward, beside q, k and v.
bool reads_output(const LayerOp& op) { return op.num_reads > 3; }

const AttentionRate* find_attention(const MeasurementsAtRanks* load, std::string_view kernel, Dtype dtype,
                                    std::int64_t head_size) {
  const AttentionRate* best = nullptr;
  const auto distance = [&](const AttentionRate& rate) {
    return std::abs(rate.head_size - head_size) + (rate.dtype == dtype ? 0 : 1000);
  };
  if (!load) return best;
  for (const AttentionRate& rate : load->attention)
    if (rate.kernel == kernel && (!best || distance(rate) < distance(*best))) best = &rate;
  return best;
}

}  // namespace

/// A GEMM of ceil(m / 128) ceil(n / 128) tiles runs in whole waves over the SMs: the last one is not full. With fewer
/// tiles than SMs the library splits k. Source: NVIDIA Matrix Multiplication Background User's Guide, "Wave
/// Quantization".
double CostModel::wave_factor(const LayerOp& op) const {
  if (num_sms <= 0) return 1;
  double tiles = std::ceil(double(op.m) / kTile) * std::ceil(double(op.n) / kTile);
  tiles *= std::max(1.0, std::min(std::floor(num_sms / tiles), std::floor(double(op.k) / kSplit)));
  const double waves = tiles / num_sms;
  return 1 + wave_loss * (std::ceil(waves) / waves - 1);
}

GemmShape shape_of(const LayerOp& op) {
  GemmShape shape{op.m, op.n, op.k};
  std::int64_t& rows = op.layout == GemmLayout::WeightGradient ? shape.k : shape.m;
  rows = std::max<std::int64_t>(1, rows / op.experts);
  if (op.cost == CostClass::BatchedGemm)
    shape.batch =
        std::max<std::int64_t>(1, std::llround(op.flops / (2.0 * double(op.m) * double(op.n) * double(op.k))));
  return shape;
}

bool CostModel::is_in_fp8(const LayerOp& op) const { return op.weight != 0xff && gemm_fp8.value > 0; }

const GemmSurface* CostModel::surface_of(const LayerOp& op) const {
  if (!load) return nullptr;
  const GemmRegime regime = op.cost == CostClass::BatchedGemm ? GemmRegime::Batched : regime_of(shape_of(op));
  const GemmType wanted = op.is_fp32                                       ? GemmType::F32
                          : is_in_fp8(op) && regime != GemmRegime::Batched ? GemmType::F8
                                                                           : gemm_type;
  return load->surface_of(wanted, op.layout, regime);
}

/// Ops that stand for several products of one shape (experts, chunks, a fused loss) take as many times longer.
Seconds CostModel::measured_gemm_time(const GemmSurface& surface, const LayerOp& op) const {
  const GemmShape shape = shape_of(op);
  const double products = op.flops / (2.0 * double(shape.m) * double(shape.n) * double(shape.k) * double(shape.batch));
  const double more_kernels = std::max(0.0, double(op.kernels) - products);  // the time of a product has its launch
  return products * surface.time(shape) / sustained + Seconds{more_kernels * surface.launch.value};
}

Seconds CostModel::gemm_time(const LayerOp& op, Software software) const {
  if (const GemmSurface* surface = surface_of(op)) return measured_gemm_time(*surface, op);
  const bool is_fp8 = is_in_fp8(op);
  const FlopsPerSec rate = op.is_fp32 ? gemm_fp32 : is_fp8 ? gemm_fp8 : gemm;
  const double compute = op.flops / rate.value * wave_factor(op), bytes = op.traffic / memory.value;
  // fp8: both operands are read in 16 bit and written in 8 before the GEMM; a weight gradient uses what others
  // converted
  const double converted = is_fp8 && !op.is_weight_gradient ? 3.0 * double(op.k) * double(op.m + op.n) : 0;
  return Seconds{std::max(compute, bytes) + exposed_traffic * std::min(compute, bytes) +
                 converted * bytes_factor[std::size_t(software)] / memory.value} +
         double(op.kernels) * kernel_overhead;
}

Seconds CostModel::attention_time(const LayerOp& op, FlopsPerSec rate) const {
  if (kernel_times == KernelTimes::Measured) {
    const auto find = [&](std::string_view kernel) {
      return find_attention(load, kernel, operand_dtype(gemm_type), op.k);
    };
    const AttentionRate* backward = reads_output(op) ? find("backward") : nullptr;
    const AttentionRate* own = backward ? backward : find("flash");  // calibrations before 2026-11-22 have no backward
    const double launches = backward ? 1 : double(op.kernels);
    if (own)
      return Seconds{launches * own->launch.value +
                     op.flops / (own->rate.value / 2)};  // measured causal: half is masked
  }
  return Seconds{op.flops / (rate.value * (op.k < kLargeHead ? small_heads : 1.0))} + kernel_overhead;
}

Seconds CostModel::batched_gemm_time(const LayerOp& op) const {
  if (const GemmSurface* surface = surface_of(op)) return measured_gemm_time(*surface, op);
  const std::int64_t head = op.layout == GemmLayout::Forward ? op.k : op.n;
  return Seconds{op.flops / (batched_gemm.value * (head % aligned_head == 0 ? 1 : unaligned))} + kernel_overhead;
}

/// Its kernels multiply small matrices and move states between chunks: whichever takes longer.
Seconds CostModel::scan_time(const LayerOp& op) const {
  const double bytes = op.traffic * bytes_factor[std::size_t(Software::Handwritten)];
  return Seconds{std::max(op.flops / batched_gemm.value, bytes / memory.value)} + double(op.kernels) * kernel_overhead;
}

Seconds CostModel::memory_time(const LayerOp& op, double factor) const {
  if (const KernelRate* own = kernel_times == KernelTimes::Measured
                                  ? find_kernel(load, kernel_of(op.kind), operand_dtype(gemm_type))
                                  : nullptr)
    return double(op.kernels) * own->time(op.traffic / double(std::max<int>(1, op.kernels)));
  return Seconds{op.traffic * factor / memory.value};
}

Seconds CostModel::op_time(const LayerOp& op, Software software) const {
  return slowness * unhindered_time(op, software);
}

Seconds CostModel::unhindered_time(const LayerOp& op, Software software) const {
  switch (op.cost) {
    case CostClass::Gemm: return gemm_time(op, software);
    case CostClass::FlashAttention: return attention_time(op, flash);
    case CostClass::CudnnAttention: return attention_time(op, cudnn);
    case CostClass::Flash3Attention: return attention_time(op, flash3);
    case CostClass::BatchedGemm: return batched_gemm_time(op);
    case CostClass::Scan: return scan_time(op);
    case CostClass::Memory: return memory_time(op, bytes_factor[std::size_t(software)]);
    case CostClass::Dequantise: return memory_time(op, dequant_bytes);
    case CostClass::DequantiseGptq: return Seconds{op.traffic * gptq_bytes / memory.value};
  }
  return {};
}

double expected_maximum(std::int64_t n) {
  const double x = 2 * (double(n) - 0.375) / (double(n) + 0.25) - 1;  // erf of the result over sqrt(2)
  constexpr double kPi = 3.14159265358979, kA = 0.147;
  const double log = std::log(1 - x * x), half = 2 / (kPi * kA) + log / 2;
  return std::sqrt(2 * (std::sqrt(half * half - log / kA) - half));
}

BytesPerSec host_optimizer_rate(const Profile& profile, const FrameworkConvention& framework, ShardingEngine engine,
                                const HostSpec& host, std::int64_t num_ranks) {
  const std::int64_t ranks = std::max<std::int64_t>(1, num_ranks);
  const bool has_one_thread = ranks > 1 && framework.distributed.one_host_thread;
  const std::int64_t threads = has_one_thread ? 1 : std::max<std::int64_t>(1, host.cores / ranks);
  const BytesPerSec measured = profile.cpu_optimizer_bandwidth * (1.0 / double(ranks));
  const BytesPerSec derived = profile.measured ? BytesPerSec{} : vectorised_optimizer_rate(host, ranks, threads);
  const BytesPerSec share = derived.value > 0 ? derived : measured;
  const bool is_torch = engine_of(framework, engine).host_step == HostStep::Torch;
  return is_torch ? std::min(profile.torch_cpu_optimizer_bandwidth, share) : share;
}

namespace {

void add_measured(CostModel& m, const GpuSpec& gpu, const Profile& profile, ComputeKind compute) {
  if (!profile.measured) return;
  m.measured = profile.measured;
  m.load = profile.measured->load_of(compute.ranks_per_node);
  m.gemm_type = gemm_type_of(compute.dtype);
  const bool has_own_kernels = compute.kernel_times == KernelTimes::Measured;
  m.kernel_times = compute.kernel_times;
  m.sustained = has_own_kernels ? 1 : std::min(1.0, profile.gemm_efficiency);
  if (gpu.is_cpu)  // no datasheet: the best measured product is the peak
    for (const GemmSurface& s : m.load ? std::span(m.load->gemm) : std::span<const GemmSurface>{})
      if (s.type == m.gemm_type) m.peak = std::max(m.peak, FlopsPerSec{s.rate.value});
  if (const KernelRate* adamw = has_own_kernels ? find_kernel(m.load, "adamw", Dtype::F32) : nullptr)
    m.own_optimizer = BytesPerSec{adamw->bandwidth.value};
}

/// Rates of CPU ranks stand for as many at once as were measured or, unmeasured, for all of the plan sharing the cores.
double crowding_of(const CostModel& m, const ComputeKind& compute) {
  if (compute.host_cores == 0) return 1;
  return oversubscription(compute.ranks_at_once, compute.host_cores) /
         oversubscription(m.load ? m.load->num_ranks : compute.ranks_per_node, compute.host_cores);
}

/// Heads that do not begin at Profile::head_alignment multiply on the vector units, at `vector_share` of the rate.
void add_alignment(CostModel& m, const Profile& profile, Dtype dtype, double vector_share) {
  if (profile.head_alignment <= 0 || vector_share <= 0) return;
  m.aligned_head = std::max<std::int64_t>(1, profile.head_alignment / size_of(dtype));
  m.unaligned = std::min(1.0, vector_share);
}

}  // namespace

CostModel make_cost_model(const GpuSpec& gpu, const Profile& profile, ComputeKind compute) {
  DtypeRates rates = rates_of(gpu, compute.dtype);
  if (rates.datasheet.value <= 0 && rates.measured.value <= 0)
    rates = {gpu.fp32, gpu.gemm_fp32};  // no such path: falls back to fp32 units
  const auto best_of = [&](DtypeRates r) {
    return r.measured.value > 0 ? r.measured : r.datasheet * profile.gemm_fallback;
  };
  const FlopsPerSec best = best_of(rates);
  CostModel m;
  m.gemm = best * profile.gemm_efficiency;
  m.gemm_fp32 = best_of(rates_of(gpu, Dtype::F32)) * profile.gemm_efficiency;
  m.batched_gemm = m.gemm * profile.batched_gemm_efficiency;
  add_alignment(m, profile, compute.dtype, best_of({gpu.fp32, gpu.gemm_fp32}) / best);
  m.flash = m.gemm * profile.flash_efficiency;
  m.cudnn = m.gemm * profile.cudnn_attention_efficiency;
  m.flash3 = m.gemm * profile.flash3_efficiency;
  m.memory = gpu.memory_bandwidth * profile.memory_efficiency;
  if (compute.is_fp8 && gpu.fp8.value > 0)
    m.gemm_fp8 = gpu.fp8 * (best.value / std::max(1.0, rates.datasheet.value)) * profile.gemm_efficiency;
  const auto worked_through = [&](BytesPerSec per_sm) {
    return gpu.sm_count > 0 ? 1 + m.memory / (per_sm * double(gpu.sm_count)) : 1;
  };
  m.bytes_factor = {worked_through(profile.eager_sm_bandwidth), profile.compiled_bytes_factor,
                    profile.fused_bytes_factor};
  m.dequant_bytes = worked_through(profile.dequant_sm_bandwidth);
  m.gptq_bytes = profile.gptq_bytes_factor;
  m.small_heads = profile.small_head_attention;
  m.wave_loss = profile.wave_loss;
  m.exposed_traffic = profile.gemm_exposed_traffic;
  m.num_sms = double(gpu.sm_count);
  m.kernel_overhead = profile.kernel_overhead;
  m.python_dispatch = compute.is_handwritten ? profile.dispatch_compiled : profile.dispatch_eager;
  m.dispatch = compute.is_compiled ? profile.dispatch_compiled : m.python_dispatch;
  m.overlap_slowdown = profile.overlap_slowdown;
  m.peak = rates.datasheet.value > 0 ? rates.datasheet : rates.measured;
  add_measured(m, gpu, profile, compute);
  constexpr double kNothingElse = 100;  // a rank of one core communicates or computes
  if (compute.host_cores > 0 && compute.ranks_per_node >= compute.host_cores)
    m.overlap_slowdown = std::max(m.overlap_slowdown, kNothingElse);
  m.slowness = crowding_of(m, compute);
  // Every unit waits for the rank that took longest. The profile's efficiencies were seen on the GPUs of a machine,
  // whose slowest is in them.
  const std::int64_t of_machine = std::min(compute.ranks_in_step, compute.ranks_per_node);
  m.slowness *= 1 + profile.gpu_spread * (expected_maximum(compute.ranks_in_step) - expected_maximum(of_machine));
  m.slowness *= correction_of(profile, compute.num_ranks, compute.framework).time;
  return m;
}

}  // namespace gpuplan

// Time of an op on one GPU (roofline x efficiency). Rates come from the catalogue and the profile; nothing empirical stands
// here. Source: formulas.md 10. Collectives: planner/comm_model.h.
#pragma once

#include <array>

#include "cluster/cluster_spec.h"
#include "cluster/profile.h"
#include "models/layer_graph.h"
#include "models/numerics.h"

namespace gpuplan {

/// Sustained rates of one GPU for one compute dtype.
struct CostModel {
  FlopsPerSec gemm, batched_gemm, flash;
  BytesPerSec memory;  // reached, not datasheet
  FlopsPerSec gemm_fp8;                // 0: block linears multiply in the compute dtype
  std::array<double, 3> bytes_factor{};  // moved over minimal bytes, by Software
  double dequant_bytes{}, misaligned{};
  Seconds kernel_overhead, dispatch;  // device time per kernel; host time per launched kernel
  double overlap_slowdown{};
  FlopsPerSec peak;  // datasheet, for MFU

  /// max(FLOPs / rate, bytes / bandwidth) + launch overhead.
  Seconds op_time(const LayerOp& op, Software software) const {
    if (op.cost == CostClass::Gemm) return gemm_time(op);
    if (op.cost == CostClass::Memory)
      return Seconds{op.traffic * bytes_factor[std::size_t(software)]} / memory.value;
    if (op.cost == CostClass::FlashAttention) return Seconds{op.flops / flash.value} + kernel_overhead;
    if (op.cost == CostClass::BatchedGemm) return Seconds{op.flops / batched_gemm.value} + kernel_overhead;
    return Seconds{op.traffic * dequant_bytes / memory.value};
  }

 private:
  Seconds gemm_time(const LayerOp& op) const {
    const bool is_block_linear = op.weight != 0xff;
    const double aligned = is_block_linear && gemm_fp8.value > 0 ? gemm_fp8.value : gemm.value;
    const double rate = ((op.n | op.k) & 63) != 0 ? aligned * misaligned : aligned;
    const double compute = op.flops / rate, bytes = op.traffic / memory.value;
    return Seconds{compute > bytes ? compute : bytes} + kernel_overhead;
  }
};

/// `compute` is the dtype of matmuls; `fp8` for block linears in fp8 where the card has it.
struct ComputeKind {
  Dtype dtype{};
  bool is_fp8{}, launches_few{};  // compiled or hand-written: few launches
};
CostModel make_cost_model(const GpuSpec& gpu, const Profile& profile, ComputeKind compute);

}  // namespace gpuplan

// Time of an op on one GPU (roofline x efficiency). Rates come from the catalogue and the profile; nothing empirical
// stands here. Every effect and what it is worth: docs/speed_model.md. Collectives: planner/comm_model.h.
#pragma once

#include <array>
#include <memory>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/framework.h"
#include "models/layer_graph.h"
#include "models/numerics.h"

namespace gpuplan {

/// Sustained rates of one GPU for one compute dtype.
///
/// Where the profile was measured (`calibrate`), products take what their surface says, over the share of it that
/// training on this software sustains; the executor's own kernels take what they were measured to take.
struct CostModel {
  FlopsPerSec gemm, batched_gemm, flash, cudnn, flash3;
  BytesPerSec memory;                    // reached, not datasheet
  FlopsPerSec gemm_fp32;                 // of fp32 operands beside others (LayerOp::is_fp32)
  FlopsPerSec gemm_fp8;                  // 0: block linears multiply in the compute dtype
  std::array<double, 3> bytes_factor{};  // moved over the ops' bytes, by Software
  double dequant_bytes = 1, gptq_bytes = 1, small_heads = 1;
  std::int64_t aligned_head = 1;  // heads of a multiple of so many elements begin at 16 bytes
  double unaligned = 1;           // rate of batched products of other heads, over that of these
  double wave_loss{}, exposed_traffic{};
  double num_sms{};
  Seconds kernel_overhead, dispatch;  // device time per kernel; host time per launched kernel
  Seconds python_dispatch;            // the same of hooks, collectives and loops, which no compiler takes in
  double overlap_slowdown{};
  FlopsPerSec peak;                           // datasheet, for MFU
  std::shared_ptr<const Measured> measured;   // keeps `load`; null: not calibrated
  const MeasurementsAtRanks* load = nullptr;  // of as many ranks as the plan has on a machine
  GemmType gemm_type{};
  double sustained = 1;        // share of a product's measured rate
  KernelTimes kernel_times{};  // Measured: memory-bound kernels, attention and optimizer as `calibrate` found them
  BytesPerSec own_optimizer;   // memory rate of the executor's step; 0: as any other memory traffic

  double slowness = 1;  // CPU ranks that share a core, times what earlier runs took over the prediction

  bool operator==(const CostModel&) const = default;

  BytesPerSec memory_rate() const { return memory * (1 / slowness); }
  BytesPerSec optimizer_rate() const {
    return own_optimizer.value > 0 ? own_optimizer * (1 / slowness) : memory_rate();
  }
  /// The surface for a product; nullptr when nothing near it was measured.
  const GemmSurface* surface_of(const LayerOp& op) const;

  /// max(FLOPs / rate, bytes / bandwidth) + launch overhead.
  Seconds op_time(const LayerOp& op, Software software) const;

 private:
  Seconds unhindered_time(const LayerOp& op, Software software) const;
  Seconds gemm_time(const LayerOp& op, Software software) const;
  Seconds measured_gemm_time(const GemmSurface& surface, const LayerOp& op) const;
  Seconds attention_time(const LayerOp& op, FlopsPerSec rate) const;
  Seconds batched_gemm_time(const LayerOp& op) const;
  Seconds scan_time(const LayerOp& op) const;
  /// `factor`: bytes moved over the op's, where its kernel was not measured.
  Seconds memory_time(const LayerOp& op, double factor) const;
  double wave_factor(const LayerOp& op) const;
  bool is_in_fp8(const LayerOp& op) const;
};

/// `compute` is the dtype of matmuls; `fp8` for block linears in fp8 where the card has it.
struct ComputeKind {
  Dtype dtype{};
  bool is_fp8{}, is_compiled{}, is_handwritten{};  // of either kind: few launches
  KernelTimes kernel_times{};
  std::string_view framework{};     // corrected by what its earlier runs took
  std::int64_t num_ranks = 1;       // of the plan
  std::int64_t ranks_per_node = 1;  // whose cores and memory they share
  std::int64_t host_cores = 0;      // that CPU ranks share; 0 on GPUs
  std::int64_t ranks_at_once = 1;   // of them that work at the same time: stages of a naive pipeline take turns
  std::int64_t ranks_in_step = 1;   // of the plan that wait for each other at every unit
};

/// The product that a GEMM op is; of experts, one of theirs, with an equal share of the rows.
GemmShape shape_of(const LayerOp& op);

/// Says how many standard deviations the largest of `n` normal variables lies above their mean, on average:
/// the quantile (n - 0.375) / (n + 0.25), exact within 0.02. Sources: Blom 1958; Winitzki 2008 for the inverse of erf.
double expected_maximum(std::int64_t n);

/// Memory rate of one rank's optimizer step whose states are on the host (EngineConvention::host_step). `num_ranks` of
/// a machine step at once and share its memory. Torch's optimizers have one thread per rank (torchrun and accelerate
/// set OMP_NUM_THREADS=1: torch/distributed/run.py), which takes no more than its own rate.
BytesPerSec host_optimizer_rate(const Profile& profile, const FrameworkConvention& framework, ShardingEngine engine,
                                const HostSpec& host, std::int64_t num_ranks);

CostModel make_cost_model(const GpuSpec& gpu, const Profile& profile, ComputeKind compute);

}  // namespace gpuplan

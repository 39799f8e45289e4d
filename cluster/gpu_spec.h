// One GPU product as the planner needs it.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace gpuplan {

/// One GPU product. Rates are dense (no sparsity). A rate the card does not have is 0. Source: data/gpus.
struct GpuSpec {
  std::string id, name, vendor, architecture, compute_capability, form_factor;
  Bytes device_memory;                          // what nvidia-smi shows as total
  Bytes framework_memory;                       // what a framework may allocate before the CUDA context (lowest seen)
  BytesPerSec memory_bandwidth;                 // datasheet
  double memory_share{};                        // of it that copies and triads reach, measured; 0: none published
  FlopsPerSec fp32, tf32, fp16, bf16, fp8;      // datasheet, fp32 accumulation
  FlopsPerSec gemm_fp32, gemm_fp16, gemm_bf16;  // best measured GEMM; 0: none published
  std::int64_t sm_count{};
  BytesPerSec nvlink_per_direction;  // 0: none
  std::string nvlink_kind;           // "NVSwitch", "2-way bridge", …
  std::int64_t pcie_generation{}, pcie_lanes{};
  bool has_p2p_over_pcie{};
  bool is_plan_only{};                   // AMD, V100: planned, not run
  Bytes own_memory, collectives_memory;  // of a CPU rank: what program and libraries hold; what MPI holds beside
  bool is_cpu{};                         // `Nxcpu`: ranks on this host
  std::string source;
  bool operator==(const GpuSpec&) const = default;
};

/// Says whether its tensor cores multiply bf16: those of NVIDIA's cards before Ampere do not. Source: data/gpus.
inline bool multiplies_bf16(const GpuSpec& gpu) { return gpu.is_cpu || gpu.bf16.value > 0 || gpu.fp16.value <= 0; }
/// Says whether flash-attention 2 runs on it: on NVIDIA from capability 8.0. Source: Dao-AILab/flash-attention README.
bool runs_flash_attention_2(const GpuSpec& gpu);
/// FlashAttention 3 is written for Hopper's instructions, capability 9.0. Source: the same README.
bool runs_flash_attention_3(const GpuSpec& gpu);
/// An NVIDIA card of capability 9.0 or later.
bool is_hopper_or_later(const GpuSpec& gpu);

}  // namespace gpuplan

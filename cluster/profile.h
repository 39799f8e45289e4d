// The empirical side of the cost model: how much of a card's rate is reached, host dispatch, overlap, and the memory that
// no ledger sees. Default values come from published measurements (data/profiles); `gpuplan calibrate` measures better ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuplan {

/// One number with where it comes from.
struct ProfileValue {
  double value{};
  std::string unit, kind, source;   // kind: measured | fitted | datasheet | derived
};

/// Efficiency of a class of GPUs (Ampere, Hopper, consumer …) and of the software on it.
struct Profile {
  std::string id, title, file, sha256;
  // compute
  double gemm_efficiency{};             // sustained GEMM over the best measured GEMM
  double gemm_fallback{};               // best GEMM over datasheet where nothing was measured
  double misaligned_gemm{};             // factor for widths that are no multiple of 64
  double flash_efficiency{};            // flash/SDPA attention over the sustained GEMM rate
  double batched_gemm_efficiency{};     // eager attention's batched GEMMs over the sustained GEMM rate
  double memory_efficiency{};           // reached over datasheet memory bandwidth
  double eager_bytes_factor{}, fused_bytes_factor{};   // bytes really moved over the minimum of an op
  double dequant_bytes_factor{};        // NF4 dequantisation
  Seconds kernel_overhead;              // fixed cost of a GEMM kernel
  Seconds dispatch_eager, dispatch_compiled;   // host time per launched kernel
  // communication
  double overlap_slowdown{};            // compute under a running collective takes 1 + this
  double nvlink_efficiency{}, pcie_efficiency{}, network_efficiency{}, host_link_efficiency{};
  BytesPerSec cpu_optimizer_bandwidth;  // memory rate of a CPU Adam step
  // memory outside the ledger
  Bytes context;                        // CUDA context and loaded kernels
  Bytes nccl;                           // communicators and their buffers, once per process
  Bytes blas_workspace;                 // cuBLAS / cuBLASLt workspaces
  double margin{};                      // part of the device kept free by the verdict
  std::vector<std::pair<std::string, ProfileValue>> values;   // every number above with unit and source, for --explain
};

/// The profile that fits a GPU: data/profiles/<class>.yaml chosen by architecture and form factor.
Profile default_profile(const std::string& gpu_id);

}  // namespace gpuplan

// The empirical side of the cost model: how much of a card's rate is reached, host dispatch, overlap, and the memory
// that no ledger sees. Default values come from published measurements (data/profiles); `gpuplan calibrate` measures
// better ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/cluster_spec.h"
#include "cluster/profile/measured.h"
#include "cluster/profile/run_history.h"

namespace gpuplan {

/// One number with where it comes from.
struct ProfileValue {
  double value{};
  std::string unit, kind, source;   // kind: measured | fitted | datasheet | derived
  std::optional<double> low, high;  // 95 % interval, in `unit`
  std::int64_t num_samples = 0;     // it was made from; 0: not stated
  double residual = 0;              // median |ln(fitted / measured)| over them
};

/// Efficiency of a class of GPUs (Ampere, Hopper, consumer …) and of the software on it.
struct Profile {
  std::string id, title, file, sha256;
  // compute
  double gemm_efficiency{};             // sustained GEMM over the best measured GEMM
  double gemm_fallback{};               // best GEMM over datasheet where nothing was measured
  double wave_loss{};                   // share of a GEMM's unfilled last wave that is lost
  double gemm_exposed_traffic{};        // share of the shorter of a GEMM's two times (arithmetic, traffic) that shows
  double flash_efficiency{};            // flash/SDPA attention over the sustained GEMM rate
  double cudnn_attention_efficiency{};  // the same of cuDNN's and Transformer Engine's kernels
  double flash3_efficiency{};           // the same of FlashAttention 3
  double small_head_attention{};        // factor for heads below 128
  double batched_gemm_efficiency{};     // eager attention's batched GEMMs over the sustained GEMM rate
  std::int64_t head_alignment{};        // bytes at which heads of batched GEMMs begin on tensor cores; 0: anywhere
  double memory_efficiency{};           // reached over datasheet memory bandwidth
  BytesPerSec eager_sm_bandwidth;       // bytes of framework ops that one SM works through, beside the memory
  BytesPerSec dequant_sm_bandwidth;     // the same of NF4 dequantisation
  double fused_bytes_factor{};          // bytes really moved over those counted: hand-written kernels
  double compiled_bytes_factor{};       // the same under torch.compile
  double gptq_bytes_factor{};           // GPTQ's, in torch ops
  Seconds kernel_overhead;              // fixed cost of a GEMM kernel
  Seconds dispatch_eager, dispatch_compiled;  // host time per launched kernel
  // communication
  double overlap_slowdown{};  // compute under a running collective takes 1 + this
  double gpu_spread{};        // standard deviation of the time of a layer over GPUs of one kind, over its mean
  double nvlink_efficiency{}, pcie_efficiency{}, network_efficiency{}, host_link_efficiency{};
  BytesPerSec cpu_optimizer_bandwidth;        // memory rate of a vectorised CPU Adam step (DeepSpeedCPUAdam)
  BytesPerSec torch_cpu_optimizer_bandwidth;  // of torch's own on CPU tensors, which FSDP's offload steps with
  BytesPerSec nvme_bandwidth;                 // one NVMe drive, read and write alike
  // memory outside the ledger
  Bytes context;         // CUDA context and loaded kernels
  Bytes nccl;            // communicators and their buffers, once per process
  Bytes blas_workspace;  // cuBLAS / cuBLASLt workspaces
  double pool_slack{};   // part of the gap between tensors and the sum of class peaks that cannot be given back
  double time_error{};   // relative difference in time below which two strategies count as equal
  double margin{};       // part of the device kept free by the verdict
  std::vector<std::pair<std::string, ProfileValue>> values;  // every number above with unit and source, for --explain
  std::shared_ptr<const Measured> measured;                  // of a calibrated machine; null in shipped profiles
  std::shared_ptr<const std::vector<RunRecord>> runs;  // that `gpuplan run` kept beside the file; null without one
};

/// The profile that fits a GPU ("cpu": ranks on this host): a class of data/profiles/default.yaml, chosen there by
/// architecture and form factor.
Profile default_profile(const std::string& gpu_id);
Profile default_profile(const GpuSpec& gpu);
/// Every class of that file, in its order.
std::vector<Profile> shipped_profiles();

/// A profile from a file, as `calibrate` writes it, with the runs beside it. Throws InputError listing every problem
/// with its line.
Profile load_profile(const std::filesystem::path& path);

/// The same of a file's text; `path` is for messages.
Profile parse_profile(const std::string& text, const std::filesystem::path& path);

/// Correction of gpuplan's own executor, by runs of as many ranks.
RunCorrection correction_of(const Profile& profile, std::int64_t num_ranks, std::string_view framework);

/// Part of a profile that says which machine it is for; read without fits and samples. Throws InputError.
struct ProfileHead {
  std::string id;
  std::optional<MeasuredOn> on;  // of calibrations
};
ProfileHead read_profile_head(const std::filesystem::path& path);

/// Numbers that `calibrate` found, for the table above, over a class of the shipped profile.
struct ProfileDraft {
  std::string id, title, based_on;
  std::vector<std::pair<std::string, ProfileValue>> values;
  Measured measured;
};
/// The text of every profile that gpuplan writes begins so.
inline constexpr std::string_view kProfileBegins = "# Written by gpuplan; fields: data/profiles/README.md\n";
/// The text of a file that load_profile() reads back. Throws BugError for a value whose unit it would not read.
std::string profile_text(const ProfileDraft& draft);
/// The same of a profile: its file, or of a shipped class, which has none of its own, every value of it.
std::string profile_text(const Profile& profile);

}  // namespace gpuplan

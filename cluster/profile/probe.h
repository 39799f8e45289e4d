// What is measured: one probe is one thing timed under one condition. A probe says itself in words (its key), so that
// samples, resumed runs and two profiles can be compared.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/name_table.h"
#include "base/operation_kinds.h"
#include "base/units.h"
#include "cluster/profile/collective_curve.h"
#include "cluster/profile/gemm_surface.h"
#include "device/device.h"

namespace gpuplan {

/// Families of probes, as `--only` names them.
enum class ProbeFamily : std::uint8_t { Gemm, Attention, Memory, Dispatch, Copy, Overhead, Collective, Overlap };
NameTable<ProbeFamily> names_of(ProbeFamily);  // "gemm", "attention", …, as `--only` spells them

/// Memory-bound kernels.
enum class MemoryKernel : std::uint8_t { Copy, RmsNorm, SwiGlu, CrossEntropy, AdamW, Nf4Dequantise };
inline constexpr std::array kMemoryKernels{MemoryKernel::Copy,   MemoryKernel::RmsNorm,
                                           MemoryKernel::SwiGlu, MemoryKernel::CrossEntropy,
                                           MemoryKernel::AdamW,  MemoryKernel::Nf4Dequantise};
NameTable<MemoryKernel> names_of(MemoryKernel);

/// Ends of a Copy probe, alone or while all ranks copy.
enum class CopyPath : std::uint8_t { HostToDevice, DeviceToHost, PinnedToDevice, DeviceToPinned, Peer };
NameTable<CopyPath> names_of(CopyPath);

/// Quantity that an Overhead probe reads (bytes), or a Dispatch probe (time).
enum class OverheadKind : std::uint8_t { Context, BlasWorkspace, Allocator, Communicator };
/// SyncLatency: a stream hands work to another one, which all-reduces 1000 bytes, and gets it back.
enum class DispatchKind : std::uint8_t { EmptyKernel, HostEnqueue, SyncLatency };
inline constexpr std::array kOverheadKinds{OverheadKind::Context, OverheadKind::BlasWorkspace, OverheadKind::Allocator,
                                           OverheadKind::Communicator};
/// Kernel that an Attention probe runs: the device's forward, fused or eager, or the gradients as training computes
/// them.
enum class AttentionWork : std::uint8_t { Flash, Eager, Backward };
inline constexpr std::array kAttentionWorks{AttentionWork::Flash, AttentionWork::Eager, AttentionWork::Backward};
NameTable<OverheadKind> names_of(OverheadKind);
NameTable<DispatchKind> names_of(DispatchKind);    // "empty-kernel", "host-enqueue", "meeting": SyncLatency
NameTable<AttentionWork> names_of(AttentionWork);  // "flash", "eager", "backward"

struct Probe {
  ProbeFamily family{};
  std::int64_t num_ranks = 1;  // that do this at once
  // Gemm (and Overlap: this product under an all-reduce of `bytes`); Attention: see below
  GemmType type{};
  GemmLayout layout{};
  GemmShape shape;
  // Attention: heads are in shape.batch, queries = keys in shape.m, head size in shape.k; of `dtype`
  AttentionWork attention{};
  // Memory: `rows` x `width` elements of `dtype`
  MemoryKernel kernel{};
  Dtype dtype = Dtype::F32;
  std::int64_t rows{}, width{};
  // Copy, Collective, Overlap
  CopyPath path{};
  int peer = 0;  // Peer: rank r writes to device r + peer
  CollectiveKind collective{};
  RankScope scope{};
  std::int64_t group_ranks = 1;  // in each group of the scope
  Bytes bytes;                   // of the whole tensor, of `dtype`
  OverheadKind overhead{};
  DispatchKind dispatch{};

  /// "gemm fp32 forward 512x2048x512 ranks=1": unique, stable, and what resuming compares.
  std::string key() const;
  GemmProblem product() const;             // Gemm, Overlap; the result has the operands' dtype (bf16 for fp8)
  AttentionShape attention_shape() const;  // Attention
  double flops() const;                    // 0 where none
  Bytes traffic() const;  // least bytes the work must move through memory or over the link; 0 where none
};

/// Probe of an all-reduce of `bytes` among all of `num_ranks`.
Probe all_reduce_probe(std::int64_t num_ranks, Bytes bytes, Dtype dtype);

/// Result of one probe.
struct Sample {
  Probe probe;
  double median{};       // s per call (Overhead: bytes)
  double low{}, high{};  // 95 % interval of the median
  std::int64_t num_runs{}, num_outliers{};
  bool is_converged = true;  // false: the cap on runs or time came first
  double overlapped{};       // Overlap: time of the product under the collective over its time alone
  std::string failure;  // why there is no figure: "out of memory: …", "wrong result: …"; empty when all is well
  bool repeats = true;  // false: two visits differ by more than their intervals. Not in the JSON
  bool is_ok() const { return failure.empty(); }
};

/// Combines the visits of one probe, minutes apart: the median of its figures; the interval holds those of all.
/// Failures count only where nothing else is. Requires: not empty.
Sample combined(const std::vector<Sample>& visits);

/// One line of JSON and back. Throws InputError naming `where`.
std::string to_json_line(const Sample& sample);
Sample sample_from_json(const std::string& line, const std::string& where);
std::string to_json_line(const Probe& probe);
Probe probe_from_json(const std::string& line, const std::string& where);

}  // namespace gpuplan

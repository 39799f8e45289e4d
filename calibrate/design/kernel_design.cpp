// Attention, memory-bound kernels, dispatch, copies and overheads.
#include <algorithm>
#include <array>

#include "calibrate/plan.h"

namespace gpuplan {
namespace {

using namespace literals;

/// Heads and length of one call.
struct AttentionSize {
  std::int64_t heads, length;
};
// Most telling first: the middle, then the ends.
constexpr std::array kCpuAttention{AttentionSize{8, 512},  AttentionSize{4, 128},  AttentionSize{8, 1024},
                                   AttentionSize{16, 256}, AttentionSize{4, 2048}, AttentionSize{9, 384}};
constexpr std::array kGpuAttention{AttentionSize{32, 2048}, AttentionSize{16, 512},  AttentionSize{32, 8192},
                                   AttentionSize{32, 1024}, AttentionSize{64, 4096}, AttentionSize{8, 256}};

/// Attention kernels reach about a quarter of the product's rate on CPUs: exponentials, and half of the work masked.
constexpr double kAttentionShare = 0.25;

bool is_allowed(const Probe& probe, const ProbeLimits& limits, GemmType type) {
  return probe.flops() <= kAttentionShare * limits.most_flops(type) && probe.traffic() <= limits.most_operands();
}

/// Formats that attention kernels exist in; training has no fp16.
bool has_attention(AttentionWork work, GemmType type) {
  return type == GemmType::F32 || type == GemmType::BF16 || (type == GemmType::F16 && work != AttentionWork::Backward);
}

std::vector<Probe> attention_series(const ProbeLimits& limits, AttentionWork kernel, GemmType type,
                                    std::int64_t head_size) {
  std::vector<Probe> probes;
  const std::span<const AttentionSize> sizes = limits.is_cpu() ? std::span(kCpuAttention) : std::span(kGpuAttention);
  for (const AttentionSize& size : sizes) {
    const Probe probe{.family = ProbeFamily::Attention,
                      .num_ranks = limits.num_ranks,
                      .shape{.m = size.length, .n = size.length, .k = head_size, .batch = size.heads},
                      .attention = kernel,
                      .dtype = operand_dtype(type)};
    if (is_allowed(probe, limits, type) && std::ssize(probes) < limits.pick(6, 3)) probes.push_back(probe);
  }
  return probes;
}

/// Width of a row: a hidden size, a feed-forward size, a vocabulary.
struct KernelRow {
  MemoryKernel kernel;
  std::int64_t width;
};
constexpr std::array kKernelRows{
    KernelRow{MemoryKernel::Copy, 1024},          KernelRow{MemoryKernel::RmsNorm, 2048},
    KernelRow{MemoryKernel::AdamW, 1024},         KernelRow{MemoryKernel::SwiGlu, 5632},
    KernelRow{MemoryKernel::CrossEntropy, 32000}, KernelRow{MemoryKernel::Nf4Dequantise, 4096}};
constexpr std::array kTraffic{4_MiB, 64_KiB, 32_MiB, 512_KiB, 256_MiB, 1_MiB, 128_MiB};

/// Makes a probe of as many rows as make up `traffic`; narrower ones where a single row would be more.
Probe kernel_probe(const KernelRow& row, Dtype dtype, Bytes traffic, std::int64_t num_ranks) {
  Probe probe{.family = ProbeFamily::Memory,
              .num_ranks = num_ranks,
              .kernel = row.kernel,
              .dtype = dtype,
              .rows = 1,
              .width = row.width};
  while (probe.traffic() > traffic && probe.width > 1024) probe.width /= 2;
  probe.rows = std::max<std::int64_t>(1, traffic.count / probe.traffic().count);
  return probe;
}

}  // namespace

std::vector<Probe> attention_design(const ProbeLimits& limits) {
  std::vector<std::vector<Probe>> all;
  for (const GemmType type : limits.facts.gemm_types)
    for (const AttentionWork kernel : kAttentionWorks)
      for (const std::int64_t head_size : {64, 128, 32})
        if (has_attention(kernel, type) &&
            (head_size >= 64 || (limits.is_cpu() && kernel != AttentionWork::Eager)))  // small models
          all.push_back(attention_series(limits, kernel, type, head_size));
  return interleave(all);
}

std::vector<Probe> memory_design(const ProbeLimits& limits) {
  std::vector<Probe> probes;
  for (const Bytes traffic : std::span(kTraffic).first(std::size_t(limits.pick(7, 3))))
    for (const KernelRow& row : kKernelRows)
      for (const Dtype dtype : {Dtype::BF16, Dtype::F32})
        if (traffic <= limits.most_memory()) probes.push_back(kernel_probe(row, dtype, traffic, limits.num_ranks));
  return probes;
}

Probe sync_latency_probe(std::int64_t num_ranks) {
  return {.family = ProbeFamily::Dispatch, .num_ranks = num_ranks, .dispatch = DispatchKind::SyncLatency};
}

std::vector<Probe> dispatch_design(const ProbeLimits& limits) {
  const Probe probe{.family = ProbeFamily::Dispatch, .num_ranks = limits.num_ranks};
  Probe host = probe;
  host.dispatch = DispatchKind::HostEnqueue;
  if (limits.num_ranks == 1) return {probe, host};
  return {probe, host, sync_latency_probe(limits.num_ranks)};
}

std::vector<Probe> copy_design(const ProbeLimits& limits, std::int64_t num_devices) {
  std::vector<Probe> probes;
  for (const Bytes bytes : {64_MiB, 64_KiB, 1_MiB, 8_MiB, 256_MiB})
    for (const CopyPath path :
         {CopyPath::PinnedToDevice, CopyPath::DeviceToPinned, CopyPath::HostToDevice, CopyPath::DeviceToHost}) {
      if (bytes > limits.most_memory() || (limits.is_cpu() && bytes > 64_MiB)) continue;
      if (limits.is_quick && bytes != 64_MiB && bytes != 64_KiB) continue;
      probes.push_back({.family = ProbeFamily::Copy, .num_ranks = limits.num_ranks, .path = path, .bytes = bytes});
    }
  for (int peer = 1; peer < num_devices && !limits.is_cpu(); ++peer)
    for (const Bytes bytes : {64_MiB, 256_MiB})
      probes.push_back({.family = ProbeFamily::Copy,
                        .num_ranks = limits.num_ranks,
                        .path = CopyPath::Peer,
                        .peer = peer,
                        .bytes = bytes});
  return probes;
}

std::vector<Probe> overhead_design(const ProbeLimits& limits) {
  std::vector<Probe> probes;
  for (const OverheadKind kind : kOverheadKinds)
    if ((kind == OverheadKind::Communicator) == (limits.num_ranks > 1))
      probes.push_back({.family = ProbeFamily::Overhead, .num_ranks = limits.num_ranks, .overhead = kind});
  return probes;
}

}  // namespace gpuplan

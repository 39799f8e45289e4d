#include "cluster/profile/probe.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/statistics.h"
#include "device/products.h"
#include "device/quantisation.h"

namespace gpuplan {
namespace {

constexpr std::array kFamilies{
    NameRow<ProbeFamily>{"gemm", ProbeFamily::Gemm},       NameRow<ProbeFamily>{"attention", ProbeFamily::Attention},
    NameRow<ProbeFamily>{"memory", ProbeFamily::Memory},   NameRow<ProbeFamily>{"dispatch", ProbeFamily::Dispatch},
    NameRow<ProbeFamily>{"copy", ProbeFamily::Copy},       NameRow<ProbeFamily>{"overhead", ProbeFamily::Overhead},
    NameRow<ProbeFamily>{"nccl", ProbeFamily::Collective}, NameRow<ProbeFamily>{"overlap", ProbeFamily::Overlap}};
constexpr std::array kKernels{NameRow<MemoryKernel>{"copy", MemoryKernel::Copy},
                              NameRow<MemoryKernel>{"rms-norm", MemoryKernel::RmsNorm},
                              NameRow<MemoryKernel>{"swiglu", MemoryKernel::SwiGlu},
                              NameRow<MemoryKernel>{"cross-entropy", MemoryKernel::CrossEntropy},
                              NameRow<MemoryKernel>{"adamw", MemoryKernel::AdamW},
                              NameRow<MemoryKernel>{"nf4-dequantise", MemoryKernel::Nf4Dequantise}};
constexpr std::array kCopyPaths{NameRow<CopyPath>{"host-to-device", CopyPath::HostToDevice},
                                NameRow<CopyPath>{"device-to-host", CopyPath::DeviceToHost},
                                NameRow<CopyPath>{"pinned-to-device", CopyPath::PinnedToDevice},
                                NameRow<CopyPath>{"device-to-pinned", CopyPath::DeviceToPinned},
                                NameRow<CopyPath>{"peer", CopyPath::Peer}};
constexpr std::array kOverheads{NameRow<OverheadKind>{"context", OverheadKind::Context},
                                NameRow<OverheadKind>{"blas-workspace", OverheadKind::BlasWorkspace},
                                NameRow<OverheadKind>{"allocator", OverheadKind::Allocator},
                                NameRow<OverheadKind>{"communicator", OverheadKind::Communicator}};
constexpr std::array kDispatches{NameRow<DispatchKind>{"empty-kernel", DispatchKind::EmptyKernel},
                                 NameRow<DispatchKind>{"host-enqueue", DispatchKind::HostEnqueue},
                                 NameRow<DispatchKind>{"meeting", DispatchKind::SyncLatency}};
constexpr std::array kAttentions{NameRow<AttentionWork>{"flash", AttentionWork::Flash},
                                 NameRow<AttentionWork>{"eager", AttentionWork::Eager},
                                 NameRow<AttentionWork>{"backward", AttentionWork::Backward}};

std::string shape_text(const GemmShape& shape) {
  const std::string one = fmt::format("{}x{}x{}", shape.m, shape.n, shape.k);
  return shape.batch == 1 ? one : fmt::format("{} batch={}", one, shape.batch);
}

std::string product_text(const Probe& probe) {
  return fmt::format("{} {} {}", to_string(probe.type), to_string(probe.layout), shape_text(probe.shape));
}

/// Part of the key between the family and the number of ranks.
std::string condition(const Probe& probe) {
  switch (probe.family) {
    case ProbeFamily::Gemm: return product_text(probe);
    case ProbeFamily::Attention:
      return fmt::format("{} {} heads={} {}x{}", to_string(probe.attention), to_string(probe.dtype), probe.shape.batch,
                         probe.shape.m, probe.shape.k);
    case ProbeFamily::Memory:
      return fmt::format("{} {} {}x{}", to_string(probe.kernel), to_string(probe.dtype), probe.rows, probe.width);
    case ProbeFamily::Dispatch: return std::string(to_string(probe.dispatch));
    case ProbeFamily::Copy: {
      const std::string peer = probe.path == CopyPath::Peer ? fmt::format(" +{}", probe.peer) : "";
      return fmt::format("{}{} {} B", to_string(probe.path), peer, probe.bytes.count);
    }
    case ProbeFamily::Overhead: return std::string(to_string(probe.overhead));
    case ProbeFamily::Collective:
      return fmt::format("{} {} of {} {} {} B", to_string(probe.collective), to_string(probe.scope), probe.group_ranks,
                         to_string(probe.dtype), probe.bytes.count);
    case ProbeFamily::Overlap: return fmt::format("{} under {} B", product_text(probe), probe.bytes.count);
  }
  return {};
}

/// Elements of each kernel are read and written once; in-place results count once more.
Bytes kernel_traffic(const Probe& probe) {
  const std::int64_t count = probe.rows * probe.width;
  const Bytes tensor = bytes_of(count, probe.dtype);
  switch (probe.kernel) {
    case MemoryKernel::Copy: return 2 * tensor;
    case MemoryKernel::RmsNorm: return 2 * tensor + bytes_of(probe.width, probe.dtype);
    case MemoryKernel::SwiGlu: return 3 * tensor;
    case MemoryKernel::CrossEntropy: return 2 * tensor + bytes_of(2 * probe.rows, Dtype::F32);  // labels and losses
    case MemoryKernel::AdamW: return 6 * bytes_of(count, Dtype::F32) + tensor;  // w, m, v both ways; the gradient
    case MemoryKernel::Nf4Dequantise: return Bytes{count / 2} + bytes_of(count / kNf4Block, Dtype::F32) + tensor;
  }
  return {};
}

/// q, k, v and the result; eager attention also writes and reads its scores.
Bytes attention_traffic(const AttentionShape& shape, AttentionWork work) {
  const Bytes tensor = bytes_of(shape.elements(), shape.dtype);
  return work == AttentionWork::Eager ? 4 * tensor + 2 * eager_scores_bytes(shape) : 4 * tensor;
}

}  // namespace

NameTable<ProbeFamily> names_of(ProbeFamily) { return {"family of probes", kFamilies}; }
NameTable<MemoryKernel> names_of(MemoryKernel) { return {"kernel", kKernels}; }
NameTable<CopyPath> names_of(CopyPath) { return {"path of a copy", kCopyPaths}; }
NameTable<OverheadKind> names_of(OverheadKind) { return {"kind of overhead", kOverheads}; }
NameTable<DispatchKind> names_of(DispatchKind) { return {"kind of dispatch", kDispatches}; }
NameTable<AttentionWork> names_of(AttentionWork) { return {"work of attention", kAttentions}; }

GemmProblem Probe::product() const {
  const Dtype operands = operand_dtype(type);
  return {.m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .batch = shape.batch,
          .type = type,
          .layout = layout,
          .output = type == GemmType::F8 ? Dtype::BF16 : operands};
}

AttentionShape Probe::attention_shape() const {
  return {.seq = shape.m, .heads = shape.batch, .kv_heads = shape.batch, .head_size = shape.k, .dtype = dtype};
}

Probe all_reduce_probe(std::int64_t num_ranks, Bytes bytes, Dtype dtype) {
  return {.family = ProbeFamily::Collective,
          .num_ranks = num_ranks,
          .dtype = dtype,
          .collective = CollectiveKind::AllReduce,
          .scope = RankScope::All,
          .group_ranks = num_ranks,
          .bytes = bytes};
}

Sample combined(const std::vector<Sample>& visits) {
  GPUPLAN_CHECK(!visits.empty(), "a probe that was never measured");
  const auto is_ok = [](const Sample& s) { return s.is_ok(); };
  const auto first = std::find_if(visits.begin(), visits.end(), is_ok);
  if (first == visits.end()) return visits.front();
  Sample out = *first;
  std::vector<double> medians{first->median};
  double highest_low = first->low, lowest_high = first->high;
  for (auto other = std::find_if(first + 1, visits.end(), is_ok); other != visits.end();
       other = std::find_if(other + 1, visits.end(), is_ok)) {
    medians.push_back(other->median);
    highest_low = std::max(highest_low, other->low);
    lowest_high = std::min(lowest_high, other->high);
    out.low = std::min(out.low, other->low);
    out.high = std::max(out.high, other->high);
    out.num_runs += other->num_runs;
    out.num_outliers += other->num_outliers;
    out.is_converged = out.is_converged && other->is_converged;
  }
  out.median = median(medians);
  out.repeats = highest_low <= lowest_high;
  return out;
}

std::string Probe::key() const { return fmt::format("{} {} ranks={}", to_string(family), condition(*this), num_ranks); }

double Probe::flops() const {
  if (family == ProbeFamily::Gemm || family == ProbeFamily::Overlap) return product().flops();
  if (family != ProbeFamily::Attention) return 0;
  constexpr double kBackward = 2.5;  // five products for forward's two: Dao 2023
  return (attention == AttentionWork::Backward ? kBackward : 1) * attention_shape().flops();
}

Bytes Probe::traffic() const {
  switch (family) {
    case ProbeFamily::Gemm:
    case ProbeFamily::Overlap: return product().bytes();
    case ProbeFamily::Attention:
      return (attention == AttentionWork::Backward ? 2 : 1) * attention_traffic(attention_shape(), attention);
    case ProbeFamily::Memory: return kernel_traffic(*this);
    case ProbeFamily::Copy: return bytes;
    case ProbeFamily::Collective: return {std::int64_t(bus_factor(collective, group_ranks) * double(bytes.count))};
    case ProbeFamily::Dispatch:
    case ProbeFamily::Overhead: return {};
  }
  return {};
}

}  // namespace gpuplan

// Memory of a device that no tensor holds: the context, what the GEMM library keeps, what the allocator rounds up, and
// what a communicator takes. Readings, not times: the sample's figures are bytes. Differences are of this process's
// state, so these probes come first in a plan.
#include <array>

#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

using namespace literals;

Bytes context(ProbeBench& bench) {
  const auto stream = bench.device.create_stream();
  bench.device.run(kernels::Empty{}, *stream);  // kernels are loaded by their first use
  stream->synchronise();
  return bench.device.overhead();
}

/// Memory that a first large product in each format leaves allocated.
Bytes blas_workspace(ProbeBench& bench) {
  constexpr std::int64_t kSize = 1024;
  const Bytes before = context(bench);
  const auto stream = bench.device.create_stream();  // workspaces are a stream's own, and go with it
  for (const GemmType type : bench.device.facts().gemm_types) {
    const Workload workload = gemm_workload({.type = type, .shape{kSize, kSize, kSize}}, bench, *stream);
    workload.call();
    stream->synchronise();
  }
  bench.pools.reset();
  return bench.device.overhead() - before;
}

/// Free memory that 64 buffers of an odd size take, less what was asked for.
Bytes allocator(ProbeBench& bench) {
  constexpr std::int64_t kBuffers = 64;
  constexpr Bytes kAsked = 1_MiB + 1_KiB;
  const Bytes before = bench.device.facts().memory_free;
  std::vector<Buffer> buffers;
  for (std::int64_t i = 0; i < kBuffers; ++i) buffers.push_back(bench.device.allocate(kAsked));
  return before - bench.device.facts().memory_free - kBuffers * kAsked;
}

/// Free memory that a group and its first collective take: the device knows nothing of the communicator's own buffers.
Bytes communicator(ProbeBench& bench) {
  if (!bench.ranks) return {};
  const Bytes before = bench.device.facts().memory_free;
  const auto copy = bench.ranks->split(0);
  const Buffer data = bench.device.allocate(1_MiB);
  const auto stream = bench.device.create_stream();
  copy->all_reduce(data.data(), data.data(), data.size().count / size_of(Dtype::F32), Dtype::F32, *stream);
  stream->synchronise();
  return before - bench.device.facts().memory_free - data.size();
}

// In the order of OverheadKind.
constexpr std::array<Bytes (*)(ProbeBench&), 4> kReadings{context, blas_workspace, allocator, communicator};

}  // namespace

void run_overhead(const Probe& probe, ProbeBench& bench, Sample& sample) {
  Bytes reading;
  run_in_step(bench.ranks, [&] { reading = kReadings[std::size_t(probe.overhead)](bench); });
  // Other processes come and go: memory that seems to have been freed is no overhead.
  const double bytes = largest_of(bench.ranks, std::max(0.0, double(reading.count)));
  sample.median = sample.low = sample.high = bytes;
  sample.num_runs = 1;
}

}  // namespace gpuplan

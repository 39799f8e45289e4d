// What it costs to launch a kernel: on the device (empty kernels back to back), and for the host that enqueues them.
#include <chrono>

#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

/// In pieces that a queue takes: more would time the device.
Seconds host_time(ProbeBench& bench, Stream& stream, std::int64_t num_calls) {
  using Clock = std::chrono::steady_clock;
  Clock::duration spent{};
  for (std::int64_t done = 0; done < num_calls; done += kMostQueued) {
    const auto begin = Clock::now();
    for (std::int64_t i = done; i < std::min(num_calls, done + kMostQueued); ++i) bench.device.empty_kernel(stream);
    spent += Clock::now() - begin;
    stream.synchronise();
  }
  return {std::chrono::duration<double>(spent).count()};
}

}  // namespace

void run_dispatch(const Probe& probe, ProbeBench& bench, Sample& sample) {
  const auto stream = bench.device.create_stream();
  if (probe.dispatch == DispatchKind::EmptyKernel)
    return fill_in(sample, time_in_step(bench, *stream, {.call = [&] { bench.device.empty_kernel(*stream); }, .check = {}}));
  fill_in(sample, time_in_step(bench, [&](std::int64_t num_calls) { return host_time(bench, *stream, num_calls); }));
}

}  // namespace gpuplan

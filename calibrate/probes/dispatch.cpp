// What it costs to launch a kernel: on the device (empty kernels back to back), and for the host that enqueues them.
// And what it costs to meet: collectives of a step are on a stream of their own, which waits for the one that computes,
// and that one for it.
#include <algorithm>
#include <chrono>
#include <memory>

#include "calibrate/probes/workload.h"
#include "cluster/profile/measured.h"

namespace gpuplan {
namespace {

/// Times calls in pieces that a queue takes: more would time the device.
Seconds host_time(ProbeBench& bench, Stream& stream, std::int64_t num_calls) {
  using Clock = std::chrono::steady_clock;
  Clock::duration spent{};
  for (std::int64_t done = 0; done < num_calls; done += kMostQueued) {
    const auto begin = Clock::now();
    for (std::int64_t i = done; i < std::min(num_calls, done + kMostQueued); ++i)
      bench.device.run(kernels::Empty{}, stream);
    spent += Clock::now() - begin;
    stream.synchronise();
  }
  return {std::chrono::duration<double>(spent).count()};
}

/// An all-reduce on a stream that stood still, between two pieces of work of another stream.
class StreamSync {
 public:
  StreamSync(const Probe& probe, ProbeBench& bench)
      : device_(bench.device),
        compute_(device_.create_stream_for(StreamUse::Compute)),
        communication_(device_.create_stream_for(StreamUse::Communication)),
        to_(device_.create_event()),
        back_(device_.create_event()) {
    all_reduce_ =
        collective_workload(all_reduce_probe(probe.num_ranks, kSyncMessage, Dtype::F32), bench, *communication_);
    communication_->synchronise();
  }
  Stream& stream() { return *compute_; }
  void call() {
    hand_over(*compute_, *communication_, *to_);
    all_reduce_.call();
    hand_over(*communication_, *compute_, *back_);
  }
  /// Throws what a collective did: streams that wait for one do not.
  void finish() { communication_->synchronise(); }

 private:
  void hand_over(Stream& from, Stream& to, Event& event) {
    device_.record(event, from);
    device_.wait(to, event);
  }

  Device& device_;
  Workload all_reduce_;
  std::unique_ptr<Stream> compute_, communication_;  // go first, and wait for work that uses the operands
  std::unique_ptr<Event> to_, back_;
};

SampledTime time_sync(const Probe& probe, ProbeBench& bench) {
  std::unique_ptr<StreamSync> sync;
  run_in_step(bench.ranks, [&] { sync = std::make_unique<StreamSync>(probe, bench); });
  const SampledTime time = time_in_step(bench, sync->stream(), {.call = [&] { sync->call(); }, .check = {}});
  run_in_step(bench.ranks, [&] { sync->finish(); });
  return time;
}

}  // namespace

void run_dispatch(const Probe& probe, ProbeBench& bench, Sample& sample) {
  if (probe.dispatch == DispatchKind::SyncLatency) return fill_in(sample, time_sync(probe, bench));
  const auto stream = bench.device.create_stream();
  if (probe.dispatch == DispatchKind::EmptyKernel)
    return fill_in(sample, time_in_step(bench, *stream,
                                        {.call = [&] { bench.device.run(kernels::Empty{}, *stream); }, .check = {}}));
  fill_in(sample, time_in_step(bench, [&](std::int64_t num_calls) { return host_time(bench, *stream, num_calls); }));
}

}  // namespace gpuplan

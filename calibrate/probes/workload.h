// What a family makes of a probe: operands, one call of the work, and the check of its result. Each family is one file
// beside this one and a row in the table of runner.cpp. All ranks of a group work in step: they start together, the
// slowest one's time counts, and what fails on one fails on all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/probes/rotation.h"
#include "calibrate/sampler.h"
#include "cluster/profile/probe.h"
#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan {

/// Device, ranks and memory that probes run on. `ranks` is null on a single rank. `peers`: all devices of this process
/// by index, this one included, for copies between them. The first probe that needs shared state makes it.
struct ProbeBench {
  Device& device;
  Communicator* ranks = nullptr;
  std::vector<Device*> peers;
  SamplingRule rule;
  std::shared_ptr<OperandPools> pools;
  std::map<RankScope, std::shared_ptr<Communicator>> groups;  // this rank's group of each scope
};

/// Calls that are enqueued before the host waits: a full queue (CUDA: 1024) blocks it, for ever where the stream waits
/// for the host.
inline constexpr std::int64_t kMostQueued = 256;

/// Says why a probe has no figure; the same on every rank.
struct ProbeFailure {
  std::string reason;
};

/// The result of a probe's work is not what it should be.
struct WrongResult {
  std::string what;
};

/// Runs `step` on every rank and throws ProbeFailure on all when it failed on one. `ranks` may be null.
void run_in_step(Communicator* ranks, const std::function<void()>& step);

/// The largest of all ranks' values; `value` itself on a single rank.
double largest_of(Communicator* ranks, double value);

/// The functions own the operands they use.
struct Workload {
  std::function<void()> call;   // enqueues the work once, on the next operands
  std::function<void()> check;  // of the one call made before; the stream is done. Throws WrongResult
  std::function<void()>
      lead{};  // if any: enqueued before every call and not timed: what brings operands to where a step finds them
  bool blocks_host =
      false;  // a call may return only when it is done: the stream must not wait for what the host does next
};

Workload gemm_workload(const Probe& probe, ProbeBench& bench, Stream& stream);
Workload attention_workload(const Probe& probe, ProbeBench& bench, Stream& stream);
Workload attention_backward_workload(const Probe& probe, ProbeBench& bench, Stream& stream);
Workload memory_workload(const Probe& probe, ProbeBench& bench, Stream& stream);
Workload copy_workload(const Probe& probe, ProbeBench& bench, Stream& stream);
Workload collective_workload(const Probe& probe, ProbeBench& bench, Stream& stream);

// Families that are not one call again and again.
void run_dispatch(const Probe& probe, ProbeBench& bench, Sample& sample);
void run_overhead(const Probe& probe, ProbeBench& bench, Sample& sample);
void run_overlap(const Probe& probe, ProbeBench& bench, Sample& sample);

/// Makes, checks and times `make`'s workload in step; fills in the sample's figures.
using MakeWorkload = Workload (*)(const Probe&, ProbeBench&, Stream&);
SampledTime time_workload(MakeWorkload make, const Probe& probe, ProbeBench& bench);
void fill_in(Sample& sample, const SampledTime& time);

/// Times the workload's calls on a stream by device events, again and again as the bench's rule says. Throws
/// ProbeFailure.
SampledTime time_in_step(ProbeBench& bench, Stream& stream, const Workload& workload);

/// The same, for an own way to time `num_calls` on this rank.
SampledTime time_in_step(ProbeBench& bench, const std::function<Seconds(std::int64_t num_calls)>& time_calls);

/// Text of a caught exception, as the reason of a failure.
std::string reason_of_current_exception();

/// The pools of random operands that probes of this bench share.
OperandPools& pools_of(ProbeBench& bench);

/// Throws WrongResult, with the place, when `got` is further than `tolerance` from `wanted` (or no number).
void expect_near(double got, double wanted, double tolerance, const char* what, std::int64_t place);

}  // namespace gpuplan

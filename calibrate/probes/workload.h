// What a family makes of a probe: operands, one call of the work, and the check of its result. Each family is one file
// beside this one and a row in the table of runner.cpp.
#pragma once

#include <functional>

#include "calibrate/probes/lockstep.h"
#include "calibrate/probes/rotation.h"
#include "calibrate/runner.h"

namespace gpuplan {

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

/// The pools of random operands that probes of this bench share.
OperandPools& pools_of(ProbeBench& bench);

/// Throws WrongResult, with the place, when `got` is further than `tolerance` from `wanted` (or no number).
void expect_near(double got, double wanted, double tolerance, const char* what, std::int64_t place);

}  // namespace gpuplan

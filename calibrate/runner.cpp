#include "calibrate/session.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace gpuplan {
namespace {

template <MakeWorkload make>
void run_workload(const Probe& probe, ProbeBench& bench, Sample& sample) {
  fill_in(sample, time_workload(make, probe, bench));
}

/// Another rule while it lives.
class RuleFor {
 public:
  RuleFor(ProbeBench& bench, const SamplingRule& rule) : bench_(bench), before_(std::exchange(bench.rule, rule)) {}
  ~RuleFor() { bench_.rule = before_; }
  RuleFor(const RuleFor&) = delete;
  RuleFor& operator=(const RuleFor&) = delete;

 private:
  ProbeBench& bench_;
  SamplingRule before_;
};

/// Products and collectives: a fit takes dozens of them.
template <MakeWorkload make>
void run_one_of_many(const Probe& probe, ProbeBench& bench, Sample& sample) {
  const RuleFor coarse(bench, one_of_many(bench.rule));
  run_workload<make>(probe, bench, sample);
}

void run_attention(const Probe& probe, ProbeBench& bench, Sample& sample) {
  if (probe.attention == AttentionWork::Backward)
    run_workload<attention_backward_workload>(probe, bench, sample);
  else
    run_workload<attention_workload>(probe, bench, sample);
}

using RunFamily = void (*)(const Probe&, ProbeBench&, Sample&);
// In the order of ProbeFamily.
constexpr std::array<RunFamily, 8> kFamilies{
    run_one_of_many<gemm_workload>, run_attention, run_workload<memory_workload>,        run_dispatch,
    run_workload<copy_workload>,    run_overhead,  run_one_of_many<collective_workload>, run_overlap};

/// Tries the simplest operation of the device. Errors of a kernel stay with a CUDA context: after one, nothing works.
bool is_device_lost(Device& device) {
  try {
    using namespace literals;
    const auto stream = device.create_stream();
    const Buffer buffer = device.allocate(4_KiB);
    device.run(kernels::FillUniform{{buffer.data(), Dtype::F32}, buffer.size().count / 4, 0, 1, 0}, *stream);
    stream->synchronise();
    return false;
  } catch (const std::exception&) { return true; }
}

void run_family(const Probe& probe, ProbeBench& bench, Sample& sample) {
  kFamilies[std::size_t(probe.family)](probe, bench, sample);
  const bool is_time = probe.family != ProbeFamily::Overhead;
  if (!std::isfinite(sample.median) || (is_time && sample.median <= 0))
    throw ProbeFailure{"the device clock did not advance"};
}

}  // namespace

Sample run_probe(const Probe& probe, ProbeBench& bench, bool& is_lost) {
  Sample sample{.probe = probe};
  is_lost = false;
  try {
    run_family(probe, bench, sample);
  } catch (...) {
    sample = {.probe = probe, .failure = reason_of_current_exception()};
    bench.pools.reset();  // also when memory ran out: the next probe starts with all of it
    is_lost = is_device_lost(bench.device);
  }
  try {
    is_lost = largest_of(bench.ranks, is_lost ? 1 : 0) > 0;
  } catch (const std::exception& error) {
    if (sample.is_ok()) sample = {.probe = probe, .failure = error.what()};
    is_lost = true;
  }
  return sample;
}

}  // namespace gpuplan

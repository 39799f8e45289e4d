#include "calibrate/probes/workload.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

/// The text of rank `root`, on all ranks.
std::string share_text(Communicator& ranks, std::string text, int root) {
  std::uint64_t length = text.size();
  ranks.broadcast_host(std::as_writable_bytes(std::span(&length, 1)), root);
  text.resize(length);
  if (length > 0) ranks.broadcast_host(std::as_writable_bytes(std::span(text)), root);
  return text;
}

/// Short calls are led in by some that are not timed: caches, clocks and sleeping threads are as they are amid work by
/// then, and the host has stopped looking for the end and left its core to the device.
std::int64_t num_lead_calls(std::int64_t num_calls) {
  return num_calls > 1 ? std::min(ceil_div(num_calls, 4), kMostQueued) : 0;
}

/// Holds a stream until all is enqueued, so that the device's time counts and not the host's.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.run_on_host([is_open = is_open_] { is_open->wait(false); });
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    is_open_->store(true);
    is_open_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

std::string attempt(const std::function<void()>& step) {
  try {
    step();
    return {};
  } catch (...) { return reason_of_current_exception(); }
}

}  // namespace

std::string reason_of_current_exception() {
  try {
    throw;
  } catch (const ProbeFailure& failure) { return failure.reason; } catch (const WrongResult& wrong) {
    return "wrong result: " + wrong.what;
  } catch (const std::bad_alloc&) { return "out of memory on the host"; } catch (const BugError& error) {
    return std::string("bug: ") + error.what();
  } catch (const std::exception& error) {
    return *error.what() ? error.what() : "failed without a reason";
  } catch (...) { return "failed without a reason"; }
}

double largest_of(Communicator* ranks, double value) { return ranks ? ranks->max_host(value) : value; }

void run_in_step(Communicator* ranks, const std::function<void()>& step) {
  std::string reason = attempt(step);
  if (!ranks || ranks->size() == 1) {
    if (!reason.empty()) throw ProbeFailure{reason};
    return;
  }
  // The highest failed rank, counted from 1, tells its reason; one number is all that max_host can carry.
  const int failed = narrow<int>(std::lround(ranks->max_host(reason.empty() ? 0 : ranks->rank() + 1)));
  if (failed == 0) return;
  reason = share_text(*ranks, reason, failed - 1);
  throw ProbeFailure{"rank " + std::to_string(failed - 1) + ": " + reason};
}

SampledTime time_in_step(ProbeBench& bench, const std::function<Seconds(std::int64_t)>& time_calls) {
  return sample_time(bench.rule, [&](std::int64_t num_calls) {
    Seconds time;
    if (bench.ranks) bench.ranks->barrier();
    run_in_step(bench.ranks, [&] { time = time_calls(num_calls); });
    return Seconds{largest_of(bench.ranks, time.value)};
  });
}

namespace {

struct Timer {
  std::unique_ptr<Event> begin, end;
  explicit Timer(Device& device) : begin(device.create_event()), end(device.create_event()) {}
};

/// Calls that something leads are timed one by one, others together.
Seconds time_calls(Device& device, Stream& stream, const Workload& workload, std::int64_t num_calls) {
  std::vector<Timer> timers;
  Gate gate(stream);
  if (workload.blocks_host) gate.open();
  const auto lead = [&] {
    if (workload.lead) workload.lead();
  };
  for (std::int64_t i = num_lead_calls(num_calls); i > 0; --i) lead(), workload.call();
  for (std::int64_t i = 0; i < num_calls; ++i) {
    if (i == kMostQueued) gate.open();
    lead();
    if (i == 0 || workload.lead) device.record(*timers.emplace_back(device).begin, stream);
    workload.call();
    if (i + 1 == num_calls || workload.lead) device.record(*timers.back().end, stream);
  }
  gate.open();
  stream.synchronise();  // also tells what failed
  Seconds sum;
  for (const Timer& timer : timers) sum += device.elapsed(*timer.begin, *timer.end);
  return sum;
}

}  // namespace

SampledTime time_in_step(ProbeBench& bench, Stream& stream, const Workload& workload) {
  return time_in_step(bench,
                      [&](std::int64_t num_calls) { return time_calls(bench.device, stream, workload, num_calls); });
}

OperandPools& pools_of(ProbeBench& bench) {
  if (!bench.pools) bench.pools = std::make_shared<OperandPools>(bench.device);
  return *bench.pools;
}

void fill_in(Sample& sample, const SampledTime& time) {
  sample.median = time.statistics.median;
  sample.low = time.statistics.low;
  sample.high = time.statistics.high;
  sample.num_outliers = time.statistics.num_outliers;
  sample.num_runs = time.num_runs;
  sample.is_converged = time.is_converged;
}

SampledTime time_workload(MakeWorkload make, const Probe& probe, ProbeBench& bench) {
  Workload workload;
  const auto stream = bench.device.create_stream();  // goes first, and waits for work that uses the operands
  run_in_step(bench.ranks, [&] {
    workload = make(probe, bench, *stream);
    stream->synchronise();
  });
  run_in_step(bench.ranks, [&] {
    workload.call();
    stream->synchronise();
    workload.check();
  });
  return time_in_step(bench, *stream, workload);
}

void expect_near(double got, double wanted, double tolerance, const char* what, std::int64_t place) {
  if (std::abs(got - wanted) <= tolerance) return;  // false for NaN
  throw WrongResult{fmt::format("{} at element {} is {:.6g}, expected {:.6g}", what, place, got, wanted)};
}

}  // namespace gpuplan

// A whole run inside the test: every rank a thread with a CPU device of its own, its memory counted.
#pragma once

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "device/cpu_fixture.h"
#include "planner/memory.h"
#include "planner/phases.h"
#include "run/counting_device.h"
#include "run/guarded_device.h"
#include "run/native_fixture.h"
#include "run/thread_communicator.h"
#include "run/training.h"

namespace gpuplan::test {

struct RankOutcome {
  TrainingOutcome outcome;
  Bytes counted_peak, left;  // by the counting device: highest, and what was not given back
  Peak predicted;            // by the replay
};

struct ThreadRun {
  std::vector<RankOutcome> ranks;
  std::vector<double> losses() const {
    std::vector<double> out;
    for (const StepMetrics& m : ranks.front().outcome.steps) out.push_back(m.loss);
    return out;
  }
};

enum class RankMemoryKind : std::uint8_t { Counted, Guarded };  // whose device memory the host cannot touch

/// Trains `c`. Throws what the first rank that failed threw.
inline ThreadRun train_on_threads(const NativeCase& c, const TrainingOptions& options, DeviceBackend& backend,
                                  RankMemoryKind kind = RankMemoryKind::Counted) {
  const NativeJob job(request_of(c), strategy_of(c));
  const int size = int(job.strategy.mesh.world());
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  const auto meeting = std::make_shared<Meeting>(size, failed);
  ThreadRun run{.ranks = std::vector<RankOutcome>(std::size_t(size))};
  std::exception_ptr error;
  std::mutex mutex;
  const auto rank = [&](int r) {
    try {
      auto own = size > 1 ? std::make_unique<ThreadCommunicator>(meeting, r) : nullptr;
      if (kind == RankMemoryKind::Guarded) {
        GuardedDevice device(backend.open({.num_threads = 1}));
        const auto world = own ? std::make_unique<GuardedCommunicator>(std::move(own), device.memory()) : nullptr;
        run.ranks[std::size_t(r)].outcome =
            train(job, place_of(r, job.strategy.mesh), device, world.get(), options, {});
        return;
      }
      CountingDevice device(backend.open({.num_threads = 1}));
      const auto world = std::move(own);
      RankOutcome& mine = run.ranks[std::size_t(r)];
      mine.predicted = replay_phases(job, job.program())[job.program().class_of(r)];
      mine.outcome = train(job, place_of(r, job.strategy.mesh), device, world.get(), options, {});
      mine.counted_peak = device.count()->peak(), mine.left = device.count()->live();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      *failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < size; ++r) threads.emplace_back(rank, r);
  rank(0);
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
  return run;
}

inline TrainingOptions short_run(std::int64_t steps) {
  TrainingOptions o;
  o.is_random = true;
  o.max_steps = steps;
  o.learning_rate = 2e-3;
  o.seed = 3;
  return o;
}

/// The largest |a - b| / |b|; infinite when they are not as many, or one is not a number.
inline double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  return worst_error(a, b, 0);
}

}  // namespace gpuplan::test

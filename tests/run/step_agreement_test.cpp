// The first exchange of a step: ranks that are not in the same step of the same run compute nothing together.
#include <array>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "base/error.h"
#include "run/executor.h"
#include "run/files/error_text.h"
#include "run/thread_ranks.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Place {
  std::int64_t run, step;
};

/// Begins a step on two ranks, and gives the message of each; empty where the step was taken.
std::array<std::string, 2> begin_steps(const std::array<Place, 2>& places) {
  const NativeJob job(request_of({.strategy = "ddp", .ranks = 2}), strategy_of({.strategy = "ddp", .ranks = 2}));
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  const auto meeting = std::make_shared<Meeting>(2, failed);
  std::array<std::string, 2> said;
  const auto rank = [&](int r) {
    const auto device = cpu_backend().open({.num_threads = 1});
    ThreadCommunicator world(meeting, r);
    const Place& place = places[std::size_t(r)];
    Executor executor(job, place_of(r, job.strategy.mesh), *device, &world, place.run);
    executor.load(*random_weights(3));
    const auto tokens = std::size_t(job.recipe().micro_batch * job.recipe().seq_len);
    const MicroBatch batch{.ids = std::vector<std::int32_t>(tokens, 1), .labels = std::vector<std::int32_t>(tokens, 2)};
    said[std::size_t(r)] = error_text<EnvError>([&] { executor.step(place.step, {batch}, 1e-3, {}); });
  };
  std::thread second(rank, 1);
  rank(0);
  second.join();
  return said;
}

}  // namespace

TEST_CASE("a step: ranks of another run, or in another step, are told before anything is computed" * needs_cpu()) {
  CHECK(begin_steps({Place{7, 3}, Place{7, 3}}) == std::array<std::string, 2>{});
  const auto step = begin_steps({Place{7, 3}, Place{7, 4}});
  check_mentions(step[0], "step 3: rank 1 is in step 4 of this run");
  check_mentions(step[1], "step 4: rank 0 is in step 3 of this run");
  for (const std::string& said : begin_steps({Place{7, 3}, Place{8, 3}})) check_mentions(said, "of another run");
}

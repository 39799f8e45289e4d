// Asking a worker for facts: what it may do instead of answering.
#include <cstdlib>

#include <doctest/doctest.h>

#include "base/error.h"
#include "calibrate/worker_group.h"

using namespace gpuplan;

namespace {

/// What asking a fake worker ends with; it says `facts`, or nothing at all.
std::string failure(const char* facts, Seconds patience = Seconds{300}) {
  if (facts)
    setenv("FAKE_FACTS", facts, 1);
  else
    unsetenv("FAKE_FACTS");
  try {
    ask_worker(GPUPLAN_FAKE_WORKER, DeviceKind::Cpu, patience);
  } catch (const EnvError& error) { return error.what(); }
  return "none";
}

}  // namespace

TEST_CASE("facts of a worker are read between what libraries say") {
  const WorkerFacts facts{.device{.kind = DeviceKind::Cpu, .name = "a processor", .num_cores = 2}, .num_devices = 1};
  setenv("FAKE_FACTS", to_json_line(facts).c_str(), 1);
  CHECK(to_json_line(ask_worker(GPUPLAN_FAKE_WORKER, DeviceKind::Cpu)) == to_json_line(facts));
}

TEST_CASE("a worker that tells a reason, talks nonsense or is silent is a failure of the machine") {
  CHECK(failure("no JSON") == "no such device: 7");
  CHECK(failure("{\"nonsense\": 1}").starts_with("the worker process gave no facts: "));
  CHECK(failure(nullptr, Seconds{0.3}).starts_with("the worker process gave no facts (no answer)"));
}

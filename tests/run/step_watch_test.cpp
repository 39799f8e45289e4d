// When a run that goes on without taking steps is ended.
#include <doctest/doctest.h>

#include "run/heartbeat.h"

using namespace gpuplan;

TEST_CASE("no step for 10 minutes and 100 medians is told; slow steps, the first step and saving have longer") {
  StepWatch watch;
  double now = 0;
  CHECK(watch.look(0, {now}).empty());
  CHECK(watch.look(0, {now += 1e6}).empty());  // loading has no step yet
  CHECK(watch.look(1, {now += 2}).empty());
  CHECK(watch.look(1, {now += 1e6}).empty());  // nor has the first step a limit
  for (std::int64_t step = 2; step <= 8; ++step) CHECK(watch.look(step, {now += 2}).empty());
  CHECK(watch.look(8, {now + 599}).empty());
  CHECK(watch.look(8, {now + 601}).find("step 8 has not ended for 601 s") == 0);
  CHECK(watch.look(-8, {now += 2}).empty());
  CHECK(watch.look(-8, {now + 6 * 3600 - 1}).empty());
  CHECK(watch.look(-8, {now + 6 * 3600 + 1}).find("the checkpoint after step 8") == 0);

  StepWatch slow;  // of 60 s: 100 of them are more than 10 minutes
  now = 0;
  for (std::int64_t step = 1; step <= 5; ++step) CHECK(slow.look(step, {now += 60}).empty());
  CHECK(slow.look(5, {now + 5999}).empty());
  CHECK(!slow.look(5, {now + 6001}).empty());
}

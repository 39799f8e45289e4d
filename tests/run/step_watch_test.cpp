// When a run that goes on without taking steps is ended.
#include <doctest/doctest.h>

#include "run/heartbeat.h"

using namespace gpuplan;

TEST_CASE(
    "no step for 10 minutes and 100 medians is told; slow steps, the first step and saving have longer, not for ever") {
  StepWatch watch;
  double now = 0;
  CHECK(watch.look(0, {now}).empty());
  CHECK(watch.look(0, {now += 1e6}).empty());  // loading has no step yet
  CHECK(watch.look(1, {now += 2}).empty());
  CHECK(watch.look(1, {now + 6 * 3600 - 3}).empty());
  CHECK(watch.look(1, {now + 6 * 3600 + 1}) == "step 1 has not ended for 21601 s");
  for (std::int64_t step = 2; step <= 8; ++step) CHECK(watch.look(step, {now += 2}).empty());
  CHECK(watch.look(8, {now + 599}).empty());
  CHECK(watch.look(8, {now + 601}).find("step 8 has not ended for 601 s") == 0);
  CHECK(watch.look(-8, {now += 2}).empty());
  CHECK(watch.look(-8, {now + 6 * 3600 - 1}).empty());
  CHECK(watch.look(-8, {now + 6 * 3600 + 1}).find("the checkpoint after step 8") == 0);

  StepWatch hasty({5});
  now = 0;
  for (std::int64_t step = 1; step <= 3; ++step) CHECK(hasty.look(step, {now += 0.01}).empty());
  CHECK(hasty.look(3, {now + 4}).empty());
  CHECK(hasty.look(3, {now + 6}) == "step 3 has not ended for 6 s, and the steps before took 10.0 ms");

  StepWatch slow;  // of 60 s: 100 of them are more than 10 minutes
  now = 0;
  for (std::int64_t step = 1; step <= 5; ++step) CHECK(slow.look(step, {now += 60}).empty());
  CHECK(slow.look(5, {now + 5999}).empty());
  CHECK(!slow.look(5, {now + 6001}).empty());
}

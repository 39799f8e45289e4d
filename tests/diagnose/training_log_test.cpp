// Logs as trainers write them.
#include "diagnose/training_log.h"

#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

TrainingLog read(const std::string& text) {
  std::istringstream in(text);
  return read_training_log(in, "train.log");
}

}  // namespace

TEST_CASE("log: the bar that ran longest counts, without its first steps") {
  std::string text = "Loading checkpoint shards: 100%|##| 4/4 [00:20<00:00,  5.00s/it]\n";
  for (int step = 1; step <= 50; ++step)
    text += fmt::format("\r{}%|#| {}/50 [{:02}:{:02}<10:00,  {:.2f}s/it]", 2 * step, step, 3 * step / 60, 3 * step % 60,
                        step < 3 ? 30.0 : 3.0);
  text += "\n{'loss': 1.0, 'epoch': 1}\n{'train_runtime': 999, 'train_steps_per_second': 0.05}\n";
  const TrainingLog log = read(text);
  REQUIRE(log.step);
  CHECK(log.step->value == doctest::Approx(3));
  CHECK(log.source == "the progress bar of 50 steps");
}

TEST_CASE("log: steps faster than a second, and a sum at the end") {
  CHECK(read(" 10%|# | 12/400 [00:30<16:10,  2.50it/s]\n").step->value == doctest::Approx(0.4));
  CHECK(read("{'train_runtime': 100, 'train_steps_per_second': 0.5}\n").step->value == doctest::Approx(2));
}

TEST_CASE("log: figures of trainers, in their units") {
  const TrainingLog megatron = read(
      " iteration       10/     500 | consumed samples: 640 | elapsed time per iteration (ms): 13105.3 | lm loss: "
      "1.1\n");
  CHECK(megatron.step->value == doctest::Approx(13.1053));
  const TrainingLog tune = read(
      "Step 1 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_active:20 peak_memory_alloc:19.5 "
      "peak_memory_reserved:22.25\n");
  CHECK(*tune.tokens_per_gpu == doctest::Approx(1234.5));
  CHECK(*tune.allocated == Bytes{std::int64_t(19.5 * 0x1p30)});
  CHECK(*tune.reserved == Bytes{std::int64_t(22.25 * 0x1p30)});
  const TrainingLog swift = read("{\"loss\": 3.1, \"memory(GiB)\": 2.5, \"train_speed(s/it)\": 2.854934}\n");
  CHECK(swift.step->value == doctest::Approx(2.854934));
  CHECK(*swift.reserved == Bytes{std::int64_t(2.5 * 0x1p30)});
}

TEST_CASE("log: one that says no figure is refused") {
  CHECK_THROWS_AS(read("starting\ndone\n"), InputError);
  CHECK_THROWS_AS(read(""), InputError);
}

}  // namespace gpuplan

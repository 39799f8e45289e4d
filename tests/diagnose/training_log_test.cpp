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

TEST_CASE("log: mean lengths of prompts and answers stand beside the time of a step") {
  const TrainingLog verl = read(
      "step:1 - response_length/mean:250.5 - response_length/max:1024.0 - prompt_length/mean:100.0 - "
      "timing_s/gen:30.0 - timing_s/step:95.0\n");
  CHECK(*verl.completion == doctest::Approx(250.5));
  CHECK(*verl.prompt == doctest::Approx(100));
  CHECK(verl.step->value == doctest::Approx(95));
  CHECK(verl.num_figures == 1);
  const TrainingLog trl = read("{'completions/mean_length': 312.0, 'step_time': 4.0}\n 1/9 [00:04<00:32, 4.00s/it]\n");
  CHECK(*trl.completion == doctest::Approx(312));
}

TEST_CASE("log: DeepSpeed's lines say samples of all GPUs and torch's peak, those of its pipelines the step") {
  const TrainingLog engine = read(
      "[2026-11-20 10:00:01,123] [INFO] [timer.py:264:stop] epoch=0/micro_step=20/global_step=10, "
      "RunningAvgSamplesPerSec=7.1, CurrSamplesPerSec=8.25, MemAllocated=14.96GB, MaxMemAllocated=21.5GB\n");
  CHECK(*engine.samples_per_second == doctest::Approx(8.25));
  CHECK(*engine.allocated == Bytes{std::int64_t(21.5 * 0x1p30)});
  CHECK(read("steps: 10 loss: 2.1345 iter time (s): 1.250 samples/sec: 25.600\n").step->value == doctest::Approx(1.25));
  CHECK(*read("MA 14.96 GB         Max_MA 15.5 GB         CA 17.2 GB         Max_CA 17 GB\n").allocated ==
        Bytes{std::int64_t(15.5 * 0x1p30)});
}

TEST_CASE("log: axolotl's lines say memory; its tokens are those with a label, so that the bar says the step") {
  const TrainingLog log = read(
      "{'loss': '1.21', 'grad_norm': '0.5', 'learning_rate': '0.0002', 'ppl': '3.35', 'memory/max_active (GiB)': "
      "'18.2', 'memory/max_allocated (GiB)': '18.25', 'memory/device_reserved (GiB)': '20.5', "
      "'tokens/train_per_sec_per_gpu': '412.3', 'tokens/trainable': 8246, 'tokens/total': 65536, 'epoch': '0.1'}\n"
      " 10%|#         | 12/120 [01:00<09:00,  5.00s/it]\n");
  CHECK_FALSE(log.tokens_per_gpu);
  CHECK(log.step->value == doctest::Approx(5));
  CHECK(*log.allocated == Bytes{std::int64_t(18.25 * 0x1p30)});
  CHECK(*log.reserved == Bytes{std::int64_t(20.5 * 0x1p30)});
}

TEST_CASE("log: ms-swift's mean since the start stands behind its progress bar, of several lines the last counts") {
  const std::string lines =
      "{'loss': 1.47, 'global_step/max_steps': '1/94', 'elapsed_time': '12s', 'memory(GiB)': 16.5, "
      "'train_speed(s/it)': 12.0}\n"
      "{'loss': 1.21, 'global_step/max_steps': '20/94', 'elapsed_time': '50s', 'memory(GiB)': 17.5, "
      "'train_speed(s/it)': 2.5}\n";
  CHECK(read(lines).step->value == doctest::Approx(2.5));
  CHECK(*read(lines).reserved == Bytes{std::int64_t(17.5 * 0x1p30)});
  CHECK(read(lines + "Train:  21%|##  | 20/94 [00:50<02:28,  2.00s/it]\n").step->value == doctest::Approx(2));
}

TEST_CASE("log: LLaMA-Factory counts steps and time; what lies before the first line is not of a step") {
  const TrainingLog log = read(
      R"({"current_steps": 10, "total_steps": 500, "loss": 1.2, "lr": 1e-4, "elapsed_time": "0:01:00", "remaining_time": "0:49:00", "throughput": 1234.5})"
      "\n"
      R"({"current_steps": 110, "total_steps": 500, "loss": 1.1, "elapsed_time": "0:04:20", "vram_reserved": 21.5})"
      "\n");
  CHECK(log.step->value == doctest::Approx(2));  // 200 s of 100 steps
  CHECK_FALSE(log.tokens_per_second);
  CHECK(*log.reserved == Bytes{std::int64_t(21.5 * 0x1p30)});
}

TEST_CASE("log: torchtitan says tokens of a GPU; Megatron its memory in MiB") {
  const TrainingLog titan = read(
      "[titan] \x1b[31mstep: 10  \x1b[32mloss:  4.3  \x1b[36mmemory: 62.25GiB(78.1%)  \x1b[34mtps: 5,762  "
      "\x1b[36mtflops: 333\n");
  CHECK(*titan.tokens_per_gpu == doctest::Approx(5762));
  CHECK(*titan.reserved == Bytes{std::int64_t(62.25 * 0x1p30)});
  CHECK_FALSE(read("memory: 80 of the machine\n 1/9 [00:30<16:10,  2.50it/s]\n").reserved);
  const TrainingLog megatron = read(
      "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1000.00 | max allocated: 2048.00 | reserved: 3000.00 | "
      "max reserved: 4096.00\n elapsed time per iteration (ms): 500.0 |\n");
  CHECK(*megatron.allocated == Bytes{2048 * (std::int64_t(1) << 20)});
  CHECK(*megatron.reserved == Bytes{4096 * (std::int64_t(1) << 20)});
}

TEST_CASE("log: the longest bar says how many steps are trained, and axolotl's memory was spelt otherwise before") {
  const TrainingLog log = read(
      "100%|##| 3/3 [00:01<00:00, 2.00it/s]\n{'loss': 1.8, 'memory/max_mem_allocated(gib)': 14.5, "
      "'memory/device_mem_reserved(gib)': 16.0}\n  5%|#| 10/200 [00:30<09:30,  3.00s/it]\n");
  CHECK(log.num_steps == 200);
  CHECK(*log.allocated == Bytes{std::int64_t(14.5 * 0x1p30)});
  CHECK(*log.reserved == Bytes{std::int64_t(16.0 * 0x1p30)});
}

TEST_CASE("log: one that says no figure is refused") {
  CHECK_THROWS_AS(read("starting\ndone\n"), InputError);
  CHECK_THROWS_AS(read(""), InputError);
}

}  // namespace gpuplan

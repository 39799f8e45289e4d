// kill -9 at random moments: nothing is damaged, nothing is done twice, and the losses are those of a run that was
// never killed.
#include <csignal>
#include <random>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

std::vector<std::int64_t> steps_of(const std::vector<nlohmann::json>& lines) {
  std::vector<std::int64_t> out;
  for (const auto& line : lines) out.push_back(line.at("step").get<std::int64_t>());
  return out;
}

/// Kills runs of `flags` until `num_kills` of them were still running, resuming each time, and to the end after every
/// few.
void kill_and_resume(const std::string& flags, int num_kills, std::uint32_t seed) {
  const SmallRun r;
  std::mt19937 draw(seed);
  const Finished whole = r.run(flags + " --metrics " + r.at("whole.jsonl"));
  REQUIRE(whole.code == 0);
  const auto expected = r.losses("whole.jsonl");
  const std::string resumed = flags + " --save-every 2 --keep 2 --output " + r.at("out") + " --resume";
  int kills = 0;
  double longest_wait = 0.9 * whole.seconds;  // shrinks where runs end first: the first one may have met a busy machine
  for (int tries = 0; kills < num_kills && tries < 10 * num_kills; ++tries) {
    Process run(r.command(resumed), r.path());
    sleep_seconds(longest_wait * double(draw() % 1000) / 1000);
    const bool was_running = run.is_running();
    if (!was_running) longest_wait *= 0.8;
    run.signal(SIGKILL);
    if (!was_running) CHECK(run.wait().code == 0);
    kills += was_running;
    run.wait();
    for (int i = 0; flags.find("--gpus") != std::string::npos && i < 1000 && run.num_processes() > 0; ++i)
      sleep_seconds(0.05);
    CHECK(run.num_processes() == 0);
    if (was_running && tries % 4 != 3 && kills < num_kills) continue;
    const Finished last = r.run(resumed);
    CAPTURE(last.err);
    CHECK(last.code == 0);
    CHECK(r.losses() == expected);
    CHECK(steps_of(r.metrics()) == steps_of(r.metrics("whole.jsonl")));
    std::filesystem::remove_all(r.at("out"));
  }
  CHECK(kills == num_kills);
}

}  // namespace

TEST_CASE("resume: 40 kills of a single rank") { kill_and_resume("--full --max-steps 24 --micro-batch 2", 40, 1); }
TEST_CASE("resume: 5 kills of two ranks, replicated") {
  kill_and_resume("--full --gpus 2xcpu --strategy ddp --max-steps 24", 5, 2);
}
TEST_CASE("resume: 5 kills of two ranks, sharded") {
  kill_and_resume("--lora=r=3,base=fp32 --gpus 2xcpu --strategy fsdp --max-steps 24", 5, 3);
}

TEST_CASE("resume: what the checkpoint was not written with is refused by name") {
  const SmallRun r;
  const std::string out = " --save-every 2 --output " + r.at("out");
  CHECK(r.run("--full --max-steps 5" + out).code == 0);
  const Finished other = r.run("--full --max-steps 5 --micro-batch 2 --resume" + out);
  CHECK(other.code == 2);
  check_has(other.err, "micro_batch");
  CHECK(r.run("--lora=r=3,base=fp32 --max-steps 5 --save-every 2 --output " + r.at("adapter")).code == 0);
  const Finished alpha = r.run("--lora=r=3,alpha=4,base=fp32 --max-steps 5 --resume --output " + r.at("adapter"));
  CHECK(alpha.code == 2);
  check_has(alpha.err, "lora_alpha");
  const Finished nowhere = r.run("--full --resume");
  CHECK(nowhere.code == 2);
  check_has(nowhere.err, "--output");
}

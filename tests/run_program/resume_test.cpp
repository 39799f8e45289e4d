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

TEST_CASE("resume: weights and data are known by what they hold, wherever they lie") {
  const SmallRun r;
  REQUIRE(r.run("--full --max-steps 1 --output " + r.at("base")).code == 0);
  const std::string flags = "--lora=r=2,base=fp32 --init none --max-steps 6 --save-every 2 --output " + r.at("out");
  const auto resumed = [&](const std::string& model, const std::string& data) {
    std::filesystem::remove_all(r.at("out/checkpoint-4"));
    return r.run(flags + " --resume --model " + model + " --data " + data);
  };
  REQUIRE(r.run(flags + " --model " + r.at("base") + " --data " + r.at("tokens.bin")).code == 0);
  std::filesystem::rename(r.at("base"), r.at("moved"));
  const Finished moved = resumed(r.at("moved") + "/", r.at("model/../tokens.bin"));
  CHECK_MESSAGE(moved.code == 0, moved.err);

  std::string tokens = r.content("tokens.bin");
  std::swap(tokens[0], tokens[2]);  // the same size
  r.scratch().write("other.bin", tokens);
  const Finished other_data = resumed(r.at("moved"), r.at("other.bin"));
  CHECK(other_data.code == 2);
  check_has(other_data.err, "checkpoint-2 was written with another data");

  std::string weights = r.content("moved/model.safetensors");
  weights.back() = char(weights.back() ^ 1);
  r.scratch().write("moved/model.safetensors", weights);
  const Finished other_weights = resumed(r.at("moved"), r.at("tokens.bin"));
  CHECK(other_weights.code == 2);
  check_has(other_weights.err, "another weights");
}

TEST_CASE("resume: a changed setting is refused unless it is named, and then it stays on record") {
  const SmallRun r;
  const std::string flags = "--full --max-steps 6 --save-every 2 --output " + r.at("out");
  REQUIRE(r.run(flags).code == 0);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"lr", "1e-3"},
                                                                                    {"schedule", "cosine"},
                                                                                    {"warmup", "3"},
                                                                                    {"weight-decay", "0.1"},
                                                                                    {"clip", "0.5"},
                                                                                    {"max-steps", "8"}}) {
    CAPTURE(name);
    const std::string changed = flags + " --resume --" + name + " " + value;
    const Finished refused = r.run(changed);
    CHECK(refused.code == 2);
    check_has(refused.err, "--allow-changed " + name);
    const Finished other = r.run(changed + " --allow-changed " + (name == "lr" ? "clip" : "lr"));
    CHECK(other.code == 2);
  }
  const Finished allowed = r.run(flags + " --resume --lr 1e-3 --clip 0.5 --save-every 5 --allow-changed lr,clip");
  CHECK_MESSAGE(allowed.code == 0, allowed.err);
  check_has(allowed.out, "from step 5 on, --lr was 0.002 and is now 0.001");
  const auto facts = nlohmann::json::parse(r.content("out/checkpoint-5/trainer_state.json"));
  CHECK(facts.at("changes").size() == 2);
  CHECK(facts.at("changes")[0] == nlohmann::json{{"after_step", 4}, {"setting", "lr"}, {"was", 0.002}, {"is", 0.001}});
  CHECK(r.run(flags + " --resume --lr 1e-3 --allow-changed lr,batch").code == 2);
}

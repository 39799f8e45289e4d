// What goes wrong on real machines: ranks die or hang, people press Ctrl-C, disks are full, data is not what it says.
#include <csignal>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/mount.h>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

constexpr const char* kLong = "--full --max-steps 1000000";

/// Until the run has taken a step.
bool has_begun(const SmallRun& r) {
  for (const double until = now() + kPatience; now() < until; sleep_seconds(0.02))
    if (std::ifstream file(r.at("metrics.jsonl")); file.peek() != std::ifstream::traits_type::eof()) return true;
  return false;
}

}  // namespace

TEST_CASE("failure: a rank that is killed ends the run with exit code 3, and it is said") {
  const SmallRun r;
  Process run(r.command(std::string(kLong) + kTwoRanks), r.path());
  REQUIRE(has_begun(r));
  const pid_t rank = run.rank(1);
  REQUIRE(rank != 0);
  kill(rank, SIGKILL);
  const Finished f = run.wait();
  CHECK(f.code == 3);
  check_has(f.err, "rank 1 (process ");
  check_has(f.err, "was killed by signal 9");
  CHECK(run.num_processes() == 0);
}

TEST_CASE("failure: a rank that hangs is named and the others are stopped") {
  const SmallRun r;
  Process run(r.command(std::string(kLong) + kTwoRanks), r.path());
  REQUIRE(has_begun(r));
  const pid_t rank = run.rank(1);
  REQUIRE(rank != 0);
  kill(rank, SIGSTOP);
  const Finished f = run.wait();
  CHECK(f.code == 3);
  const std::string said = "rank 1 (process " + std::to_string(rank) + ") has not answered for ";
  check_has(f.err, said);
  CHECK(std::atoi(f.err.substr(std::min(f.err.size(), f.err.find(said) + said.size())).c_str()) >= 10);  // seconds
  CHECK(run.num_processes() == 0);
}

TEST_CASE("failure: ranks that live and take no step end, with the step, and a patience that is no number is refused") {
  const SmallRun r;
  std::filesystem::create_directory(r.at("disk"));
  const std::string flags =
      std::string("--full --max-steps 40 --save-every 20 --output out --metrics ") + r.at("disk/metrics.jsonl");
  constexpr int kCallsOfSteps = 12;  // those that open the file, and a few steps' lines
  ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                             {"GPUPLAN_FAULT_FOLDER", r.at("disk")},
                             {"GPUPLAN_FAULT_AT", std::to_string(kCallsOfSteps)},
                             {"GPUPLAN_FAULT_ERRNO", "-3"},
                             {"GPUPLAN_FAULT_RANK", "0"},
                             {"GPUPLAN_STEP_PATIENCE", "2"}});
  Process run(r.command(flags + kTwoRanks), r.path());
  const Finished f = run.wait();
  CHECK(f.code == 3);
  check_has(f.err, "has not ended for");
  check_has(f.err, "and the steps before took");
  CHECK(run.num_processes() == 0);

  const ScopedVariables wrong(std::map<std::string, std::string>{{"GPUPLAN_STEP_PATIENCE", "soon"}});
  const Finished refused = r.run(std::string("--full --max-steps 2") + kTwoRanks);
  CHECK(refused.code == 2);
  check_has(refused.err, "GPUPLAN_STEP_PATIENCE");
}

TEST_CASE("failure: what only one rank meets ends all of them") {
  const SmallRun r;
  r.scratch().write("taken", "a file where a folder is wanted");  // rank 0 alone writes the model
  const Finished f = r.run(std::string("--full --max-steps 2 --output ") + r.at("taken") + kTwoRanks);
  CHECK(f.code == 3);
  check_has(f.err, "taken");
}

TEST_CASE("failure: a checkpoint's folder that cannot be made ends sharded ranks too, whose export is collective") {
  const SmallRun r;
  r.scratch().write("taken", "a file where a folder is wanted");
  const Finished f =
      r.run("--full --max-steps 4 --save-every 2 --gpus 2xcpu --strategy fsdp --output " + r.at("taken"));
  CHECK(f.code == 3);
  check_has(f.err, "taken");
}

TEST_CASE("failure: a folder that takes nothing, or that another run writes to, ends a run before its first step") {
  const SmallRun r;
  r.scratch().write("taken", "a file where a folder is wanted");
  for (const std::string ranks : {"", kTwoRanks}) {
    const Finished f = r.run("--full --max-steps 1000000 --output " + r.at("taken/out") + ranks);
    CHECK(f.code == 3);
    check_has(f.err, "cannot be made");
    CHECK(!std::filesystem::exists(r.at("metrics.jsonl")));
  }
  const Finished trace = r.run("--full --max-steps 1000000 --trace " + r.at("none/trace.json"));
  CHECK(trace.code == 3);
  check_has(trace.err, "none/trace.json: cannot be written");

  const std::string flags = std::string(kLong) + " --output " + r.at("out");
  Process first(r.command(flags), r.path());
  REQUIRE(has_begun(r));
  const Finished second = r.run(flags + " --metrics " + r.at("second.jsonl"));
  CHECK(second.code == 3);
  check_has(second.err, "writes to this folder");
  CHECK(!std::filesystem::exists(r.at("second.jsonl")));
  first.signal(SIGKILL);
  first.wait();
  const Finished after = r.run("--full --max-steps 2 --output " + r.at("out"));
  CHECK_MESSAGE(after.code == 0, after.err);
  CHECK(!std::filesystem::exists(r.at("out/.gpuplan.lock")));
}

TEST_CASE("failure: what all ranks meet is said once") {
  const SmallRun r;
  const Finished f = r.run(std::string("--full --lr 1e18 --clip 0") + kTwoRanks);
  CHECK(f.code == 3);
  check_has(f.err, "diverged");
  CHECK_MESSAGE(f.err.find("diverged") == f.err.rfind("diverged"), f.err);
}

TEST_CASE("failure: a second Ctrl-C ends at once") {
  const SmallRun r;
  Process run(r.command(kLong), r.path());
  REQUIRE(has_begun(r));
  run.signal(SIGSTOP);  // both are there when it goes on: two of one number would be one
  run.signal(SIGINT);
  run.signal(SIGTERM);
  run.signal(SIGCONT);
  const int code = run.wait().code;
  CHECK((code == 128 + SIGINT || code == 128 + SIGTERM));
}

TEST_CASE("failure: checkpoints of another run or program are neither mixed with nor removed") {
  const SmallRun r;
  const std::string flags = "--full --max-steps 4 --save-every 2 --output " + r.at("out");
  CHECK(r.run(flags).code == 0);
  const Finished again = r.run(flags + " --keep 1");
  CHECK(again.code == 2);
  check_has(again.err, "--resume");
  CHECK(std::filesystem::exists(r.at("out/checkpoint-2")));
  r.scratch().write("hf/checkpoint-2/trainer_state.json", "{}");
  const Finished foreign = r.run("--full --max-steps 4 --save-every 2 --output " + r.at("hf"));
  CHECK(foreign.code == 2);
  check_has(foreign.err, "another program");
}

TEST_CASE("failure: what asks a run to end, or a rank of it, saves, and --resume goes on from there") {
  struct Stop {
    int signal;
    std::string ranks;
    bool is_to_rank = false;
  };
  for (const auto& [signal, ranks, is_to_rank] :
       {Stop{SIGINT, ""}, Stop{SIGHUP, ""}, Stop{SIGUSR2, ""}, Stop{SIGINT, kTwoRanks}, Stop{SIGTERM, kTwoRanks},
        Stop{SIGTERM, kTwoRanks, true}, Stop{SIGHUP, kTwoRanks, true}, Stop{SIGUSR1, kTwoRanks},
        Stop{SIGUSR2, " --gpus 3xcpu --strategy ddp"}}) {
    CAPTURE(signal);
    CAPTURE(ranks);
    const SmallRun r;
    const std::string flags = "--full" + ranks + " --output " + r.at("out");
    Process run(r.command(flags + " --schedule constant --max-steps 1000000"), r.path());
    REQUIRE(has_begun(r));
    if (is_to_rank)
      kill(run.rank(1), signal);
    else
      run.signal(signal);
    const Finished f = run.wait();
    CAPTURE(f.err);
    CHECK(f.code == 3);
    const auto done = std::int64_t(r.metrics().size());
    CHECK(std::filesystem::exists(r.at("out/checkpoint-" + std::to_string(done))));
    const Finished rest = r.run(flags + " --schedule constant --resume --max-steps " + std::to_string(done + 3));
    CHECK(rest.code == 0);
    CHECK(std::int64_t(r.metrics().size()) == done + 3);
  }
}

TEST_CASE(
    "failure: what asks a run without --output to end ends it after its step, and a second one ends ranks at once") {
  for (const std::string ranks : {"", kTwoRanks}) {
    CAPTURE(ranks);
    const SmallRun r;
    Process run(r.command(kLong + ranks), r.path());
    REQUIRE(has_begun(r));
    run.signal(SIGHUP);
    const Finished f = run.wait();
    CAPTURE(f.err);
    CHECK(f.code == 3);
    CHECK(r.content("metrics.jsonl").ends_with("}\n"));
    for (const auto& item : std::filesystem::directory_iterator(r.path()))
      CHECK(item.path().filename().string().find("checkpoint") == std::string::npos);
  }
  const SmallRun r;
  Process run(r.command(std::string(kLong) + kTwoRanks + " --output " + r.at("out")), r.path());
  REQUIRE(has_begun(r));
  kill(run.rank(1), SIGSTOP);  // so that the step that is to be saved does not end
  run.signal(SIGINT);
  sleep_seconds(0.3);  // two signals of one number that arrive together are one
  run.signal(SIGINT);
  const Finished f = run.wait();
  CAPTURE(f.err);
  CHECK(f.code == 3);
  CHECK(f.err.find("has not answered") == std::string::npos);  // it did not wait for the hanging rank to be noticed
  CHECK(run.num_processes() == 0);
}

TEST_CASE("failure: a full disk is told, and nothing half-written stays") {
  const SmallRun r;
  const std::string disk = r.at("disk");
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
    MESSAGE("skipped: a small disk cannot be made here");
    return;
  }
  const Finished f = r.run("--full --max-steps 20 --save-every 2 --output " + disk + "/out");
  CAPTURE(f.err);
  CHECK(f.code == 3);
  check_has(f.err, "space");
  std::error_code gone;  // the folder that the run made, where nothing is in it
  for (const auto& entry : std::filesystem::directory_iterator(disk + "/out", gone))
    CHECK_MESSAGE(std::filesystem::exists(entry.path() / "trainer_state.json"), entry.path().string());
  umount(disk.c_str());
}

TEST_CASE("failure: a limit on file sizes, and a file that is cut off while it is read, are told") {
  const SmallRun r;
  std::vector<std::string> limited{"/bin/bash", "-c", "ulimit -f 20; exec \"$@\"", "bash"};
  for (const std::string& word : r.command("--full --max-steps 4 --save-every 2 --output " + r.at("out")))
    limited.push_back(word);
  const Finished small = Process(limited, r.path()).wait();
  CHECK(small.code == 3);
  check_has(small.err, "File too large");

  const SmallRun other;
  Process run(other.command(kLong), other.path());
  REQUIRE(has_begun(other));
  std::filesystem::resize_file(other.at("tokens.bin"), 0);
  const Finished cut = run.wait();
  CHECK(cut.code == 3);
  check_has(cut.err, "tokens.bin: cannot be read any more");
}

TEST_CASE("failure: a loss that is no number ends the run with its step") {
  const SmallRun r;
  for (const std::string ranks : {"", kTwoRanks}) {
    const Finished f = r.run("--full --lr 1e18 --clip 0 --save-every 1 --output " + r.at("out") + ranks);
    CHECK(f.code == 3);
    check_has(f.err, "step 2");
    check_has(f.err, "diverged");
    CHECK(std::filesystem::exists(r.at("out/checkpoint-1")));  // from before
    CHECK(!std::filesystem::exists(r.at("out/checkpoint-2")));
    CHECK(!std::filesystem::exists(r.at("out/model.safetensors")));
    std::filesystem::remove_all(r.at("out"));
  }
}

TEST_CASE("failure: data and flags that are wrong are named, with exit code 2") {
  const SmallRun r;
  r.scratch().write("bad.jsonl", "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[1,\n");
  r.scratch().write("large.jsonl", "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[1,2,999]}\n");
  r.scratch().write("short.bin", "ab");
  struct Row {
    std::string flags, says, and_says;
  };
  for (const Row& row :
       {Row{"--data " + r.at("bad.jsonl"), "bad.jsonl", "2"},
        Row{"--data " + r.at("large.jsonl"), "large.jsonl", "999"},
        Row{"--data " + r.at("short.bin"), "short.bin", "token"}, Row{"--data " + r.at("none.bin"), "none.bin", ""},
        Row{"--init none", "model", "safetensors"}, Row{"--adapter " + r.at("none"), "--adapter", "--lora"},
        Row{"--lr fast", "--lr", "fast"}, Row{"--token-dtype uint8", "--token-dtype", "uint8"},
        Row{"--optimizer lion", "lion", "accelerate"}}) {
    const Finished f = r.run("--full " + row.flags);
    CAPTURE(row.flags);
    CHECK(f.code == 2);
    check_has(f.err, row.says);
    check_has(f.err, row.and_says);
  }
  const Finished two = r.run("--full --data " + r.at("large.jsonl") + kTwoRanks);
  CHECK(two.code == 2);
  check_has(two.err, "large.jsonl");
}

TEST_CASE("failure: an instruction set that no kernel is compiled for is refused before anything is written") {
  const SmallRun r;
  std::vector<std::string> words{"env", "GPUPLAN_CPU_VARIANT=avx3"};
  for (const std::string& word : r.command("--full --output " + r.at("out"))) words.push_back(word);
  const Finished f = Process(words, r.path()).wait();
  CHECK(f.code == 2);
  check_has(f.err, "GPUPLAN_CPU_VARIANT: unknown instruction set 'avx3'");
  CHECK(!std::filesystem::exists(r.at("metrics.jsonl")));
}

TEST_CASE("failure: a launcher that started another number of ranks than the plan has is told") {
  const SmallRun r;
  const Finished f = r.run_ranks(std::vector<std::string>(3, std::string("--full --max-steps 2") + kTwoRanks));
  CHECK(f.code == 2);
  check_has(f.err, "2 ranks");
  check_has(f.err, "started 3");
}

TEST_CASE("failure: ranks that were started with different flags do not train together") {
  const SmallRun r;
  const std::string ddp = std::string("--full --max-steps 2") + kTwoRanks, fsdp = ddp + " --strategy fsdp",
                    saves = ddp + " --output out --save-every 1";
  for (const auto& [flags, other] :
       std::vector<std::pair<std::string, std::string>>{{ddp, " --precision bf16-mixed"},
                                                        {ddp, " --max-steps 3"},
                                                        {ddp + " --checkpointing every=2", " --checkpointing every=3"},
                                                        {fsdp, " --no-reshard"},
                                                        {saves, " --keep 1"}}) {
    const Finished f = r.run_ranks({flags, flags + other});
    CAPTURE(other);
    CHECK(f.code == 2);
    check_has(f.err, "rank 1: sees another ");
  }
  // tokens that only the files tell apart
  r.scratch().write("rows.jsonl", "{\"input_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}\n");
  r.scratch().write("other.jsonl", "{\"input_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,21]}\n");
  const std::string flags = std::string("--full --max-steps 2 --seq-len 8") + kTwoRanks + " --data ";
  const Finished f = r.run_ranks({flags + r.at("rows.jsonl"), flags + r.at("other.jsonl")});
  CHECK(f.code == 2);
  check_has(f.err, "sees another ");
}

// A run never writes over what it reads or another run writes, says where it cannot write, and leaves nothing in shared
// memory.
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

namespace fs = std::filesystem;

constexpr const char* kEndless = "--full --max-steps 1000000";

Finished run_in_shell(const SmallRun& r, const std::string& script, const std::string& flags) {
  std::vector<std::string> words{"/bin/sh", "-c", script, "sh"};
  for (const std::string& word : r.command(flags)) words.push_back(word);
  return Process(words, r.path()).wait();
}

Finished gpuplan_with(const SmallRun& r, const std::string& arguments) {
  std::vector<std::string> words{GPUPLAN_PROGRAM};
  std::istringstream given(arguments);
  for (std::string word; given >> word;) words.push_back(word);
  return Process(words, r.path()).wait();
}

void wait_for_file(const std::string& file) {
  for (const double until = now() + kPatience; now() < until && !fs::exists(file);) sleep_seconds(0.02);
}

}  // namespace

TEST_CASE("outputs: a file or folder that a run reads or writes is no other output of it, by any name") {
  const SmallRun r;
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += "{\"input_ids\":[1,2,3]}\n";
  r.scratch().write("t.jsonl", rows);
  r.scratch().write("old.json", "{}");
  r.scratch().write("model/model.safetensors", "weights");
  fs::create_symlink("t.jsonl", r.at("link"));
  fs::create_hard_link(r.at("t.jsonl"), r.at("hard"));
  fs::create_symlink("model", r.at("model_link"));
  fs::create_symlink("new.json", r.at("dangling"));
  const std::string data = "--full --data " + r.at("t.jsonl");
  for (const std::string& flags :
       {data + " --trace " + r.at("t.jsonl"), data + " --metrics " + r.at("model/../t.jsonl"),
        data + " --trace " + r.at("link"), data + " --metrics " + r.at("hard"),
        data + " --trace " + r.at("old.json") + " --metrics " + r.at("old.json"),
        data + " --trace " + r.at("new.json") + " --metrics " + r.at("model/../new.json"),
        data + " --trace " + r.at("dangling") + " --metrics " + r.at("new.json"), data + " --output " + r.at("model"),
        data + " --output " + r.at("model_link"), data + " --trace " + r.at("model/config.json"),
        data + " --metrics " + r.at("model_link/model.safetensors"),
        data + " --output " + r.at("out") + " --trace " + r.at("out/model.safetensors"),
        data + " --output " + r.at("out") + " --metrics " + r.at("out")}) {
    CAPTURE(flags);
    const Finished f = r.run(flags);
    CAPTURE(f.err);
    CHECK(f.code == 2);
    check_has(f.err, "what a command writes never replaces what it reads");
    CHECK(r.content("t.jsonl") == rows);
    CHECK(r.content("old.json") == "{}");
    CHECK(r.content("model/model.safetensors") == "weights");
    for (const char* none : {"new.json", "out", "metrics.jsonl"}) CHECK(!fs::exists(r.at(none)));
  }
  fs::remove(r.at("model/model.safetensors"));
  const Finished named = gpuplan_with(  // a name of the catalogue, and numbers, are no files
      r, "run --model smollm2-135m --init random --full --gpus 1xcpu --seq-len 8 --output smollm2-135m --lr fast");
  check_has(named.err, "fast");
  const Finished demo =  // whose output has a name that is not given
      Process({"env", "-C", r.path().string(), GPUPLAN_PROGRAM, "run", "--demo", "--gpus=1xcpu", "--max-steps=1",
               "--metrics=gpuplan-demo/adapter_model.safetensors"},
              r.path())
          .wait();
  CHECK(demo.code == 2);
  CHECK(!fs::exists(r.at("gpuplan-demo")));
  const Finished twice = r.run("--full --max-steps 1 --trace /dev/null --metrics /dev/null");
  CHECK_MESSAGE(twice.code == 0, twice.err);
}

TEST_CASE("outputs: calibrate replaces a profile, and anything else with --force alone") {
  const SmallRun r;
  REQUIRE(gpuplan_with(r, "profiles export default-cpu --output " + r.at("profile.yaml")).code == 0);
  r.scratch().write("notes.yaml", "notes: mine\n");
  r.scratch().write("empty.yaml", "");
  fs::create_symlink("notes.yaml", r.at("link.yaml"));
  const auto refusal = [&](const std::string& flags) {  // the device is wrong, and is looked at after --output
    const Finished f = gpuplan_with(r, "calibrate --device none --output " + flags);
    CHECK(f.code == 2);
    return f.err;
  };
  for (const char* file : {"notes.yaml", "link.yaml"})
    check_has(refusal(r.at(file)), "is there already, and is no profile of gpuplan");
  for (const std::string& taken : {r.at("profile.yaml"), r.at("empty.yaml"), r.at("new.yaml"),
                                   r.at("notes.yaml") + " --force", r.at("link.yaml") + " --force"})
    check_has(refusal(taken), "unknown device");
  CHECK(r.content("notes.yaml") == "notes: mine\n");
  CHECK(!fs::exists(r.at("new.yaml")));
  CHECK(gpuplan_with(r, "calibrate --device none --force").code == 2);
}

TEST_CASE("outputs: a run that is stopped before its last step leaves no trace, and says so") {
  const SmallRun r;
  Process run(r.command(std::string(kEndless) + " --trace " + r.at("trace.json")), r.path());
  wait_for_file(r.at("metrics.jsonl"));
  run.signal(SIGINT);
  const Finished f = run.wait();
  CHECK(f.code == 3);
  check_has(f.out, "no trace: the run ended before its last step");
  CHECK(!fs::exists(r.at("trace.json")));
}

TEST_CASE("outputs: one --metrics or one --trace of two runs is the first one's, which the second names") {
  const SmallRun r;
  const std::string trace = r.at("trace.json");
  Process first(r.command(std::string(kEndless) + " --trace " + trace), r.path());
  wait_for_file(r.at("metrics.jsonl"));
  fs::create_directory(r.at("second"));
  const auto second = [&](const std::string& flags) {
    return Process(r.command("--full --max-steps 2 " + flags), r.at("second")).wait();
  };
  for (const std::string ranks : {"", kTwoRanks}) {
    const Finished metrics = second("--output " + r.at("out") + ranks);
    CHECK(metrics.code == 3);
    check_has(metrics.err, "metrics.jsonl is in use by process ");
    check_has(metrics.err, "another run writes its metrics there");
    if (ranks.empty()) CHECK(!fs::exists(r.at("out")));  // else rank 1 may leave its mark there
    const Finished traced = second("--metrics " + r.at("other.jsonl") + " --trace " + trace + ranks);
    CHECK(traced.code == 3);
    check_has(traced.err, "trace.json is in use by process ");
    CHECK(!fs::exists(r.at("other.jsonl")));
  }
  CHECK(first.is_running());
  fs::rename(r.at("metrics.jsonl"), r.at("moved.jsonl"));
  const Finished f = first.wait();
  CHECK(f.code == 3);
  check_has(f.err, "metrics.jsonl: was renamed or removed while this run wrote its metrics there");
  CHECK(!fs::exists(trace));
}

TEST_CASE("outputs: a report that cannot be written is told with exit code 3, of any number of ranks") {
  const SmallRun r;
  for (const std::string ranks : {"", kTwoRanks, " --gpus 3xcpu --strategy fsdp"})
    for (const std::string to : {"> /dev/full", ">&-"}) {
      CAPTURE(ranks);
      CAPTURE(to);
      const Finished f = run_in_shell(r, "exec \"$@\" " + to, "--full --max-steps 2 --output " + r.at("out") + ranks);
      CAPTURE(f.err);
      CHECK(f.code == 3);
      check_has(f.err, "the answer could not be written to standard output");
      CHECK(fs::exists(r.at("out/model.safetensors")));
      CHECK(r.metrics().size() == 2);
      fs::remove_all(r.at("out"));
    }
  const Finished all = run_in_shell(r, "exec \"$@\" <&- >&- 2>&-", std::string("--full --max-steps 2") + kTwoRanks);
  CHECK(all.code == 3);
  CHECK(r.metrics().size() == 2);
}

TEST_CASE("outputs: without a folder for temporary files, ranks on CPUs are not started, and that is said") {
  const SmallRun r;
  const ScopedVariables variables({{"TMPDIR", r.at("none")}});
  const Finished f = r.run(std::string("--full --max-steps 2") + kTwoRanks);
  CHECK(f.code == 3);
  check_has(f.err, "TMPDIR: there is no folder for temporary files");
}

TEST_CASE("outputs: shared memory that is full or too small is named, with what would help") {
  const SmallRun r;
  const std::string mount = "mount -t tmpfs -o size=";
  if (Process({"unshare", "-m", "sh", "-c", mount + "64k tmpfs /dev/shm"}, r.path()).wait().code != 0) {
    MESSAGE("skipped: /dev/shm cannot be replaced here");
    return;
  }
  for (const std::string& room : {mount + "64k tmpfs /dev/shm", mount + "4m tmpfs /dev/shm",
                                  mount + "16m tmpfs /dev/shm; head -c 16m /dev/zero > /dev/shm/full"}) {
    CAPTURE(room);
    std::vector<std::string> words{"unshare", "-m", "sh", "-c", room + "; exec \"$@\"", "sh"};
    for (const std::string& word : r.command(std::string("--full --max-steps 2") + kTwoRanks)) words.push_back(word);
    const Finished f = Process(words, r.path()).wait();
    CAPTURE(f.err);
    CHECK(f.code == 3);
    check_has(f.err, "/dev/shm has ");
    check_has(f.err, " free of ");
    check_has(f.err, ", and 2 ranks share up to ");
    check_has(f.err, "remove files that nobody uses, or make it larger");
    CHECK(f.err.find("/dev/shm has ") == f.err.rfind("/dev/shm has "));
  }
}

namespace {

/// Folders in shared memory that a process has files of in its memory, and in `temporary`.
std::set<fs::path> folders_of(pid_t rank, const fs::path& temporary) {
  std::set<fs::path> out;
  std::ifstream maps("/proc/" + std::to_string(rank) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (const auto at = line.find("/dev/shm/.gpuplan-process-"); at != std::string::npos)
      out.insert(fs::path(line.substr(at)).parent_path());
  for (const auto& item : fs::directory_iterator(temporary)) out.insert(item.path());
  return out;
}

}  // namespace

TEST_CASE("outputs: what killed runs leave in shared memory and in /tmp goes with the next run, and no living one's") {
  const SmallRun r;
  fs::create_directories(r.at("tmp"));
  const ScopedVariables variables({{"TMPDIR", r.at("tmp")}});
  Process killed(r.command(std::string(kEndless) + kTwoRanks), r.path());
  wait_for_file(r.at("metrics.jsonl"));
  const std::set<fs::path> left = folders_of(killed.rank(1), r.at("tmp"));
  CHECK(left.size() == 3);  // Open MPI's files, its segments, the heartbeat
  killed.signal(SIGKILL);
  killed.wait();
  for (int i = 0; i < 1000 && killed.num_processes() > 0; ++i) sleep_seconds(0.05);
  for (const fs::path& folder : left)  // shared memory is the machine's: another test's run may have cleared it already
    if (folder.parent_path() == r.at("tmp")) CHECK_MESSAGE(fs::exists(folder), folder.string());

  fs::create_directories(r.at("second"));
  Process living(r.command(std::string(kEndless) + kTwoRanks + " --metrics " + r.at("second.jsonl")), r.at("second"));
  wait_for_file(r.at("second.jsonl"));
  for (const fs::path& folder : left) CHECK_MESSAGE(!fs::exists(folder), folder.string());
  const std::set<fs::path> used = folders_of(living.rank(1), r.at("tmp"));
  CHECK(used.size() == 3);
  fs::create_directories(r.at("third"));
  const Finished third = Process(r.command(std::string("--full --max-steps 2") + kTwoRanks), r.at("third")).wait();
  CHECK_MESSAGE(third.code == 0, third.err);
  CHECK(living.is_running());
  CHECK(folders_of(living.rank(1), r.at("tmp")) == used);
  for (const fs::path& folder : used) CHECK_MESSAGE(fs::exists(folder), folder.string());
}

TEST_CASE("outputs: a model that gpuplan did not write is replaced with --force alone") {
  const SmallRun r;
  REQUIRE(r.run("--full --max-steps 1 --output " + r.at("own")).code == 0);
  REQUIRE(r.run("--lora=r=2,base=fp32 --max-steps 1 --output " + r.at("adapter")).code == 0);
  const std::string again = "--full --max-steps 1 --output ";
  CHECK(r.run(again + r.at("own")).code == 0);  // its own it replaces
  CHECK(r.run("--lora=r=2,base=fp32 --max-steps 1 --output " + r.at("adapter")).code == 0);
  for (const char* file : {"model.safetensors", "adapter_model.safetensors", "pytorch_model.bin", "config.json"}) {
    CAPTURE(file);
    const fs::path others = r.scratch().write(std::string("others/") + file, "the only copy");
    for (const char* ranks : {"", kTwoRanks}) {
      const Finished f = r.run(again + r.at("others") + ranks);
      CHECK(f.code == 2);
      check_has(f.err, r.at("others") + " holds " + file + " of a model that gpuplan did not write");
    }
    CHECK(r.content(std::string("others/") + file) == "the only copy");
    fs::remove_all(r.at("others"));
  }
  r.scratch().write("others/model.safetensors", "mine");
  CHECK(r.run(again + r.at("others") + " --force").code == 0);
}

TEST_CASE("outputs: a file that gpuplan did not write is no timeline, and is replaced with --force alone") {
  const SmallRun r;
  const std::string flags = "--full --max-steps 2 --trace " + r.scratch().write("thesis", "the only copy").string();
  for (const char* ranks : {"", kTwoRanks}) {
    const Finished f = r.run(flags + ranks);
    CHECK(f.code == 2);
    check_has(f.err, "thesis is there already, and is no ");
    CHECK(r.content("thesis") == "the only copy");
    CHECK(!fs::exists(r.at("metrics.jsonl")));
  }
  CHECK(r.run(flags + " --force").code == 0);
  CHECK(nlohmann::json::parse(r.content("thesis")).contains("traceEvents"));
  CHECK(r.run(flags).code == 0);  // its own it replaces
}

TEST_CASE("outputs: names that a shell would obey reach the ranks of mpirun as they are") {
  const SmallRun r;
  const std::string name = "a;$(touch was_run)&touch was_run2 `touch was_run3`'\"*\\ %s {} -n";
  std::vector<std::string> words = r.command(std::string("--full --max-steps 2") + kTwoRanks);
  words.insert(words.end(), {"--output", r.at(name)});
  words.insert(words.begin(), {"env", "-C", r.at("model")});
  const Finished f = Process(words, r.path()).wait();
  CHECK_MESSAGE(f.code == 0, f.err);
  CHECK(fs::exists(r.at(name + "/model.safetensors")));
  std::set<std::string> names;
  for (const fs::path& folder : {r.path(), r.path() / "model"})
    for (const auto& item : fs::directory_iterator(folder)) names.insert(item.path().filename());
  CHECK(names ==
        std::set<std::string>{name, "config.json", "metrics.jsonl", "model", "stderr.txt", "stdout.txt", "tokens.bin"});
}

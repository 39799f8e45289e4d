// A run's output folder is taken away from it between two of its calls, and another gets the name: nothing is written
// there. GPUPLAN_FAULTS tries it before every call.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

namespace fs = std::filesystem;

constexpr int kStopBefore = -2;  // instead of an errno (tests/fakes/failing_calls.cpp)

/// The log of the one rank that has one: "30 mkostemp" when it is stopped, "84 -" at the end of a run; empty before.
std::string log_of(const SmallRun& r) {
  for (const auto& item : fs::directory_iterator(r.path()))
    if (item.path().filename().string().starts_with("calls.log")) return r.content(item.path().filename().string());
  return {};
}

struct Taken {
  bool is_stopped = false;
  Finished end;
};

/// Stops a run before a call below its output folder, renames or removes the folder, makes another, and lets it go on.
Taken take_folder(const SmallRun& r, const std::string& flags, const std::string& rank, int call, bool is_removed) {
  for (const char* folder : {"out", "moved"}) fs::remove_all(r.at(folder));
  for (const auto& item : fs::directory_iterator(r.path()))
    if (item.path().filename().string().starts_with("calls.log")) fs::remove(item.path());
  fs::create_directory(r.at("out"));
  const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                   {"GPUPLAN_FAULT_FOLDER", r.at("out")},
                                   {"GPUPLAN_FAULT_AT", std::to_string(call)},
                                   {"GPUPLAN_FAULT_ERRNO", std::to_string(kStopBefore)},
                                   {"GPUPLAN_FAULT_RANK", rank},
                                   {"GPUPLAN_FAULT_LOG", r.at("calls.log")}});
  Process run(
      r.command(flags + " --save-every 2 --keep 1 --output " + r.at("out") + " --metrics " + r.at("out/metrics.jsonl")),
      r.path());
  Taken taken;
  while (run.is_running() && !taken.is_stopped) {
    const std::string log = log_of(r);
    taken.is_stopped = log.ends_with('\n') && !log.ends_with("-\n");
    sleep_seconds(0.005);
  }
  if (taken.is_stopped) {
    fs::rename(r.at("out"), r.at("moved"));
    for (std::error_code busy; is_removed && fs::exists(r.at("moved"));)  // other ranks may still write there
      fs::remove_all(r.at("moved"), busy);
    r.scratch().write("out/stranger.txt", "mine");
    if (rank.empty())
      run.signal(SIGCONT);
    else
      kill(run.rank(std::stoi(rank)), SIGCONT);
  }
  taken.end = run.wait();
  return taken;
}

void take_folder_at_calls(const std::string& flags, const std::string& rank, int num_tries) {
  CAPTURE(flags);
  const SmallRun r;
  REQUIRE(!take_folder(r, flags, rank, 0, false).is_stopped);
  const int calls = std::atoi(log_of(r).c_str());
  REQUIRE(calls > 3);
  if (std::getenv("GPUPLAN_FAULTS")) num_tries = 2 * calls;
  for (int i = 0; i < num_tries; ++i) {
    const int call = 3 + i * (calls - 2) / num_tries;  // two open the folder by its name: whose it is, and to hold it
    CAPTURE(call);
    const Taken taken = take_folder(r, flags, rank, call, i % 2 == 1);
    CAPTURE(taken.end.err);
    CHECK(taken.is_stopped);
    const bool is_other_rank_refused =  // which opened its name after it was taken
        taken.end.code == 2 && taken.end.err.find("sees another run that holds --output") != std::string::npos;
    CHECK((taken.end.code == 0 || taken.end.code == 3 || is_other_rank_refused));
    for (const auto& item : fs::recursive_directory_iterator(r.at("out")))
      CHECK_MESSAGE(item.path().filename() == "stranger.txt", item.path().string());
    CHECK(r.content("out/stranger.txt") == "mine");
    CHECK(taken.end.err.find("/proc/self/fd") == std::string::npos);
  }
  MESSAGE("folder taken away: " << flags << ", before " << num_tries << " of " << calls << " calls");
}

}  // namespace

TEST_CASE("folder: one that gets the output's name while a run works stays as it was") {
  take_folder_at_calls("--lora=r=3,base=fp32 --max-steps 5", "", 16);
  for (const std::string rank : {"0", "1"})
    take_folder_at_calls("--lora=r=3,base=fp32 --max-steps 5 --gpus 2xcpu --strategy fsdp", rank, 2);
}

TEST_CASE("folder: a run whose lock was removed is not joined by a second one") {
  const SmallRun r;
  Process first(r.command("--full --max-steps 1000000 --output " + r.at("out")), r.path());
  for (const double until = now() + kPatience; now() < until && !fs::exists(r.at("metrics.jsonl"));)
    sleep_seconds(0.02);
  REQUIRE(fs::remove(r.at("out/.gpuplan.lock")));
  const SmallRun other;
  const Finished second = other.run("--full --max-steps 2 --output " + r.at("out"));
  CHECK(second.code == 3);
  check_has(second.err, "writes to this folder");
  CHECK(first.is_running());
}

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& item : fs::directory_iterator(folder)) out.insert(item.path().filename());
  return out;
}

/// Stops a run that saves every `save_every` steps between two saves, after the first.
bool stop_between_saves(const SmallRun& r, const Process& run, std::int64_t save_every) {
  for (const double until = now() + kPatience; now() < until; sleep_seconds(0.02)) {
    run.signal(SIGSTOP);
    sleep_seconds(0.02);  // for the signal to arrive
    const std::string lines = r.content("metrics.jsonl");
    const std::int64_t steps = std::ranges::count(lines, '\n');
    // a step's line is written before its checkpoint, and the next one after it
    if (steps > save_every && steps % save_every != 0) return true;
    run.signal(SIGCONT);
  }
  return false;
}

}  // namespace

TEST_CASE("folder: a run whose folder or lock is taken away ends with 3 at its next save, which is not made") {
  for (const bool is_lock : {false, true}) {
    CAPTURE(is_lock);
    const SmallRun r;
    Process run(r.command("--full --max-steps 1000000 --save-every 50 --output " + r.at("out")), r.path());
    REQUIRE(stop_between_saves(r, run, 50));
    if (is_lock)
      REQUIRE(fs::remove(r.at("out/.gpuplan.lock")));
    else
      fs::rename(r.at("out"), r.at("moved"));
    const fs::path folder = r.at(is_lock ? "out" : "moved");
    std::set<std::string> before = names_in(folder);
    run.signal(SIGCONT);
    const Finished f = run.wait();
    CHECK(f.code == 3);
    check_has(f.err, is_lock ? "was removed while this run held it" : "is no longer the folder");
    before.erase(".gpuplan.lock");
    std::set<std::string> after = names_in(folder);
    after.erase(".gpuplan.lock");
    CHECK(after == before);
    CHECK(before.contains("checkpoint-50"));
    if (!is_lock) CHECK(!fs::exists(r.at("out")));
  }
}

TEST_CASE("folder: where files cannot be locked a run says so and ends") {
  const SmallRun r;
  int num_told = 0;
  for (int call = 1; call <= 8; ++call) {
    fs::remove_all(r.at("out"));
    fs::create_directory(r.at("out"));
    for (const auto& item : fs::directory_iterator(r.path()))
      if (item.path().filename().string().starts_with("calls.log")) fs::remove(item.path());
    const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                     {"GPUPLAN_FAULT_FOLDER", r.at("out")},
                                     {"GPUPLAN_FAULT_AT", std::to_string(call)},
                                     {"GPUPLAN_FAULT_ERRNO", std::to_string(ENOLCK)},
                                     {"GPUPLAN_FAULT_RANK", ""},
                                     {"GPUPLAN_FAULT_LOG", r.at("calls.log")}});
    const Finished f = r.run("--full --max-steps 1 --output " + r.at("out"));
    if (log_of(r).find("flock") == std::string::npos) continue;
    CAPTURE(f.err);
    const bool is_told = f.code == 3 && f.err.find("cannot be locked: No locks available") != std::string::npos;
    CHECK((is_told || f.code == 0));  // where the folder alone cannot be locked, as on NFS, its lock's file is
    num_told += is_told;
  }
  CHECK(num_told > 0);
}

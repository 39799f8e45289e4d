// Calls by which a run changes its files fail, in every way, or are the last one before a kill: nothing is lost,
// nothing goes unsaid, and the run that goes on ends with the same bits. A few of them here; GPUPLAN_FAULTS=N, which
// `./check --faults` sets to 1000, spreads N errors and N / 2 kills over every strategy: half of them on a single rank,
// whose runs are short. GPUPLAN_FAULTS_OF=hsdp: of those on several ranks, this strategy's alone.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

namespace fs = std::filesystem;

constexpr int kKill = 0, kShortWrite = -1;  // instead of an errno (tests/fakes/failing_calls.cpp)
constexpr const char* kFaultyFlags = "--lora=r=3,base=fp32 --max-steps 5";

struct FaultCounts {
  int errors = 0, kills = 0, told = 0, harmless = 0;
};

/// A run of `flags` on its own output folder, and the calls of one of its ranks; -1: of all its processes.
class FaultyRun {
 public:
  FaultyRun(std::string flags, int rank) : flags_(std::move(flags)), rank_(rank) {
    clear();
    const Finished whole = finish();
    REQUIRE_MESSAGE(whole.code == 0, whole.err);
    expected_ = r_.content(kModel), losses_ = r_.losses(kMetrics);
    REQUIRE(!expected_.empty());
    REQUIRE(with_fault(0, 0).code == 0);
    REQUIRE(num_calls_ > 3);
  }
  int num_calls() const { return num_calls_; }

  /// Fails the call, looks what is said, and lets the run go on.
  void fail(int call, int reason, FaultCounts& counts) {
    CAPTURE(call);
    CAPTURE(reason);
    const Finished f = with_fault(call, reason);
    CAPTURE(f.err);
    CAPTURE(log_);
    ++(reason == kKill ? counts.kills : counts.errors);
    if (f.code == 0) {
      ++counts.harmless;  // what is only tidied up, or has another way
      CHECK(r_.content(kModel) == expected_);
    } else {
      ++counts.told;
      CHECK((f.code == 3 || f.code == 2 || (reason == kKill && f.code == 128 + SIGKILL)));
      if (reason == kKill && f.code == 3) check_has(f.err, "killed");
      if (reason > 0) check_has(f.err, strerror(reason));
      if (reason > 0) check_has(f.err, "disk");
      CHECK(reason != kShortWrite);  // the rest can be written
    }
    wait_for_ranks();
    const Finished rest = finish();
    CAPTURE(rest.err);
    CHECK(rest.code == 0);
    CHECK(r_.content(kModel) == expected_);
    CHECK(r_.losses(kMetrics) == losses_);
    for (const auto& item : fs::directory_iterator(r_.at("disk/out")))
      CHECK_MESSAGE(item.path().filename().string().find(".gpuplan") == std::string::npos, item.path().string());
  }

 private:
  static constexpr const char *kModel = "disk/out/adapter_model.safetensors", *kMetrics = "disk/metrics.jsonl";

  void clear() {
    fs::remove_all(r_.at("disk"));
    fs::create_directory(r_.at("disk"));
    for (const auto& item : fs::directory_iterator(r_.path()))
      if (item.path().filename().string().starts_with("faults.log")) fs::remove(item.path());
  }
  Finished finish() {
    return r_.run(flags_ + " --save-every 2 --keep 1 --resume --output " + r_.at("disk/out") + " --metrics " +
                  r_.at(kMetrics));
  }
  Finished with_fault(int call, int reason) {
    clear();
    const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                     {"GPUPLAN_FAULT_FOLDER", r_.at("disk")},
                                     {"GPUPLAN_FAULT_AT", std::to_string(call)},
                                     {"GPUPLAN_FAULT_ERRNO", std::to_string(reason)},
                                     {"GPUPLAN_FAULT_RANK", rank_ < 0 ? "" : std::to_string(rank_)},
                                     {"GPUPLAN_FAULT_LOG", r_.at("faults.log")}});
    const Finished f = finish();
    read_log();
    return f;
  }
  /// The process with most calls is the rank: mpirun counts nothing below the folder.
  void read_log() {
    num_calls_ = 0;
    for (const auto& item : fs::directory_iterator(r_.path())) {
      if (!item.path().filename().string().starts_with("faults.log")) continue;
      const std::string text = r_.content(item.path().filename().string());
      if (const int count = std::atoi(text.c_str()); count >= num_calls_) num_calls_ = count, log_ = text;
    }
  }
  /// Those whose supervisor was told of the failure may still be ending.
  void wait_for_ranks() {
    const std::string lock = r_.at("disk/out/.gpuplan.lock");
    for (const double until = now() + kPatience; now() < until && fs::exists(lock); sleep_seconds(0.02))
      if (Process({"flock", "-n", lock, "true"}, r_.path()).wait().code != 1) return;
  }

  SmallRun r_;
  std::string flags_, expected_, log_;
  int rank_, num_calls_ = 0;
  std::vector<double> losses_;
};

/// So many, at calls evenly apart. Each reason visits other calls.
void fail_calls(const std::string& flags, int rank, int num_errors, int num_kills) {
  CAPTURE(flags);
  CAPTURE(rank);
  FaultyRun run(flags, rank);
  const int calls = run.num_calls();
  constexpr std::array kErrors{EIO, ENOSPC, EACCES, kShortWrite};
  FaultCounts counts;
  for (int i = 0; i < num_errors; ++i)
    run.fail(1 + int(std::int64_t(i) * calls / num_errors) % calls, kErrors[std::size_t(i) % kErrors.size()], counts);
  for (int i = 0; i < num_kills; ++i)
    run.fail(1 + int((2 * i + 1) * std::int64_t(calls) / (2 * num_kills)), kKill, counts);
  MESSAGE("faults: " << flags << ", rank " << rank << ": " << calls << " calls, " << counts.errors << " errors and "
                     << counts.kills << " kills: " << counts.told << " told, " << counts.harmless << " harmless");
}

struct FaultRow {
  std::string strategy;
  int ranks, share;  // of the faults
};
const std::vector<FaultRow> kFaultRows{
    {"fsdp", 2, 2},  {"ddp", 2, 2},          {"zero1", 2, 2}, {"zero2", 2, 2},
    {"zero3", 2, 2}, {"fsdp-grad-op", 2, 2}, {"mp", 2, 2},    {"hsdp --shard-size 2", 4, 1}};
constexpr int kFaultShares = 15;

/// Errors asked for by GPUPLAN_FAULTS; nothing: the few of every check.
int num_faults_wanted() {
  const char* const text = std::getenv("GPUPLAN_FAULTS");
  return text ? std::max(0, std::atoi(text)) : 0;
}

}  // namespace

TEST_CASE("faults: calls that change files fail on a single rank, and nothing is lost or goes unsaid") {
  const int wanted = num_faults_wanted();
  fail_calls(kFaultyFlags, -1, wanted > 0 ? (wanted + 1) / 2 : 12, wanted > 0 ? (wanted + 3) / 4 : 6);
}

TEST_CASE("faults: calls that change files fail on one of several ranks") {
  const int wanted = num_faults_wanted();
  const char* const of = std::getenv("GPUPLAN_FAULTS_OF");
  for (const FaultRow& row : kFaultRows)
    for (const int rank : {0, 1}) {
      if (of && !row.strategy.starts_with(of)) continue;
      const auto share = [&](int all) { return (all * row.share / kFaultShares + 1) / 2; };
      const bool is_sampled = row.strategy == "fsdp" || (row.strategy == "mp" && rank == 1);
      if (wanted == 0 && !is_sampled) continue;
      fail_calls(std::string(kFaultyFlags) + " --gpus " + std::to_string(row.ranks) + "xcpu --strategy " + row.strategy,
                 rank, wanted > 0 ? share(wanted / 2 + 15) : 1, wanted > 0 ? share(wanted / 4 + 15) : 1);
    }
}

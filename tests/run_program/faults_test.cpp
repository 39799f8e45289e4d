// Every call by which a run changes its files fails once, in every way, or is the last one before a kill: nothing is
// lost, nothing goes unsaid, and the run that goes on ends with the same bits. A part of them here;
// GPUPLAN_FAULT_STRIDE=1 tries all calls, under every strategy (hours; 10: a tenth of them).
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

constexpr int kKill = 0;  // instead of an errno
constexpr const char* kStride = "GPUPLAN_FAULT_STRIDE";

struct Counts {
  int injected = 0, kills = 0, told = 0, harmless = 0;
};

/// One rank's calls in a run of `flags` on its own output folder.
class FaultyRun {
 public:
  FaultyRun(std::string flags, int rank) : flags_(std::move(flags)), rank_(rank) {
    REQUIRE(finish().code == 0);
    expected_ = r_.content("out/adapter_model.safetensors");
    REQUIRE(!expected_.empty());
    REQUIRE(with_fault(0, 0).code == 0);
    num_calls_ = logged_calls();
    REQUIRE(num_calls_ > 10);
  }
  int num_calls() const { return num_calls_; }

  /// Fails the call, looks what is said, and lets the run go on.
  void fail(int call, int reason, Counts& counts) {
    CAPTURE(call);
    CAPTURE(reason);
    const Finished f = with_fault(call, reason);
    CAPTURE(f.err);
    CAPTURE(log_);
    ++counts.injected, counts.kills += reason == kKill;
    if (f.code == 0) {
      ++counts.harmless;  // what is only tidied up, or has another way
      CHECK(r_.content("out/adapter_model.safetensors") == expected_);
    } else {
      ++counts.told;
      CHECK((f.code == 3 || f.code == 2 || (reason == kKill && f.code == 128 + SIGKILL)));
      if (reason != kKill) CHECK(f.err.find(strerror(reason)) != std::string::npos);
      if (reason != kKill) CHECK(f.err.find("out") != std::string::npos);
    }
    for (const double until = now() + kPatience;
         now() < until && fs::exists(r_.at("out/.gpuplan.lock")) && is_locked();)
      sleep_seconds(0.02);
    const Finished rest = finish();
    CAPTURE(rest.err);
    CHECK(rest.code == 0);
    CHECK(r_.content("out/adapter_model.safetensors") == expected_);
    CHECK(r_.losses() == losses_);
    for (const auto& item : fs::directory_iterator(r_.at("out")))
      CHECK_MESSAGE(item.path().filename().string().find(".gpuplan") == std::string::npos, item.path().string());
  }

 private:
  std::string flags() const { return flags_ + " --save-every 2 --keep 1 --resume --output " + r_.at("out"); }
  Finished finish() {
    const Finished f = r_.run(flags());
    if (losses_.empty()) losses_ = r_.losses();
    return f;
  }
  Finished with_fault(int call, int reason) {
    fs::remove_all(r_.at("out"));
    fs::remove(r_.at("metrics.jsonl"));
    for (const auto& item : fs::directory_iterator(r_.path()))
      if (item.path().filename().string().starts_with("faults.log")) fs::remove(item.path());
    const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                     {"GPUPLAN_FAULT_FOLDER", r_.at("out")},
                                     {"GPUPLAN_FAULT_AT", std::to_string(call)},
                                     {"GPUPLAN_FAULT_ERRNO", std::to_string(reason)},
                                     {"GPUPLAN_FAULT_RANK", rank_ < 0 ? "" : std::to_string(rank_)},
                                     {"GPUPLAN_FAULT_LOG", r_.at("faults.log")}});
    const Finished f = r_.run(flags());
    static_cast<void>(logged_calls());
    return f;
  }
  /// The most of any process: mpirun counts nothing below the folder.
  int logged_calls() {
    int most = 0;
    for (const auto& item : fs::directory_iterator(r_.path())) {
      if (!item.path().filename().string().starts_with("faults.log")) continue;
      const std::string text = r_.content(item.path().filename().string());
      if (const int count = std::atoi(text.c_str()); count >= most) most = count, log_ = text;
    }
    return most;
  }
  /// A rank whose supervisor was told of the failure may still be ending.
  bool is_locked() const {
    return Process({"flock", "-n", r_.at("out/.gpuplan.lock"), "true"}, r_.path()).wait().code == 1;
  }

  SmallRun r_;
  std::string flags_, expected_, log_;
  int rank_, num_calls_ = 0;
  std::vector<double> losses_;
};

/// Each `stride`th call with each reason.
void fail_calls(const std::string& flags, int rank, int stride) {
  if (const char* const wanted = std::getenv(kStride)) stride = std::max(1, std::atoi(wanted));
  FaultyRun run(flags, rank);
  stride = std::min(stride, run.num_calls() / 2);
  Counts counts;
  int turn = 0;
  for (const int reason : {EIO, ENOSPC, EACCES, kKill})
    for (int call = 1 + turn++ % stride; call <= run.num_calls(); call += stride) run.fail(call, reason, counts);
  MESSAGE(run.num_calls() << " calls, " << counts.injected - counts.kills << " errors and " << counts.kills
                          << " kills: " << counts.told << " told, " << counts.harmless << " harmless, 0 lost");
  CHECK(counts.told > counts.harmless);
}

}  // namespace

TEST_CASE("faults: every call that changes files fails once, and nothing is lost or goes unsaid") {
  fail_calls("--lora=r=3,base=fp32 --max-steps 5", -1, 7);
}

TEST_CASE("faults: on either of two sharded ranks") {
  std::vector<std::string> strategies{"fsdp"};
  if (std::getenv(kStride)) strategies = {"fsdp", "ddp", "zero1", "zero2", "zero3", "mp"};
  for (const std::string& strategy : strategies)
    for (const int rank : {0, 1}) {
      CAPTURE(strategy);
      fail_calls("--lora=r=3,base=fp32 --max-steps 5 --gpus 2xcpu --strategy " + strategy, rank, 60);
    }
}

// Every strategy through the program and mpirun. All of them with every method, accumulation and checkpointing are
// compared in threads (tests/run/strategies_test.cpp); here each strategy has one method, on 2 or 4 processes.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

struct Row {
  std::string strategy, method;
  int ranks;
};
const std::vector<Row> kRows{{"ddp", "--full", 2},
                             {"zero1", "--lora=r=3,base=fp32", 4},
                             {"zero2", "--qlora=r=3", 2},
                             {"zero3", "--full", 4},
                             {"fsdp", "--lora=r=3,base=fp32", 2},
                             {"fsdp", "--full", 4},
                             {"fsdp-grad-op", "--qlora=r=3", 4},
                             {"hsdp", "--full --shard-size 2", 4},
                             {"mp", "--full", 2},
                             {"mp", "--qlora=r=3", 4}};

std::string single(const std::string& method) {
  return method.substr(0, method.find(" --shard-size")) + " --gpus 1xcpu --strategy single --micro-batch 4";
}

}  // namespace

TEST_CASE("processes: every strategy gives the loss curve of a single rank, and holds the state that was predicted") {
  const SmallRun r;
  std::map<std::string, std::vector<double>> expected;
  for (const Row& row : kRows) {
    CAPTURE(row.strategy);
    CAPTURE(row.method);
    auto& alone = expected[single(row.method)];
    if (alone.empty()) {
      r.report(single(row.method));
      alone = r.losses();
      CHECK(alone.back() < alone.front());
    }
    const int micro = row.strategy == "mp" ? 4 : 4 / row.ranks;
    const auto report = r.report(row.method + " --strategy " + row.strategy + " --gpus " + std::to_string(row.ranks) +
                                 "xcpu --micro-batch " + std::to_string(micro));
    CHECK(worst_relative(r.losses(), alone) < 1e-4);
    CHECK(report["measured"]["persistent_bytes"] == report["predicted"]["persistent_bytes"]);
    CHECK(std::abs(report["error"]["tensors_bytes"].get<double>()) < 0.03);
  }
}

TEST_CASE(
    "report: predicted, measured and error have the same keys; the metrics exactly those of the issue; the trace "
    "opens") {
  const SmallRun r;
  const auto report = r.report("--full --max-steps 3 --trace " + r.at("trace.json"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : report["predicted"].items()) keys.push_back(key);
  CHECK(keys.size() > 5);
  for (const std::string& key : keys) {
    CHECK(report["measured"].contains(key));
    CHECK(report["error"].contains(key));
    CHECK((key.ends_with("_bytes") || key.ends_with("_seconds")));
  }
  const auto lines = r.metrics();
  REQUIRE(lines.size() == 3);
  for (const auto& line : lines) {
    std::vector<std::string> names;
    for (const auto& [key, value] : line.items()) names.push_back(key);
    CHECK(names == std::vector<std::string>{"grad_norm", "loss", "lr", "memory_bytes", "step", "step_seconds",
                                            "tokens_per_second"});
  }
  for (const std::string& key : keys)
    if (const double measured = report["measured"][key]; measured != 0)
      CHECK(report["error"][key].get<double>() ==
            doctest::Approx(report["predicted"][key].get<double>() / measured - 1));
  const auto median_of_last = [&](std::size_t count) {
    std::vector<double> seconds;
    for (const auto& line : r.metrics()) seconds.push_back(line["step_seconds"]);
    seconds.erase(seconds.begin(), seconds.end() - std::ptrdiff_t(count));
    std::ranges::sort(seconds);
    return (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  };
  CHECK(report["measured"]["step_seconds"].get<double>() == doctest::Approx(median_of_last(3)));  // of a few steps, all
  const auto longer = r.report("--full --max-steps 9");  // without the first two
  CHECK(longer["measured"]["step_seconds"].get<double>() == doctest::Approx(median_of_last(7)));
  std::ifstream file(r.at("trace.json"));
  const auto trace = nlohmann::json::parse(file);
  CHECK(trace["traceEvents"].size() > 10);
  CHECK(report["last_loss"] == lines.back()["loss"]);
}

TEST_CASE("memory of the process: what it holds beyond its tensors is the program and its libraries") {
  const SmallRun r({.hidden = 384, .ffn = 1024, .layers = 3, .heads = 6, .kv_heads = 6, .vocab = 2000});
  for (const std::string method : {"--full", "--lora=r=8,base=fp32", "--qlora"})
    for (const std::string strategy :
         {"--gpus 1xcpu --strategy single", "--gpus 2xcpu --strategy ddp", "--gpus 2xcpu --strategy fsdp"}) {
      const auto report = r.report(method + " " + strategy + " --seq-len 256 --max-steps 3");
      const double beyond =
          report["measured"]["process_bytes"].get<double>() - report["measured"]["tensors_bytes"].get<double>();
      CAPTURE(method);
      CAPTURE(strategy);
      CHECK(beyond < 56e6);
      WARN(std::abs(report["error"]["process_bytes"].get<double>()) < 0.1);
    }
}

TEST_CASE("processes: what torchrun starts on CPUs is one run, of the first of them; the others end at once") {
  const SmallRun r;
  const std::string flags = std::string("--full --max-steps 3") + kTwoRanks;
  r.report(flags + " --metrics " + r.at("expected.jsonl"));
  const ScopedVariables torchrun({{"WORLD_SIZE", "2"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"TORCHELASTIC_RUN_ID", "none"},
                                  {"MASTER_ADDR", "localhost"},
                                  {"MASTER_PORT", "29500"}});
  const auto run_as = [&](const std::string& rank) {
    const ScopedVariables variables({{"RANK", rank}, {"LOCAL_RANK", rank}});
    return r.run(flags);
  };
  const Finished second = run_as("1");
  CHECK_MESSAGE(second.code == 0, second.err);
  CHECK(!std::filesystem::exists(r.at("metrics.jsonl")));
  const Finished first = run_as("0");
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(r.losses() == r.losses("expected.jsonl"));
}

namespace {

/// The word after `key` in /proc/PID/status.
std::string status_of(pid_t process, const std::string& key) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(": \t", key.size()));
  return {};
}

/// The niceness of every thread (proc(5), stat: the 17th word after the name).
std::vector<int> niceness_of_threads(pid_t process) {
  std::vector<int> out;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    std::ifstream in(thread.path() / "stat");
    std::string text, word;
    std::getline(in, text);
    std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    for (int i = 0; i < 17; ++i) words >> word;
    out.push_back(std::atoi(word.c_str()));
  }
  return out;
}

}  // namespace

TEST_CASE(
    "processes: CPU ranks have cores of their own where there are enough, and all threads weigh what others weigh") {
  const SmallRun r;
  constexpr int kNicer = 5;
  std::vector<std::string> words{"nice", "-n", std::to_string(kNicer)};
  for (const std::string& word : r.command(std::string("--full --max-steps 1000000") + kTwoRanks))
    words.push_back(word);
  Process run(words, r.path());
  for (const double until = now() + kPatience; now() < until && r.metrics().empty();) sleep_seconds(0.02);
  const pid_t first = run.rank(0), second = run.rank(1);
  for (const pid_t rank : {first, second}) {
    const std::vector<int> niceness = niceness_of_threads(rank);
    REQUIRE(!niceness.empty());
    // a thread at niceness 19 gets a seventieth of a core that another program wants
    const int wanted = std::min(19, getpriority(PRIO_PROCESS, 0) + kNicer);
    CHECK(std::ranges::count(niceness, wanted) == std::ssize(niceness));
  }
  const bool has_several = status_of(getpid(), "Cpus_allowed_list").find_first_of(",-") != std::string::npos;
  if (has_several) CHECK(status_of(first, "Cpus_allowed_list") != status_of(second, "Cpus_allowed_list"));
}

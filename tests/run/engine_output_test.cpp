#include "run/engine_output.h"

#include <fstream>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/child_process.h"
#include "run/engine.h"
#include "run/preflight.h"
#include "run/rank_watch.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

void append_line(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::app | std::ios::binary) << text;
}

std::string script_of(const test::ScratchFolder& scratch, const std::string& name, const std::string& text) {
  const std::filesystem::path file = scratch.path() / name;
  append_line(file, text);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file.string();
}

EngineRun engine_run(const test::ScratchFolder& scratch, std::vector<std::string> command) {
  return {.processes = {{.name = "launcher", .command = std::move(command), .variables = {}}},
          .metrics = scratch.path() / "metrics",
          .batch_output = {},
          .cancel = {}};
}

}  // namespace

TEST_CASE("log lines of transformers, TRL, torchrun and tqdm are read; others are not") {
  auto line = read_log_line("{'loss': 1.2345, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.1}");
  REQUIRE(line);
  CHECK(line->loss == 1.2345);
  CHECK(line->grad_norm == 0.5);
  CHECK(line->learning_rate == 2e-5);
  CHECK_FALSE(line->step);
  line = read_log_line("[default0]:{'loss': '5.78', 'learning_rate': '1e-3', 'step': 7}");  // transformers 5 quotes
  REQUIRE(line);
  CHECK(line->loss == 5.78);
  CHECK(line->step == 7);
  line = read_log_line("  3%|3         | 12/400 [00:30<16:10,  2.50s/it]");
  REQUIRE(line);
  CHECK(line->step == 12);
  CHECK(line->total == 400);
  CHECK_FALSE(line->loss);
  for (const char* other : {"", "loss 1.2", "{'eval_loss': 1.0}", "{}", "12/400", "a/b [x<y", "{'loss': nothing}",
                            "{\"loss\"", "Saving 1/2 [no"})
    CHECK_FALSE(read_log_line(other).has_value());
}

TEST_CASE("output in pieces: lines end with \\n or \\r, steps have losses and times of the bar") {
  std::ostringstream echo;
  const test::ScratchFolder scratch;
  EngineOutput output(scratch.path(), echo);
  output.add_output("0/3 [00:00<?, ?it/s]\r1/3 [00:01<00:02, 1.0s/it]\r{'lo");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  output.add_output("ss': 3.0}\n2/3 [00:02<00:01, 1.0s/it]\r{'loss': 2.0}\nend");
  output.finish();
  REQUIRE(output.steps().size() == 2);
  CHECK(output.steps()[0].loss == 3.0);
  CHECK(output.steps()[1].loss == 2.0);
  CHECK(output.steps()[1].duration.value >= 0.02);
  CHECK(echo.str().ends_with("end\n"));
  CHECK_FALSE(output.has_metrics());
}

TEST_CASE("metrics files are read as they grow, each line once, and count more than the log") {
  std::ostringstream echo;
  const test::ScratchFolder scratch;
  EngineOutput output(scratch.path(), echo);
  const auto file = scratch.path() / "rank-0.jsonl";
  append_line(file, R"({"event": "begin", "rank": 0, "pid": 12})"
                    "\n"
                    R"({"event": "step", "step": 1, "loss": 4.5, "step_seconds": 0.25, "memory_bytes": 1000})"
                    "\n"
                    R"({"event": "step", "ste)");
  output.read_metrics();
  output.add_output("{'loss': 9.0}\n");
  REQUIRE(output.steps().size() == 1);
  append_line(file, R"(p": 2, "step_seconds": 0.5, "memory_bytes": 900})"
                    "\n"
                    R"({"event": "log", "step": 2, "loss": 4.0})"
                    "\nno json\n[]\n{\"event\": 3}\n"
                    R"({"event": "end", "rank": 0})"
                    "\n");
  append_line(scratch.path() / "rank-x.jsonl", "{\"event\": \"begin\", \"pid\": 5}\n");
  output.read_metrics();
  output.read_metrics();
  REQUIRE(output.steps().size() == 2);
  CHECK(output.steps()[0].loss == 4.5);
  CHECK(output.steps()[1].loss == 4.0);
  CHECK(output.steps()[1].duration.value == 0.5);
  CHECK(output.tensors() == Bytes{1000});
  CHECK(output.ranks().at(0).has_ended);
  CHECK(output.ranks().size() == 1);
}

TEST_CASE("secrets are not shown: in output, in arguments, in the values of flags") {
  const Redaction redacted({"hf_abcdefgh", "short"});
  CHECK(redacted("token=hf_abcdefgh!") == "token=***!");
  CHECK(redacted("short") == "short");  // would hide ordinary words
  const std::vector<std::string> words{"train.py", "--hub_token", "abc",      "--api-key=abc",
                                       "--x",      "hf_abcdefgh", "--tokens", "7"};
  CHECK(without_secrets(words, redacted) ==
        std::vector<std::string>{"train.py", "--hub_token", "***", "--api-key=***", "--x", "***", "--tokens", "7"});
  CHECK(without_secrets({"env", "HF_TOKEN=abc", "--env", "WANDB_API_KEY=abc", "tokenizer=gpt2"}, redacted) ==
        std::vector<std::string>{"env", "HF_TOKEN=***", "--env", "WANDB_API_KEY=***", "tokenizer=gpt2"});
  setenv("GPUPLAN_TEST_TOKEN", "verysecretvalue", 1);
  const Redaction from_environment;
  unsetenv("GPUPLAN_TEST_TOKEN");
  CHECK(from_environment("a verysecretvalue b") == "a *** b");
}

TEST_CASE("a launcher's output, exit code and metrics come back") {
  const test::ScratchFolder scratch;
  const std::string good = script_of(scratch, "good",
                                     "#!/bin/sh\necho \"{'loss': 2.5}\"\n"
                                     "echo '{\"event\": \"step\", \"step\": 1, \"loss\": 1.5, \"step_seconds\": 0.1}' "
                                     "> \"$GPUPLAN_METRICS/rank-0.jsonl\"\n");
  std::ostringstream echo, err;
  EngineOutcome outcome = run_engine(engine_run(scratch, {good}), echo, err);
  CHECK(outcome.code == 0);
  CHECK(echo.str() == "{'loss': 2.5}\n");
  REQUIRE(outcome.steps.size() == 1);
  CHECK(outcome.has_metrics);
  CHECK(outcome.steps[0].loss == 1.5);

  const std::string bad = script_of(scratch, "bad", "#!/bin/sh\necho last words >&2\nexit 5\n");
  outcome = run_engine(engine_run(scratch, {bad}), echo, err);
  CHECK(outcome.code == 3);
  CHECK(outcome.steps.empty());  // the metrics of the run before are gone
  CHECK(outcome.tail == "last words\n");
  CHECK(err.str() == "gpuplan: launcher ended with exit code 5\n");
}

namespace {

constexpr const char* kBySignal = "was killed by signal 9";

constexpr const char* kSleeps = "exec sleep 3600\n";
/// Until the test says so.
constexpr const char* kFails = "while ! [ -e \"$1/fail-$RANK\" ]; do sleep 0.1; done\nexit 7\n";

/// Kills rank 1 of a launcher's two, or lets it fail, a while after both have begun; what run_engine makes of it.
/// Whatever else would end the job takes an hour.
void kill_rank(const std::string& of_launcher, const std::string& of_rank, const std::string& said,
               const std::string& works = kSleeps) {
  const test::ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const std::string rank = script_of(scratch, "rank", "#!/bin/sh\n" + of_rank + "echo $$ > \"$1/pid-$RANK\"\n" + works);
  const std::string start = "setsid " + rank + " " + folder + " &\n";
  const std::string launcher =
      script_of(scratch, "launcher", "#!/bin/sh\nRANK=0 " + start + "RANK=1 " + start + of_launcher);
  std::ostringstream echo, err;
  pid_t killed = 0;
  std::thread killer([&] {
    for (int i = 0; i < 2400 && killed == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ifstream(scratch.path() / "pid-1") >> killed;
    }
    std::this_thread::sleep_for(std::chrono::seconds(3));  // both ranks are known
    append_line(scratch.path() / "fail-1", "");
    if (killed > 0 && works == kSleeps) kill(killed, SIGKILL);
  });
  const EngineOutcome outcome = run_engine(engine_run(scratch, {launcher}), echo, err);
  killer.join();
  CHECK(outcome.code == 3);
  const std::string message = err.str();
  const std::string rank_1 = "rank 1 (process " + std::to_string(killed) + ") ";
  const bool has_signal = message.find(rank_1 + kBySignal) != std::string::npos;  // seen before its launcher looked
  CHECK_MESSAGE((has_signal || message.find(rank_1 + said) != std::string::npos), message);
  pid_t other = 0;
  std::ifstream(scratch.path() / "pid-0") >> other;
  const auto is_gone = [other] {  // or dead and not yet waited for
    return output_of({"ps", "-o", "stat=", "-p", std::to_string(other)}).value_or("Z").substr(0, 1) == "Z";
  };
  for (int i = 0; i < 1200 && !is_gone(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(is_gone());
}

}  // namespace

TEST_CASE("a rank that is killed under a launcher that does not look is named, and nothing is left") {
  kill_rank("exec sleep 3600\n", "", kBySignal);
}

TEST_CASE("a rank that has told that it began and is gone without a word is named") {
  kill_rank("sleep 3600\n",
            "echo \"{\\\"event\\\": \\\"begin\\\", \\\"pid\\\": $$}\" > \"$GPUPLAN_METRICS/rank-$RANK.jsonl\"\n",
            "has died");
}

TEST_CASE("a rank that fails under a launcher that does not look is named, and nothing is left") {
  kill_rank("exec sleep 3600\n",
            "echo \"{\\\"event\\\": \\\"begin\\\", \\\"pid\\\": $$}\" > \"$GPUPLAN_METRICS/rank-$RANK.jsonl\"\n",
            "ended with exit code 7", kFails);
}

TEST_CASE("pre-flight: interpreters by the first line, packages, ports, files, disk") {
  const test::ScratchFolder scratch;
  CHECK(interpreter_of(script_of(scratch, "a", "#!/usr/bin/python3\n")) == "/usr/bin/python3");
  CHECK(interpreter_of(script_of(scratch, "b", "#!/usr/bin/env python3 -u\n")) == "python3");
  CHECK(interpreter_of(script_of(scratch, "c", "#!/bin/sh\n")).empty());
  CHECK(interpreter_of(scratch.path() / "none").empty());
  CHECK(python_packages("/no/such/python", {"torch"}).empty());
  const std::string fake = script_of(scratch, "python", "#!/bin/sh\necho '{\"torch\": \"2.6.0\", \"x\": null}'\n");
  CHECK(python_packages(fake, {"torch"}) == std::map<std::string, std::string>{{"torch", "2.6.0"}});
  const int port = some_free_port();
  CHECK(port > 0);
  CHECK(is_port_free(port));
  CHECK(check_file("data", scratch.path() / "a").problem.empty());
  CHECK_FALSE(check_file("data", scratch.path() / "none").problem.empty());
  CHECK(check_disk(scratch.path() / "new" / "folder", Bytes{1}).problem.empty());
  CHECK_FALSE(check_disk(scratch.path(), Bytes{std::int64_t(1) << 60}).problem.empty());
}

}  // namespace gpuplan

#include "base/child_process.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/error.h"

using namespace gpuplan;

namespace {

/// What a shell command writes, and how it ends.
std::pair<std::string, std::string> output_of(ChildPlan plan) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  plan.output = ends[1];
  const pid_t child = start_child(std::move(plan));
  close(ends[1]);
  std::string text;
  char piece[256];
  for (ssize_t count = 0; (count = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, std::size_t(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {text, describe_end(status)};
}

}  // namespace

TEST_CASE("a child gets its variables beside ours, and not those that are removed") {
  setenv("GPUPLAN_TEST_OURS", "ours", 1), setenv("GPUPLAN_TEST_REMOVED", "removed", 1);
  const auto [text, end] =
      output_of({.name = "sh",
                 .command = {"sh", "-c", "echo $GPUPLAN_TEST_OURS $GPUPLAN_TEST_REMOVED $GPUPLAN_TEST_NEW; kill -9 $$"},
                 .variables = {{"GPUPLAN_TEST_NEW", "new"}},
                 .unset = {"GPUPLAN_TEST_REMOVED"}});
  CHECK(text == "ours new\n");
  CHECK(end == "signal 9 (Killed)");
}

TEST_CASE("a child leads a process group of its own") {
  const auto [text, end] = output_of({.name = "sh", .command = {"sh", "-c", "echo $$; ps -o pgid= -p $$"}});
  CHECK(end == "exit code 0");
  const std::size_t line = text.find('\n');
  CHECK(std::stoi(text.substr(0, line)) == std::stoi(text.substr(line)));
}

TEST_CASE("a program that is not there is an error that names the child") {
  CHECK_THROWS_WITH_AS(start_child({.name = "rank 3", .command = {"/no/such/program"}}),
                       "cannot start rank 3: No such file or directory", EnvError);
}

TEST_CASE("signal handlers are put back, and an ignored SIGHUP stays ignored") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const SignalHandlers handlers([](int) {}, {SIGHUP, SIGUSR2});
    CHECK((std::signal(SIGHUP, SIG_IGN) == SIG_IGN));
    CHECK((std::signal(SIGUSR2, SIG_DFL) != SIG_DFL));
  }
  CHECK((std::signal(SIGHUP, before) == SIG_IGN));
  CHECK((std::signal(SIGUSR2, SIG_DFL) == SIG_DFL));
}

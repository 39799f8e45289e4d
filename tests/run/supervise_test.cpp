// The parent of GPU ranks, with shell scripts for ranks.
#include "run/supervise.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/error.h"
#include "run/environment.h"
#include "run/files/error_text.h"
#include "run/heartbeat.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Ended {
  int code{};
  std::string err;
};

/// `script` sees its rank as $GPUPLAN_RANK and the test's folder as $1.
Ended supervise(std::int64_t num_ranks, const std::string& script, const ScratchFolder& scratch) {
  const Environment none(Variables{});
  std::ostringstream err;
  const int code = supervise_gpu_ranks(num_ranks, {"/bin/sh", "-c", script, "rank", scratch.path().string()}, err);
  return {code, err.str()};
}

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Says whether a process whose number a rank left in `file` goes on. One that was killed takes a while to end, and may
/// be a zombie until init looks for it.
bool is_alive(const std::filesystem::path& file) {
  const std::string text = content(file);
  REQUIRE(!text.empty());
  for (int i = 0; i < 6000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const std::string stat = content("/proc/" + std::to_string(std::stoi(text)) + "/stat");
    if (stat.empty() || stat.find(") Z") != std::string::npos) return false;
  }
  return true;
}

/// For as long as a test may take; the check that follows then fails.
void wait_for(const std::filesystem::path& file) {
  for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// For longer than any test: whoever waits for it hangs.
constexpr const char* kSleeps =
    "sleep 3600 & echo $! > $1/new$GPUPLAN_RANK; mv $1/new$GPUPLAN_RANK $1/pid$GPUPLAN_RANK; wait";  // a child of the
                                                                                                     // rank, too

std::string when_there(const std::string& files) {
  return "for f in " + files + "; do while ! [ -e $1/$f ]; do sleep 0.05; done; done; ";
}

}  // namespace

TEST_CASE("supervise: every rank learns its place, and all are waited for") {
  const ScratchFolder scratch;
  const Ended e = supervise(3,
                            "echo $GPUPLAN_RANK of $GPUPLAN_WORLD_SIZE at ${GPUPLAN_PORT:+port} "
                            "${GPUPLAN_SOCKET:+socket} ${GPUPLAN_JOB:+job} > $1/$GPUPLAN_RANK;"
                            "test -z \"$RANK\"; test -f $GPUPLAN_HEARTBEAT",
                            scratch);
  CHECK(e.code == 0);
  CHECK(e.err.empty());
  CHECK(content(scratch.path() / "0") == "0 of 3 at port socket job\n");
  CHECK(content(scratch.path() / "2") == "2 of 3 at port job\n");
}

TEST_CASE("supervise: the first rank that fails decides, and the others end with all they started") {
  const ScratchFolder scratch;
  const Ended e = supervise(
      3, std::string("if [ $GPUPLAN_RANK = 1 ]; then " + when_there("pid0 pid2") + "exit 2; fi; ") + kSleeps, scratch);
  CHECK(e.code == 2);
  CHECK(e.err.empty());  // the rank has said why
  for (const char* file : {"pid0", "pid2"}) CHECK(!is_alive(scratch.path() / file));
}

TEST_CASE("supervise: a rank that is killed is named, exit code 3") {
  const ScratchFolder scratch;
  const Ended e = supervise(
      2, std::string("if [ $GPUPLAN_RANK = 1 ]; then " + when_there("pid0") + "kill -9 $$; fi; ") + kSleeps, scratch);
  CHECK(e.code == 3);
  CHECK(e.err.find("rank 1 (process") != std::string::npos);
  CHECK(e.err.find("killed by signal 9") != std::string::npos);
  CHECK(!is_alive(scratch.path() / "pid0"));
}

TEST_CASE("supervise: a rank that is killed is named, though a peer notices and ends first with a message of its own") {
  const ScratchFolder scratch;
  const std::string dies = "echo $$ > $1/new; mv $1/new $1/pid; sleep 0.1; kill -9 $$",
                    notices =
                        when_there("pid") +
                        "p=$(cat $1/pid); while [ -e /proc/$p ] && ! grep -q ') Z' /proc/$p/stat; do :; done; exit 3";
  for (const std::string victim : {"0", "1"}) {
    std::filesystem::remove(scratch.path() / "pid");
    const Ended e = supervise(2, "if [ $GPUPLAN_RANK = " + victim + " ]; then " + dies + "; fi; " + notices, scratch);
    CHECK(e.code == 3);
    CHECK(e.err.find("rank " + victim + " (process") != std::string::npos);
    CHECK(e.err.find("killed by signal 9") != std::string::npos);
  }
}

TEST_CASE("supervise: a rank that cannot be started, or ends with a code that is none of ours, is told") {
  const ScratchFolder scratch;
  std::ostringstream err;
  check_mentions(error_text<EnvError>([&] { supervise_gpu_ranks(2, {"/nonexistent/gpuplan"}, err); }),
                 "cannot start rank 0: No such file");
  const Ended e = supervise(2, std::string("if [ $GPUPLAN_RANK = 0 ]; then exit 17; fi; ") + kSleeps, scratch);
  CHECK(e.code == 3);
  CHECK(e.err.find("rank 0 ended with exit code 17") != std::string::npos);
}

TEST_CASE("supervise: Ctrl-C asks every rank to save, a second one ends them at once") {
  const ScratchFolder scratch;
  for (const bool obeys : {true, false}) {
    std::atomic<bool> has_ended{false};
    std::thread user([&] {
      for (const char* file : {"ready0", "ready1"}) wait_for(scratch.path() / file);
      do {
        kill(getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      } while (!obeys && !has_ended);
    });
    const std::string answer =
        obeys ? "echo saved > $1/saved$GPUPLAN_RANK; [ $GPUPLAN_RANK = 0 ] && exit 3; exit 0" : "true";
    const auto before = std::signal(SIGINT, SIG_IGN);  // the last, where the ranks have ended by the one before
    const Ended e = supervise(
        2, "trap '" + answer + "' USR1; touch $1/ready$GPUPLAN_RANK; while true; do sleep 0.05; done", scratch);
    has_ended = true;
    user.join();
    for (const char* file : {"ready0", "ready1"}) std::filesystem::remove(scratch.path() / file);
    std::signal(SIGINT, before);
    CHECK(e.code == 3);
    CHECK(e.err.find("saving after this step") != std::string::npos);
    CHECK(e.err.find("killed") == std::string::npos);
  }
  CHECK(content(scratch.path() / "saved0") == "saved\n");
}

TEST_CASE("supervise: Ctrl-C before the ranks can save ends them, and is not taken for a crash") {
  const ScratchFolder scratch;
  std::thread user([&] {
    for (const char* file : {"pid0", "pid1"}) wait_for(scratch.path() / file);
    kill(getpid(), SIGINT);
  });
  const Ended e = supervise(2, kSleeps, scratch);
  user.join();
  CHECK(e.code == 3);
  CHECK(e.err.find("stopped before the first step") != std::string::npos);
  CHECK(e.err.find("killed") == std::string::npos);
}

TEST_CASE("heartbeat: the first rank that fails has the word, whoever comes later has not") {
  const HeartbeatFile file(3);
  const Environment known(Variables{{kHeartbeatVariable, file.path().string()}});
  CHECK(has_first_word(1) == true);
  CHECK(has_first_word(0) == false);
  CHECK(has_first_word(1) == true);  // it may ask again
  CHECK(has_first_word(2) == false);
}

TEST_CASE("heartbeat: without a supervisor nobody knows who was first; a silent rank is named") {
  {
    const Environment none(Variables{});
    CHECK(!has_first_word(0));
  }
  const HeartbeatFile file(2);
  const Environment known(Variables{{kHeartbeatVariable, file.path().string()}});
  CHECK(file.silent_rank(Seconds{0.01}, Seconds{600}).empty());  // not begun
  check_mentions(file.silent_rank(Seconds{600}, Seconds{0}), "rank 0 has not begun within 0 s");
  Heartbeat rank(1);
  rank.beat(7);
  CHECK(file.silent_rank(Seconds{600}, Seconds{600}).empty());
  std::string said;  // two beats a second: between two of them it is silent for longer than this
  for (int i = 0; i < 12000 && said.empty(); ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    said = file.silent_rank(Seconds{0.05}, Seconds{600});
  CHECK(said.find("rank 1 (process") == 0);
  CHECK(said.find("in step 7") != std::string::npos);
}

TEST_CASE(
    "heartbeat: files of killed supervisors are removed, those of living ones stay, and a short one is not mapped") {
  const HeartbeatFile living(2);
  int tell[2];
  REQUIRE(pipe(tell) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const HeartbeatFile doomed(2);
    const std::string path = doomed.path().string();
    if (write(tell[1], path.data(), path.size()) < 0) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  std::string doomed(200, '\0');
  doomed.resize(std::size_t(read(tell[0], doomed.data(), doomed.size())));
  close(tell[0]), close(tell[1]);
  CHECK(std::filesystem::exists(doomed));
  const HeartbeatFile next(2);
  CHECK(!std::filesystem::exists(doomed));
  CHECK(std::filesystem::exists(living.path()));

  const ScratchFolder scratch;
  const Environment variables(Variables{{kHeartbeatVariable, scratch.write("empty", "").string()}});
  CHECK(!has_first_word(1));
  Heartbeat(0).beat(1);
}

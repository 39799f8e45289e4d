#include "run/supervise.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <thread>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "device/mpi_command.h"
#include "run/heartbeat.h"

namespace gpuplan {
namespace {

constexpr int kWorldFailed = 3;
const Seconds kPatience{10};       // without a heartbeat: two a second are due
constexpr auto kPoll = std::chrono::milliseconds(50);

volatile std::sig_atomic_t num_interrupts = 0;
void count_interrupt(int) { num_interrupts = num_interrupts + 1; }

/// In a group of its own, so that the terminal's Ctrl-C comes to the parent alone.
pid_t start(std::vector<std::string> command, const std::string& heartbeat) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw EnvError(fmt::format("cannot start mpirun: {}", std::strerror(errno)));
  if (child > 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  setenv(kHeartbeatVariable, heartbeat.c_str(), 1);
  if (!isatty(STDOUT_FILENO)) setenv("NO_COLOR", "1", 0);  // mpirun gives its ranks a terminal, whatever ours is
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) unsetenv(name);  // of torchrun
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  execvp(words[0], words.data());
  _exit(127);
}

/// SIGTERM lets mpirun end its ranks, which are in groups of their own; SIGKILL where that takes too long.
void end(pid_t child) {
  kill(child, SIGTERM);
  for (int i = 0; i < 60; ++i) {
    if (waitpid(child, nullptr, WNOHANG) == child) return;
    std::this_thread::sleep_for(kPoll);
  }
  kill(-child, SIGKILL);
  waitpid(child, nullptr, 0);
}

int exit_code(int status, std::ostream& err) {
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == 0 || (code >= 2 && code <= 4)) return code;  // a rank's own, whose message is written
    if (code > 128 && code < 160) err << fmt::format("gpuplan: a rank was killed by signal {} ({}); the others were stopped\n", code - 128, strsignal(code - 128));
    else err << fmt::format("gpuplan: mpirun failed with exit code {}\n", code);
    return kWorldFailed;
  }
  err << fmt::format("gpuplan: mpirun was killed by signal {} ({})\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return kWorldFailed;
}

}  // namespace

int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& arguments, std::ostream& err) {
  std::vector<std::string> own{own_program().string()};
  own.insert(own.end(), arguments.begin(), arguments.end());
  const HeartbeatFile heartbeats(num_ranks);
  num_interrupts = 0;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, count_interrupt);
  const pid_t child = start(mpirun_command(num_ranks, own, "to run several CPU ranks"), heartbeats.path().string());
  for (int passed_on = 0;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return exit_code(status, err);
    if (num_interrupts > passed_on) {
      if (++passed_on > 1) return end(child), kWorldFailed;
      err << "gpuplan: saving after this step; Ctrl-C again ends at once\n";
      kill(child, SIGUSR1);  // mpirun passes it on to every rank
    }
    if (const std::string silent = heartbeats.silent_rank(kPatience); !silent.empty()) {
      err << fmt::format("gpuplan: {}; stopping the others\n", silent);
      end(child);
      return kWorldFailed;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace gpuplan

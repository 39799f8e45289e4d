#include "run/supervise.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files.h"
#include "device/mpi_command.h"
#include "run/heartbeat.h"
#include "run/launch.h"
#include "run/meeting_place.h"
#include "run/rendezvous.h"

namespace gpuplan {
namespace {

constexpr int kCannotStart = 127;
const Seconds kPatience{10};     // without a heartbeat: two a second are due
const Seconds kLeaveTaking{30};  // between the end of the first rank, all being well, and of the last
constexpr auto kPoll = std::chrono::milliseconds(50);

volatile std::sig_atomic_t num_interrupts = 0;
void count_interrupt(int) { num_interrupts = num_interrupts + 1; }

class Interrupts {
 public:
  Interrupts() {
    num_interrupts = 0;
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      if ((before_[i] = std::signal(kSignals[i], count_interrupt)) == SIG_IGN && kSignals[i] == SIGHUP)
        std::signal(SIGHUP, SIG_IGN);  // nohup's wish
  }
  ~Interrupts() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  void (*before_[std::size(kSignals)])(int) = {};
};

/// What is the same for all children, and what a single one gets.
struct ChildPlan {
  std::string name;  // "mpirun", "rank 3"
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;
  int inherited = -1;  // a descriptor that it gets
  int dies_with_us = SIGTERM;
  bool reads_input = true;
};

[[noreturn]] void become(ChildPlan& plan, std::vector<char*>& words) {
  for (const auto& [name, value] : plan.variables) setenv(name.c_str(), value.c_str(), 1);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"})
    unsetenv(name);  // of torchrun
  if (plan.inherited >= 0) fcntl(plan.inherited, F_SETFD, 0);
  if (!plan.reads_input)
    if (const int nothing = open("/dev/null", O_RDONLY); nothing >= 0) dup2(nothing, STDIN_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  execvp(words[0], words.data());
  _exit(kCannotStart);
}

/// In a group of its own, so that the terminal's Ctrl-C comes to the parent alone.
pid_t start(ChildPlan plan) {
  std::vector<char*> words;
  for (std::string& word : plan.command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw EnvError(fmt::format("cannot start {}: {}", plan.name, std::strerror(errno)));
  if (child > 0) return child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, plan.dies_with_us);
  if (getppid() != parent) _exit(kCannotStart);
  become(plan, words);
}

struct Child {
  std::string name;
  pid_t pid = 0;
  std::optional<int> status;  // of waitpid, once it has ended
};

class Children {
 public:
  ~Children() { kill_all(); }
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(ChildPlan plan) {
    std::string name = plan.name;
    const pid_t pid = start(std::move(plan));
    all_.push_back({std::move(name), pid, {}});
  }
  /// Looks who has ended; the first one that did not end well, or null.
  const Child* failed() {
    const Child* worst = nullptr;
    for (Child& child : all_) {
      int status = 0;
      if (child.status || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.status = status;
      if (status != 0 && !worst) worst = &child;
    }
    return worst;
  }
  std::int64_t num_running() const {
    return std::count_if(all_.begin(), all_.end(), [](const Child& child) { return !child.status; });
  }
  bool has_any_ended() const { return num_running() < std::ssize(all_); }
  void signal(int number) const {
    for (const Child& child : all_)
      if (!child.status) kill(child.pid, number);
  }
  /// With what they started.
  void kill_all() {
    for (const Child& child : all_) {
      kill(-child.pid, SIGKILL);                    // also what one that has ended left behind
      if (!child.status) kill(child.pid, SIGKILL);  // where it has no group yet
    }
    for (Child& child : all_) {
      int status = 0;
      if (!child.status && waitpid(child.pid, &status, 0) == child.pid) child.status = status;
    }
  }
  /// SIGTERM lets mpirun end its ranks, which are in groups of their own; SIGKILL where that takes too long.
  void end() {
    signal(SIGTERM);
    for (int i = 0; i < 60 && num_running() > 0; ++i, std::this_thread::sleep_for(kPoll)) static_cast<void>(failed());
    kill_all();
  }

 private:
  std::vector<Child> all_;
};

/// How children are ended, and what their end means.
struct Manners {
  std::function<void(Children&)> end;
  std::function<int(const Child&, std::ostream&)> exit_code;
};

bool is_ranks_own(int code) { return code >= kWrongInput && code <= kOurBug; }  // whose message is written

int exit_code_of_mpirun(const Child& child, std::ostream& err) {
  const int status = *child.status;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (is_ranks_own(code)) return code;
    const int killer = code - 128;  // as shells have it
    if (killer > 0 && killer < 32)
      err << fmt::format("gpuplan: a rank was killed by signal {} ({}); the others were stopped\n", killer,
                         strsignal(killer));
    else
      err << fmt::format("gpuplan: mpirun failed with exit code {}\n", code);
    return kWorldFailed;
  }
  err << fmt::format("gpuplan: mpirun was killed by signal {} ({})\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return kWorldFailed;
}

int exit_code_of_rank(const Child& child, std::ostream& err) {
  const int status = *child.status;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (is_ranks_own(code)) return code;
    if (code == kCannotStart)
      err << fmt::format("gpuplan: {} could not be started; the others were stopped\n", child.name);
    else
      err << fmt::format("gpuplan: {} ended with exit code {}; the others were stopped\n", child.name, code);
    return kWorldFailed;
  }
  if (WTERMSIG(status) == SIGUSR1 && num_interrupts > 0)
    err << "gpuplan: stopped before the first step\n";
  else
    err << fmt::format("gpuplan: {} (process {}) was killed by signal {} ({}); the others were stopped\n", child.name,
                       child.pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
  return kWorldFailed;
}

int watch(Children& children, const HeartbeatFile& heartbeats, const Manners& manners, std::ostream& err) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kStoppedTurn{
      1};  // a turn that takes longer: the machine was suspended, and the ranks with us
  std::optional<Clock::time_point> first_end;
  Clock::time_point turn = Clock::now(), listens_from = turn;
  for (int passed_on = 0;; std::this_thread::sleep_for(kPoll)) {
    const auto last_turn = std::exchange(turn, Clock::now());
    if (turn - last_turn > kStoppedTurn)
      listens_from = turn + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kPatience.value));
    if (const Child* const failed = children.failed()) {
      const int code =
          manners.exit_code(*failed, err);  // told before the others are ended: a wedged driver can hold them for long
      err << std::flush;
      return manners.end(children), code;
    }
    if (children.num_running() == 0) return 0;
    if (children.has_any_ended() && !first_end) first_end = Clock::now();
    if (first_end && std::chrono::duration<double>(Clock::now() - *first_end).count() > kLeaveTaking.value) {
      err << fmt::format("gpuplan: ended, but {} of its ranks did not and were killed\n", children.num_running());
      return manners.end(children), kWorldFailed;
    }
    if (num_interrupts > passed_on) {
      if (++passed_on > 1) return manners.end(children), kWorldFailed;
      err << "gpuplan: saving after this step; Ctrl-C again ends at once\n" << std::flush;
      children.signal(SIGUSR1);  // mpirun passes it on to every rank
    }
    if (turn < listens_from) continue;
    if (const std::string silent = heartbeats.silent_rank(kPatience); !silent.empty()) {
      err << fmt::format("gpuplan: {}; stopping the others\n", silent);
      return manners.end(children), kWorldFailed;
    }
  }
}

}  // namespace

int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& arguments, std::ostream& err) {
  std::vector<std::string> own{own_program().string()};
  own.insert(own.end(), arguments.begin(), arguments.end());
  const HeartbeatFile heartbeats(num_ranks);
  const Interrupts interrupts;
  ChildPlan plan{.name = "mpirun",
                 .command = mpirun_command(num_ranks, own, "to run several CPU ranks"),
                 .variables = {{kHeartbeatVariable, heartbeats.path().string()}}};
  if (!isatty(STDOUT_FILENO))
    plan.variables.push_back({"NO_COLOR", "1"});  // mpirun gives its ranks a terminal, whatever ours is
  Children children;
  children.add(std::move(plan));
  return watch(children, heartbeats, {[](Children& c) { c.end(); }, exit_code_of_mpirun}, err);
}

int supervise_gpu_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err) {
  const HeartbeatFile heartbeats(num_ranks);
  const LocalListener meeting;
  const Interrupts interrupts;
  const std::string job = fmt::format("{}.{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  Children children;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    ChildPlan plan{.name = fmt::format("rank {}", rank),
                   .command = command,
                   .variables = {{kHeartbeatVariable, heartbeats.path().string()},
                                 {kRankVariable, std::to_string(rank)},
                                 {kWorldSizeVariable, std::to_string(num_ranks)},
                                 {kPortVariable, std::to_string(meeting.port())},
                                 {kJobVariable, job}},
                   .dies_with_us = SIGKILL,
                   .reads_input = false};  // a rank whose peers are gone may never come to end by itself
    if (rank == 0) {
      plan.inherited = meeting.descriptor();
      plan.variables.push_back({kSocketVariable, std::to_string(meeting.descriptor())});
    }
    children.add(std::move(plan));
  }
  return watch(children, heartbeats, {[](Children& c) { c.kill_all(); }, exit_code_of_rank}, err);
}

}  // namespace gpuplan

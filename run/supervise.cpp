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
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "device/mpi_command.h"
#include "run/heartbeat.h"
#include "run/launch.h"
#include "run/rendezvous.h"
#include "run/rendezvous_secret.h"

namespace gpuplan {
namespace {

const Seconds kPatience{10};         // without a heartbeat: two a second are due
const Seconds kShutdownTimeout{30};  // between the end of the first rank, all being well, and of the last
constexpr auto kPoll = std::chrono::milliseconds(50);

const std::vector<std::string> kTorchrunVariables{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                                  "TORCHELASTIC_RUN_ID"};

volatile std::sig_atomic_t num_interrupts = 0;
void count_interrupt(int) { num_interrupts = num_interrupts + 1; }

struct Child {
  std::string name;
  pid_t pid = 0;
  std::optional<int> status;  // of waitpid, once it has ended
};

bool is_ranks_own(int code) { return code >= kWrongInput && code <= kOurBug; }  // whose message is written

/// The larger, the less another rank's end can have caused this one.
int rank_of_cause(int status) {
  if (WIFSIGNALED(status)) return 2;
  return is_ranks_own(WEXITSTATUS(status)) ? 0 : 1;
}

class Children {
 public:
  ~Children() { kill_all(); }
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(ChildPlan plan) {
    const std::string name = plan.name;
    all_.push_back({name, start_child(std::move(plan)), {}});
  }
  /// Looks who has ended. Of those that did not end well, the cause of it all: one that was killed, else one that
  /// ended with a code that is none of ours, else the first. Null where all is well.
  const Child* failed() {
    const Child* cause = nullptr;
    // A rank whose peer has died ends by itself: whoever ended before it is known by the second look.
    for (int look = 0; look < 2; ++look) {
      for (Child& child : all_) {
        int status = 0;
        if (child.status || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
        child.status = status;
        if (status != 0 && (!cause || rank_of_cause(status) > rank_of_cause(*cause->status))) cause = &child;
      }
      if (!cause) break;
    }
    return cause;
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
struct ExitPolicy {
  std::function<void(Children&)> end;
  std::function<int(const Child&, std::ostream&)> exit_code;
};

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
  err << fmt::format("gpuplan: mpirun was killed by {}\n", describe_end(status));
  return kWorldFailed;
}

int exit_code_of_rank(const Child& child, std::ostream& err) {
  const int status = *child.status;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (is_ranks_own(code)) return code;
    err << fmt::format("gpuplan: {} ended with exit code {}; the others were stopped\n", child.name, code);
    return kWorldFailed;
  }
  if (WTERMSIG(status) == SIGUSR1 && num_interrupts > 0)
    err << "gpuplan: stopped before the first step\n";
  else
    err << fmt::format("gpuplan: {} (process {}) was killed by {}; the others were stopped\n", child.name, child.pid,
                       describe_end(status));
  return kWorldFailed;
}

int watch(Children& children, const HeartbeatFile& heartbeats, const ExitPolicy& policy, std::ostream& err) {
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
          policy.exit_code(*failed, err);  // told before the others are ended: a wedged driver can hold them for long
      err << std::flush;
      return policy.end(children), code;
    }
    if (children.num_running() == 0) return 0;
    if (children.has_any_ended() && !first_end) first_end = Clock::now();
    if (first_end && std::chrono::duration<double>(Clock::now() - *first_end).count() > kShutdownTimeout.value) {
      err << fmt::format("gpuplan: ended, but {} of its ranks did not and were killed\n", children.num_running());
      return policy.end(children), kWorldFailed;
    }
    if (num_interrupts > passed_on) {
      if (++passed_on > 1) return policy.end(children), kWorldFailed;
      err << "gpuplan: saving after this step; Ctrl-C again ends at once\n" << std::flush;
      children.signal(SIGUSR1);  // mpirun passes it on to every rank
    }
    if (turn < listens_from) continue;
    if (const std::string silent = heartbeats.silent_rank(kPatience); !silent.empty()) {
      err << fmt::format("gpuplan: {}; stopping the others\n", silent);
      return policy.end(children), kWorldFailed;
    }
  }
}

}  // namespace

int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err) {
  const HeartbeatFile heartbeats(num_ranks);
  num_interrupts = 0;
  const SignalHandlers interrupts(count_interrupt, {SIGINT, SIGTERM, SIGHUP});
  ChildPlan plan{.name = "mpirun",
                 .command = mpirun_command(num_ranks, command, "to run several CPU ranks"),
                 .variables = {{kHeartbeatVariable, heartbeats.path().string()}},
                 .unset = kTorchrunVariables};
  if (!isatty(STDOUT_FILENO))
    plan.variables.push_back({"NO_COLOR", "1"});  // mpirun gives its ranks a terminal, whatever ours is
  Children children;
  children.add(std::move(plan));
  return watch(children, heartbeats, {[](Children& c) { c.end(); }, exit_code_of_mpirun}, err);
}

int supervise_gpu_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err) {
  const HeartbeatFile heartbeats(num_ranks);
  const LocalListener listener;
  num_interrupts = 0;
  const SignalHandlers interrupts(count_interrupt, {SIGINT, SIGTERM, SIGHUP});
  const int no_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::string job = fmt::format("{}.{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  const std::string secret = new_secret();
  Children children;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    ChildPlan plan{.name = fmt::format("rank {}", rank),
                   .command = command,
                   .variables = {{kHeartbeatVariable, heartbeats.path().string()},
                                 {kRankVariable, std::to_string(rank)},
                                 {kWorldSizeVariable, std::to_string(num_ranks)},
                                 {kPortVariable, std::to_string(listener.port())},
                                 {kJobVariable, job},
                                 {kSecretVariable, secret}},
                   .unset = kTorchrunVariables,
                   .input = no_input,
                   .death_signal = SIGKILL};  // a rank whose peers are gone may never end by itself
    if (rank == 0) {
      plan.inherited = listener.descriptor();
      plan.variables.push_back({kSocketVariable, std::to_string(listener.descriptor())});
    }
    children.add(std::move(plan));
  }
  close(no_input);
  return watch(children, heartbeats, {[](Children& c) { c.kill_all(); }, exit_code_of_rank}, err);
}

std::optional<int> launch_ranks(const RankLaunch& launch, const LaunchedRank& launched, std::ostream& err) {
  const bool is_cpu = launch.gpus.empty();
  if (is_cpu && launched.launcher == Launcher::Slurm && !launched.has_mpi)
    throw InputError("srun", "did not offer PMIx to these ranks, so that MPI cannot join them",
                     "srun --mpi=pmix, or mpirun");
  // Ranks that MPI did not start cannot join each other: one of torchrun's processes starts them, the others end.
  const bool is_under_torchrun = launched.launcher == Launcher::Torchrun && is_cpu && launched.size > 1;
  if (is_under_torchrun) {
    if (launched.size != launch.num_ranks || launched.size != launched.local_size)
      throw InputError("torchrun",
                       fmt::format("started {} processes, {} of them here, and the plan has {} CPU ranks",
                                   launched.size, launched.local_size, launch.num_ranks),
                       "as many as the plan has, on one machine; several machines: mpirun or srun");
    if (launched.rank > 0) return 0;
  }
  if ((launched.launcher != Launcher::None && !is_under_torchrun) || launch.num_ranks == 1) return {};
  if (launch.reads_input)
    throw InputError("-", "a plan from standard input cannot be given to several ranks", "save it in a file");
  std::vector<std::string> command{own_program().string()};
  command.insert(command.end(), launch.arguments.begin(), launch.arguments.end());
  if (is_cpu) return supervise_ranks(launch.num_ranks, command, err);
  require_gpus_here(launch.gpus);
  return supervise_gpu_ranks(launch.num_ranks, command, err);
}

}  // namespace gpuplan

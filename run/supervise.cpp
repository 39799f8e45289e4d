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
#include "run/children.h"
#include "run/heartbeat.h"
#include "run/launch.h"
#include "run/rendezvous.h"
#include "run/rendezvous_address.h"

namespace gpuplan {
namespace {

const Seconds kPatience{10};  // without a heartbeat: two a second are due
const Seconds kStart{120};    // to the first one: as long as ranks wait for each other

const std::vector<std::string> kTorchrunVariables{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                                  "TORCHELASTIC_RUN_ID"};

bool is_ranks_own(int code) { return code >= kWrongInput && code <= kOurBug; }  // whose message is written

/// "; ADVICE": Open MPI keeps quiet about what its ranks lack, so that ranks alone speak.
std::string advice_on_memory(std::int64_t num_ranks) {
  const std::string advice = describe_scarce_shared_memory(num_ranks);
  return advice.empty() ? advice : "; " + advice;
}

int exit_code_of_mpirun(const Child& child, std::int64_t num_ranks, const HeartbeatFile& heartbeats,
                        std::ostream& err) {
  const int status = *child.status;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (is_ranks_own(code)) return code;
    const std::string advice = advice_on_memory(num_ranks);
    const int killer = code - 128;  // as shells have it
    if (killer > 0 && killer < 32)
      err << fmt::format("gpuplan: {} was killed by signal {} ({}); the others were stopped{}\n",
                         heartbeats.killed_rank(), killer, strsignal(killer), killer == SIGBUS ? advice : "");
    else
      err << fmt::format("gpuplan: mpirun failed with exit code {}{}\n", code, advice);
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
  if (WTERMSIG(status) == SIGUSR1 && CountedInterrupts::count() > 0)
    err << "gpuplan: stopped before the first step\n";
  else
    err << fmt::format("gpuplan: {} (process {}) was killed by {}; the others were stopped\n", child.name, child.pid,
                       describe_end(status));
  return kWorldFailed;
}

/// Ranks that write heartbeats: Ctrl-C asks them to save and end.
WatchPolicy rank_policy(HeartbeatFile& heartbeats, std::function<void(Children&)> end,
                        std::function<int(const Child&, std::ostream&)> exit_code) {
  return {.end = std::move(end),
          .exit_code = std::move(exit_code),
          .first_interrupt =
              [](Children& children, std::ostream& err) {
                err << "gpuplan: saving after this step; Ctrl-C again ends at once\n" << std::flush;
                children.signal(SIGUSR1);  // mpirun passes it on to every rank
              },
          .silent =
              [&] {
                const std::string silent = heartbeats.silent_rank(kPatience, kStart);
                return silent.empty() ? heartbeats.without_progress() : silent;
              },
          .patience = kPatience};
}

}  // namespace

int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& out,
                    std::ostream& err) {
  const MpiLaunch mpi("to run several CPU ranks");
  HeartbeatFile heartbeats(num_ranks);
  OutputPipe answer;  // written by us: mpirun says nothing where its output is full or closed
  const CountedInterrupts interrupts;
  ChildPlan plan{.name = "mpirun",
                 .command = mpi.command(num_ranks, command),
                 .variables = {{kHeartbeatVariable, heartbeats.path().string()}},
                 .unset = kTorchrunVariables,
                 .output = answer.input(),
                 .death_signal = SIGKILL};  // its ranks end with it; asked to, it would let them go on for a second
  if (!is_terminal(StandardStream::Out))
    plan.variables.push_back({"NO_COLOR", "1"});  // mpirun gives its ranks a terminal, whatever ours is
  Children children;
  children.add(std::move(plan));
  answer.close_input();
  WatchPolicy policy = rank_policy(
      heartbeats, [](Children& c) { c.end(); },
      [&](const Child& child, std::ostream& to) { return exit_code_of_mpirun(child, num_ranks, heartbeats, to); });
  policy.each_turn = [&] { answer.read_into([&](std::string_view text) { out << text << std::flush; }); };
  const int code = watch(children, policy, err);
  policy.each_turn();
  return code;
}

int supervise_gpu_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err) {
  HeartbeatFile heartbeats(num_ranks);
  std::optional<LocalListener> listener(std::in_place);
  const CountedInterrupts interrupts;
  const int no_input = open_own("/dev/null", O_RDONLY);
  const std::string job = fmt::format("{}.{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  const std::string secret = new_secret();
  Children children;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    ChildPlan plan{.name = fmt::format("rank {}", rank),
                   .command = command,
                   .variables = {{kHeartbeatVariable, heartbeats.path().string()},
                                 {kRankVariable, std::to_string(rank)},
                                 {kWorldSizeVariable, std::to_string(num_ranks)},
                                 {kPortVariable, std::to_string(listener->port())},
                                 {kJobVariable, job},
                                 {kSecretVariable, secret}},
                   .unset = kTorchrunVariables,
                   .input = no_input,
                   .death_signal = SIGKILL};  // a rank whose peers are gone may never end by itself
    if (rank == 0) {
      plan.inherited = listener->descriptor();
      plan.variables.push_back({kSocketVariable, std::to_string(listener->descriptor())});
    }
    children.add(std::move(plan));
  }
  listener.reset();  // rank 0 has its own, until all have met
  close(no_input);
  return watch(children,
               rank_policy(
                   heartbeats, [](Children& c) { c.kill_all(); }, exit_code_of_rank),
               err);
}

std::optional<int> launch_ranks(const RankLaunch& launch, const LaunchedRank& launched, std::ostream& out,
                                std::ostream& err) {
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
  if (is_cpu) return supervise_ranks(launch.num_ranks, command, out, err);
  require_gpus_here(launch.gpus);
  return supervise_gpu_ranks(launch.num_ranks, command, err);
}

}  // namespace gpuplan

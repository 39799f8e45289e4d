#include "run/rank_process.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/child_process.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/narrow.h"
#include "base/processor.h"
#include "base/utf8.h"
#include "device/backend.h"
#include "planner/plan/plan_file.h"
#include "run/agreement.h"
#include "run/gpu_check.h"
#include "run/heartbeat.h"
#include "run/rank_memory.h"
#include "run/rendezvous.h"
#include "run/rendezvous_address.h"

namespace gpuplan {
namespace {

constexpr std::initializer_list<int> kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
std::atomic<bool> stop_asked{false}, is_supervised{false};
/// A supervised rank leaves the second signal to its supervisor: who stops a whole job signals both, and the supervisor
/// passes it on.
void ask_to_stop(int signal) {
  note_signal();
  if (!stop_asked.exchange(true) || is_supervised) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Every rank has asked for itself, on what may be another machine: they must have come to the same plan. Returns
/// its identity.
nlohmann::json require_one_plan(const NativeJob& job, const RankJob& rank_job, Communicator& world) {
  const TrainingOptions& options = rank_job.options;
  const nlohmann::json identity = run_identity(job, options);
  nlohmann::json plan = identity;
  plan["settings"] = run_settings(options, options.max_steps);
  const nlohmann::json whole = make_plan(rank_job.request, rank_job.result, rank_job.chosen);
  for (const char* const section : {"recipe", "strategy"}) plan[section] = whole.at(section);
  plan["max-steps"] = options.max_steps, plan["epochs"] = options.epochs;
  plan["save-every"] = options.save_every, plan["keep"] = options.keep, plan["resume"] = options.resumes;
  plan["output"] = !options.output.empty();
  try {
    require_alike(&world, plan, "give each rank the same flags and files, and --strategy");
  } catch (...) {
    let_cause_speak();
    throw;
  }
  return identity;
}

/// Ranks on GPUs meet before any of them opens its own: what one holds would be memory in use to one that still reads
/// `--gpus local`. Collective among GPU ranks; throws EnvError. CPU ranks are joined by MPI.
Rendezvous meet(DeviceKind kind, const LaunchedRank& launched, std::int64_t size) {
  Rendezvous rendezvous{.rank = narrow<int>(launched.rank), .size = narrow<int>(size), .id = {}};
  if (kind == DeviceKind::Cuda && size > 1) {
    RendezvousAddress address = rendezvous_address(launched);
    address.secret = rendezvous_secret(launched, kRendezvousPatience);
    rendezvous.id = exchange_id(address, launched.rank, size, [&] { return collective_backend(kind).make_id(); });
  }
  return rendezvous;
}

/// Ends this process in 15 s if it has not ended by then: to give up a GPU waits for what runs there, and aborting
/// NCCL's groups one by one can wait for ever for another of them (NVIDIA/nccl issue 1013). Called while an exception
/// is handled, which is told if it `speaks`.
void end_when_stuck(bool speaks) {
  constexpr auto kStuckFor = std::chrono::seconds(15);
  int code = kWorldFailed;
  std::string reason = "this rank failed";
  try {
    throw;
  } catch (const InputError& error) { reason = error.what(), code = kWrongInput; } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {}
  std::thread([=] {
    std::this_thread::sleep_for(kStuckFor);
    if (speaks) say_to_stderr("gpuplan: " + printable(reason) + "\n");
    std::_Exit(code);
  }).detach();
}

}  // namespace

DeviceKind device_kind(const ClusterSpec& cluster) {
  return cluster.gpus.front().is_cpu ? DeviceKind::Cpu : DeviceKind::Cuda;
}

std::optional<RunReport> run_rank(const RankJob& rank_job, const LaunchedRank& launched) {
  const NativeJob job(rank_job.request, rank_job.chosen.strategy);
  const std::int64_t world_size = job.strategy.mesh.world();
  if (launched.launcher != Launcher::None && launched.size != world_size)
    throw InputError("--gpus",
                     fmt::format("the plan has {} ranks, and the launcher started {}", world_size, launched.size),
                     "start as many as the plan has");
  const std::int64_t ranks_here = std::min(world_size, launched.local_size);
  const int threads = std::max(1, narrow<int>(num_usable_cores() / std::max<std::int64_t>(1, ranks_here)));
  const DeviceKind kind = device_kind(rank_job.request.cluster);
  Heartbeat heartbeat(launched.rank);
  const Rendezvous rendezvous = meet(kind, launched, world_size);
  ProcessMemory process;
  const auto device = kind == DeviceKind::Cuda
                          ? open_gpu(gpus_wanted(rank_job.request, rank_job.result, rank_job.chosen.strategy), launched)
                          : device_backend(kind).open({.num_threads = threads});
  process.opened(*device);
  const auto world = world_size > 1 ? collective_backend(kind).join(*device, rendezvous) : nullptr;
  TrainingOptions options = rank_job.options;
  if (world) options.identity = require_one_plan(job, rank_job, *world);
  if (kind == DeviceKind::Cpu) bind_to_share_of_cores(launched.local_rank, ranks_here);
  const RankPlace place = place_of(world ? world->rank() : 0, job.strategy.mesh);
  const TrainingHooks hooks{.on_step = rank_job.on_step,
                            .on_alive = [&](std::int64_t step) { heartbeat.beat(step); },
                            .stop = &stop_asked,
                            .on_failure =
                                [&] {
                                  const bool speaks = has_first_word(place.rank).value_or(true);
                                  if (kind == DeviceKind::Cuda && world) end_when_stuck(speaks);
                                },
                            .process_memory = [&](Bytes held) { return process.now(*device, held); }};
  is_supervised = launched.launcher == Launcher::Gpuplan || has_variable(kHeartbeatVariable);
  auto stop_signals = std::make_unique<SignalHandlers>(ask_to_stop, kStopSignals);
  const TrainingOutcome outcome = train(job, place, *device, world.get(), options, hooks);
  // A supervisor passes signals on until this process has ended: one that comes late must not kill a rank that is done.
  [[maybe_unused]] static const SignalHandlers* kept = nullptr;  // reachable, so that it is no leak
  if (is_supervised) kept = stop_signals.release();
  if (place.rank != 0) return {};
  return make_run_report({job, place, rank_job.chosen, outcome});
}

void let_first_rank_speak(const LaunchedRank& launched) {
  constexpr auto kFirstSpeaks = std::chrono::seconds(2);
  if (!has_first_word(launched.rank).value_or(launched.rank == 0)) std::this_thread::sleep_for(kFirstSpeaks);
}

}  // namespace gpuplan

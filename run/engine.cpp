#include "run/engine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <ostream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "cluster/local_machine.h"
#include "run/children.h"
#include "run/engine_output.h"
#include "run/rank_watch.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

/// Variables that a launcher of ours would hand down to one that it is itself started by.
const std::vector<std::string> kLauncherVariables{
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"};

/// Most bytes that processes of the job hold on one GPU; where the driver does not name processes, what was taken since
/// the start.
class GpuMemory {
 public:
  GpuMemory() { before_ = free_now(); }
  void look(const std::vector<ProcessId>& processes) {
    if (before_.empty() || SteadyClock::now() < next_) return;
    next_ = SteadyClock::now() + std::chrono::seconds(1);
    const std::vector<LocalGpu> gpus = gpus_now();
    for (std::size_t i = 0; i < gpus.size() && i < before_.size(); ++i) {
      Bytes held;
      for (const LocalProcess& process : gpus[i].processes)
        if (std::any_of(processes.begin(), processes.end(),
                        [&](const ProcessId& own) { return own.pid == pid_t(process.pid); }))
          held += process.memory.value_or(Bytes{});
      if (held.count == 0) held = std::max(Bytes{}, before_[i] - gpus[i].memory_free);
      most_ = std::max(most_, held);
    }
  }
  Bytes most() const { return most_; }

 private:
  /// None without a driver, or while it does not answer.
  static std::vector<LocalGpu> gpus_now() {
    auto found = find_local_machine();
    LocalMachine* const machine = std::get_if<LocalMachine>(&found);
    return machine ? std::move(machine->gpus) : std::vector<LocalGpu>();
  }
  static std::vector<Bytes> free_now() {
    std::vector<Bytes> out;
    for (const LocalGpu& gpu : gpus_now()) out.push_back(gpu.memory_free);
    return out;
  }
  std::vector<Bytes> before_;
  Bytes most_;
  SteadyClock::time_point next_{};
};

/// A batch job's own output, once its number is known.
class BatchFile {
 public:
  explicit BatchFile(const EngineRun& run) : run_(run) {}
  std::string* first_bytes() { return run_.batch_output.empty() ? nullptr : &first_; }
  const std::string& job() {
    if (job_.empty() && first_.find('\n') != std::string::npos) {
      job_ = first_.substr(0, first_.find_first_of(";\n"));
      if (job_.empty() || job_.find_first_not_of("0123456789") != std::string::npos) job_ = "-";  // a message
    }
    return job_;
  }
  void read_into(EngineOutput& output) {
    if (run_.batch_output.empty() || job().empty() || job() == "-") return;
    std::string path = run_.batch_output;
    if (const std::size_t at = path.rfind("%j"); at != std::string::npos) path.replace(at, 2, job());
    constexpr std::int64_t kPiece = 1 << 20;
    const auto file = open_if_there(path);
    for (std::string text; file && !(text = file->read(from_, kPiece)).empty(); from_ += std::ssize(text))
      output.add_output(text);
  }
  void cancel() {
    if (run_.cancel.empty() || job().empty() || job() == "-") return;
    std::vector<std::string> command = run_.cancel;
    command.push_back(job());
    static_cast<void>(output_of(command));
  }

 private:
  const EngineRun& run_;
  std::string first_, job_;
  std::int64_t from_ = 0;
};

/// Everything that is looked at while the launchers run.
class EngineWatch {
 public:
  EngineWatch(const EngineRun& run, std::ostream& echo) : run_(run), output_(run.metrics, echo), batch_(run) {
    if (run.has_gpus) gpus_ = std::make_unique<GpuMemory>();
  }

  void start(Children& children) {
    const int no_input = open_own("/dev/null", O_RDONLY);
    for (const EngineProcess& process : run_.processes) {
      ChildPlan plan{.name = process.name,
                     .command = process.command,
                     .variables = process.variables,
                     .unset = kLauncherVariables,
                     .input = no_input,
                     .output = pipe_.input(),
                     .error = pipe_.input()};
      plan.variables.emplace_back("GPUPLAN_METRICS", run_.metrics.string());
      plan.variables.emplace_back("PYTHONUNBUFFERED", "1");
      children.add(std::move(plan));
      if (process.is_here) launchers_.push_back(children.all().back().pid);
    }
    if (no_input >= 0) close(no_input);
    pipe_.close_input();
  }

  void each_turn() {
    read_pipe();
    batch_.read_into(output_);
    if (++turn_ % 4 != 0) return;
    if (turn_ % 8 == 0) ranks_.find_ranks(launchers_);
    ranks_.add_ranks(output_.ranks());
    if (gpus_) gpus_->look(ranks_.processes());
  }

  std::string dead_rank() {
    if (launchers_.empty()) return {};
    output_.read_metrics();
    return ranks_.dead_rank(output_.ranks());
  }

  void end(Children& children) {
    std::vector<ProcessId> all = ranks_.processes();
    for (const pid_t launcher : launchers_)
      for (const ProcessId& process : descendants_of(launcher)) all.push_back(process);
    batch_.cancel();
    children.end();
    kill_those_left(all);
  }

  void interrupt(Children& children) {
    batch_.cancel();
    for (const Child& child : children.all())
      if (!child.status) kill(-child.pid, SIGINT);  // the launcher and what it started in its group
  }

  EngineOutcome outcome(int code) {
    read_pipe();
    batch_.read_into(output_);
    output_.finish();
    const bool was_stopped = CountedInterrupts::count() > 0;
    return {.code = was_stopped ? kWorldFailed : code,
            .was_stopped = was_stopped,
            .steps = output_.steps(),
            .has_metrics = output_.has_metrics(),
            .tensors = output_.tensors(),
            .gpu_process = gpus_ ? gpus_->most() : Bytes{},
            .host_process = output_.process(),
            .tail = output_.tail()};
  }

 private:
  void read_pipe() {
    std::string* const first = batch_.first_bytes();
    pipe_.read_into([&](std::string_view bytes) {
      if (first && first->find('\n') == std::string::npos) first->append(bytes);
      output_.add_output(bytes);
    });
  }

  const EngineRun& run_;
  OutputPipe pipe_;
  EngineOutput output_;
  BatchFile batch_;
  RankWatch ranks_;
  std::unique_ptr<GpuMemory> gpus_;
  std::vector<pid_t> launchers_;
  std::int64_t turn_ = 0;
};

int exit_code_of_launcher(const Child& child, std::ostream& err) {
  if (CountedInterrupts::count() == 0)
    err << fmt::format("gpuplan: {} ended with {}\n", child.name, describe_end(*child.status));
  return kWorldFailed;
}

void remove_old_metrics(const fs::path& folder) {
  make_folders(folder);
  for (const fs::path& file : files_in(folder, ".jsonl"))
    if (file.filename().string().starts_with("rank-")) remove_file(file);
}

}  // namespace

EngineOutcome run_engine(const EngineRun& run, std::ostream& echo, std::ostream& err) {
  remove_old_metrics(run.metrics);
  const CountedInterrupts interrupts;
  EngineWatch engine(run, echo);
  Children children;
  engine.start(children);
  const WatchPolicy policy{.end = [&](Children& all) { engine.end(all); },
                           .exit_code = exit_code_of_launcher,
                           .first_interrupt =
                               [&](Children& all, std::ostream& out) {
                                 out << "gpuplan: stopping; Ctrl-C again ends at once\n" << std::flush;
                                 engine.interrupt(all);
                               },
                           .silent = [&] { return engine.dead_rank(); },
                           .patience = {},
                           .each_turn = [&] { engine.each_turn(); },
                           .has_shutdown_limit = false};
  const int code = watch(children, policy, err);
  EngineOutcome outcome = engine.outcome(code);
  if (outcome.was_stopped) err << "gpuplan: stopped\n";
  return outcome;
}

}  // namespace gpuplan

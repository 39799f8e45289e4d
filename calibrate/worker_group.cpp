#include "calibrate/worker_group.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "device/mpi_command.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = WorkerAnswer::Kind;

bool read_sample(const std::string& line, Sample& wanted) {
  try {
    Sample sample = sample_from_json(line, "worker");
    if (sample.probe.key() != wanted.probe.key()) return false;
    wanted = std::move(sample);
    return true;
  } catch (const InputError&) { return false; }
}

/// Last words of a worker that gave no facts, without the program's name.
std::string reason_of(WorkerProcess& worker, const WorkerAnswer& last) {
  const std::string end = last.kind == WorkerAnswer::Kind::TimedOut ? "no answer" : worker.stop(Seconds{2});
  const std::string said = worker.last_words();
  constexpr std::string_view kPrefix = "gpuplan: ";
  if (const std::size_t at = said.find(kPrefix); at != std::string::npos) return said.substr(at + kPrefix.size());
  return "the worker process gave no facts (" + end + ")" + (said.empty() ? "" : ": " + said);
}

}  // namespace

WorkerCommand worker_command(const std::string& program, DeviceKind kind, std::int64_t num_ranks, bool is_quick) {
  WorkerCommand command{{program, kWorkerCommand, std::string(to_string(kind)), std::to_string(num_ranks)}};
  if (is_quick) command.arguments.push_back("quick");
  if (kind == DeviceKind::Cpu && num_ranks > 1) {
    command.mpi = std::make_shared<const MpiLaunch>("to measure collectives of CPU ranks");
    command.arguments = command.mpi->command(num_ranks, command.arguments);
  }
  return command;
}

WorkerFacts ask_worker(const std::string& program, DeviceKind kind, Seconds patience) {
  WorkerProcess worker({{program, kWorkerCommand, std::string(to_string(kind)), "facts"}});
  WorkerAnswer answer = worker.receive(patience);
  while (answer.kind == WorkerAnswer::Kind::Line && !answer.line.starts_with("{"))
    answer = worker.receive(patience);  // libraries talk
  if (answer.kind != WorkerAnswer::Kind::Line) throw EnvError(reason_of(worker, answer));
  try {
    return worker_facts_from_json(answer.line, kWorkerCommand);
  } catch (const InputError& error) {
    throw EnvError(std::string("the worker process gave no facts: ") + error.what());
  }
}

bool WorkerGroup::make_ready() {
  if (!unusable_.empty()) return false;
  if (worker_ && wait_for(kWorkerReady, nullptr) == Kind::Line) return true;
  if (worker_) ended(Seconds{1});  // it served, and gave up its device: a new one can have it
  if (start() || start()) return true;
  unusable_ = "the worker does not start: " + start_failure_;
  return false;
}

Sample WorkerGroup::ask(const Probe& probe) {
  Sample sample{.probe = probe};
  worker_->send(to_json_line(probe));  // one that has ended is found out by its answer
  const Kind answer = wait_for({}, &sample);
  if (answer == Kind::Line) return sample;
  if (answer == Kind::Ended) return {.probe = probe, .failure = "the worker " + ended(Seconds{1})};
  const std::string limit = std::to_string(std::lround(probe_timeout_.value));
  return {.probe = probe, .failure = "no result in " + limit + " s; the worker " + ended({})};
}

bool WorkerGroup::start() {
  try {
    worker_ = std::make_unique<WorkerProcess>(command_());
  } catch (const EnvError& error) {
    start_failure_ = error.what();
    return false;
  }
  const Kind answer = wait_for(kWorkerReady, nullptr);
  if (answer == Kind::Line) return true;
  start_failure_ = answer == Kind::Ended ? "it " + ended(Seconds{1}) : "it is not ready in time and " + ended({});
  return false;
}

/// Ends the worker and says how: "ended with exit code 3: no driver".
std::string WorkerGroup::ended(Seconds patience) {
  const std::string how = "ended with " + worker_->stop(patience), words = worker_->last_words();
  worker_.reset();
  return words.empty() ? how : how + ": " + words;
}

/// Reads on until `word`, or the sample of `wanted`'s probe; libraries that write other lines to standard output do no
/// harm.
Kind WorkerGroup::wait_for(std::string_view word, Sample* wanted) {
  const auto begin = Clock::now();
  for (;;) {
    const Seconds spent{std::chrono::duration<double>(Clock::now() - begin).count()};
    const WorkerAnswer answer = worker_->receive(probe_timeout_ - spent);
    if (answer.kind != Kind::Line) return answer.kind;
    if (!wanted && answer.line == word) return Kind::Line;
    if (wanted && read_sample(answer.line, *wanted)) return Kind::Line;
  }
}

}  // namespace gpuplan

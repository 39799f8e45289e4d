#include "calibrate/worker_command.h"

#include "base/error.h"
#include "calibrate/worker_process.h"
#include "device/mpi_command.h"

namespace gpuplan {
namespace {

/// What a worker that gave no facts said last, without the program's name.
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
  if (kind == DeviceKind::Cpu && num_ranks > 1)
    command.arguments = mpirun_command(num_ranks, command.arguments, "to measure collectives of CPU ranks");
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

}  // namespace gpuplan

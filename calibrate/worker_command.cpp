#include "calibrate/worker_command.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <unistd.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& dir : split(path ? path : "", ':'))
    if (access((std::filesystem::path(dir) / program).c_str(), X_OK) == 0) return true;
  return false;
}

/// For a shell: in single quotes.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

WorkerCommand worker_command(const std::string& program, DeviceKind kind, std::int64_t num_ranks, bool is_quick) {
  WorkerCommand command;
  if (kind == DeviceKind::Cpu && num_ranks > 1) {
    if (!is_on_path("mpirun"))
      throw EnvError("mpirun is not on the PATH: install openmpi-bin to measure collectives of CPU ranks");
    command.arguments = {"mpirun", "-n", std::to_string(num_ranks), "--oversubscribe", "--bind-to", "none"};
    if (geteuid() == 0) command.arguments.push_back("--allow-run-as-root");  // mpirun refuses otherwise, in containers too
  }
  for (const std::string& part : {program, std::string(kWorkerCommand), std::string(to_string(kind)), std::to_string(num_ranks)})
    command.arguments.push_back(part);
  if (is_quick) command.arguments.push_back("quick");
  return command;
}

WorkerFacts ask_worker(const std::string& program, DeviceKind kind) {
  const std::string command = shell_quoted(program) + " " + kWorkerCommand + " " + std::string(to_string(kind)) + " facts 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw EnvError("a worker process could not be started: " + command);
  std::string text;
  std::array<char, 4096> part{};
  while (fgets(part.data(), int(part.size()), pipe.get())) text += part.data();
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("{")) return worker_facts_from_json(line, kWorkerCommand);
  const std::string said(trim(text));
  constexpr std::string_view kPrefix = "gpuplan: ";
  throw EnvError(said.starts_with(kPrefix) ? said.substr(kPrefix.size()) : "the worker process said: " + said);
}

}  // namespace gpuplan

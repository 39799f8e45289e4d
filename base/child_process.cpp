#include "base/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"

namespace gpuplan {
namespace {

/// This process's environment with the plan's changes: "NAME=value".
std::vector<std::string> environment_of(const ChildPlan& plan) {
  std::vector<std::string> out;
  const auto is_replaced = [&](const std::string& name) {
    const auto has_name = [&](const auto& variable) { return variable.first == name; };
    return std::find(plan.unset.begin(), plan.unset.end(), name) != plan.unset.end() ||
           std::any_of(plan.variables.begin(), plan.variables.end(), has_name);
  };
  for (std::string& one : all_variables())
    if (!is_replaced(one.substr(0, one.find('=')))) out.push_back(std::move(one));
  for (const auto& [name, value] : plan.variables) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Runs in the child after fork: only what is safe there. `report` is closed by exec, or gets why that failed.
[[noreturn]] void become(const ChildPlan& plan, char* const* words, char* const* environment, int report,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, plan.death_signal);
  if (getppid() != parent) _exit(127);  // it died before the signal was asked for
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
  if (plan.input >= 0) dup2(plan.input, STDIN_FILENO);
  if (plan.output >= 0) dup2(plan.output, STDOUT_FILENO);
  if (plan.error >= 0) dup2(plan.error, STDERR_FILENO);
  if (plan.inherited >= 0) fcntl(plan.inherited, F_SETFD, 0);
  execvpe(words[0], words, environment);
  const int why = errno;
  [[maybe_unused]] const auto ignored = write(report, &why, sizeof why);
  _exit(127);
}

}  // namespace

pid_t start_child(ChildPlan plan) {
  GPUPLAN_CHECK(!plan.command.empty(), "a child is a program");
  if (given_surroundings()) throw EnvError(fmt::format("cannot start {}: no other programs are given", plan.name));
  std::vector<std::string> variables = environment_of(plan);
  const std::vector<char*> words = pointers_to(plan.command), environment = pointers_to(variables);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw EnvError(std::string("no pipe for a child: ") + std::strerror(errno));
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(plan, words.data(), environment.data(), report[1], parent);
  int why = child < 0 ? errno : 0;
  close(report[1]);
  if (child > 0 && read(report[0], &why, sizeof why) <= 0) why = 0;
  close(report[0]);
  if (why == 0) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  throw EnvError(fmt::format("cannot start {}: {}", plan.name, std::strerror(why)));
}

std::string find_program(const std::string& name) {
  if (given_surroundings()) return {};
  const auto is_program = [](const std::string& path) {
    std::error_code none;
    return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, none);
  };
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  for (const std::string& folder : split(text_of_variable("PATH"), ':')) {
    const std::string file = (std::filesystem::path(folder.empty() ? "." : folder) / name).string();
    if (is_program(file)) return file;
  }
  return {};
}

std::optional<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const int nothing = open_own("/dev/null", O_RDWR);
  pid_t child = 0;
  try {
    child = start_child(
        {.name = command.front(), .command = command, .input = nothing, .output = ends[1], .error = nothing});
  } catch (const EnvError&) {}  // not there
  close(ends[1]);
  if (nothing >= 0) close(nothing);
  std::string out;
  std::array<char, 4096> buffer{};
  while (child > 0) {
    const ssize_t n = read(ends[0], buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.append(buffer.data(), std::size_t(n));
  }
  close(ends[0]);
  int status = 1;
  if (child > 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status == 0 ? std::optional(out) : std::nullopt;
}

std::string describe_end(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

SignalHandlers::SignalHandlers(void (*handler)(int), std::initializer_list<int> signals) {
  for (const int number : signals) {
    const auto before = std::signal(number, handler);
    if (before == SIG_IGN && number == SIGHUP) std::signal(number, SIG_IGN);
    before_.emplace_back(number, before);
  }
}

SignalHandlers::~SignalHandlers() {
  for (const auto& [number, handler] : before_) std::signal(number, handler);
}

}  // namespace gpuplan

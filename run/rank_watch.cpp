#include "run/rank_watch.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <sys/wait.h>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuplan {
namespace {

/// Fields of /proc/PID/stat, by the numbers of proc(5).
struct ProcessState {
  char state = '?';                // 3: 'Z' is one that has ended and was not waited for
  pid_t parent = 0;                // 4
  unsigned long long start = 0;    // 22
  std::optional<int> exit_status;  // 52, as of waitpid; only of a zombie
};

std::optional<ProcessState> state_of(pid_t pid) {
  const std::string text = read_if_there(fmt::format("/proc/{}/stat", pid)).value_or("");
  const std::size_t name_end = text.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState out;
  std::string field;
  for (int number = 3; fields >> field; ++number) {
    if (number == 3) out.state = field.front();
    if (number == 4) out.parent = pid_t(std::atol(field.c_str()));
    if (number == 22) out.start = std::strtoull(field.c_str(), nullptr, 10);
    if (number == 52 && out.state == 'Z') out.exit_status = std::atoi(field.c_str());
  }
  return out;
}

std::map<pid_t, ProcessState> all_processes() {
  std::map<pid_t, ProcessState> out;
  for (const std::string& name : names_in("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = pid_t(std::atol(name.c_str()));
    if (const auto state = state_of(pid)) out[pid] = *state;
  }
  return out;
}

bool is_below(pid_t pid, const std::vector<pid_t>& tops, const std::map<pid_t, ProcessState>& all) {
  for (int depth = 0; depth < 64; ++depth) {
    const auto own = all.find(pid);
    if (own == all.end()) return false;
    pid = own->second.parent;
    if (std::find(tops.begin(), tops.end(), pid) != tops.end()) return true;
    if (pid <= 1) return false;
  }
  return false;
}

/// RANK of its environment.
std::optional<std::int64_t> rank_in_environment(pid_t pid) {
  std::istringstream file(read_if_there(fmt::format("/proc/{}/environ", pid)).value_or(""));
  for (std::string one; std::getline(file, one, '\0');) {
    if (!one.starts_with("RANK=")) continue;
    const std::string number = one.substr(5);
    if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos) return {};
    return std::stoll(number);
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProcessId> process_now(pid_t pid) {
  const auto state = state_of(pid);
  return state ? std::optional(ProcessId{pid, state->start}) : std::nullopt;
}

std::vector<ProcessId> descendants_of(pid_t pid) {
  const auto all = all_processes();
  std::vector<ProcessId> out;
  for (const auto& [other, state] : all)
    if (is_below(other, {pid}, all)) out.push_back({other, state.start});
  return out;
}

void kill_those_left(const std::vector<ProcessId>& processes) {
  for (const ProcessId& process : processes) {
    const auto now = process_now(process.pid);
    if (now && now->start == process.start) kill(process.pid, SIGKILL);
  }
}

void RankWatch::find_ranks(const std::vector<pid_t>& launchers) {
  const auto all = all_processes();
  for (const auto& [pid, state] : all) {
    if (state.state == 'Z' || !is_below(pid, launchers, all)) continue;
    const auto rank = rank_in_environment(pid);
    if (rank && !ranks_.count(*rank) && rank_in_environment(state.parent) != rank)
      ranks_[*rank] = {.process = {pid, state.start}};
  }
}

void RankWatch::add_ranks(const std::map<std::int64_t, RankFile>& said) {
  for (const auto& [number, file] : said) {
    if (ranks_.count(number) || file.pid <= 0 || file.has_ended) continue;
    if (const auto process = process_now(pid_t(file.pid))) ranks_[number] = {.process = *process};
  }
}

std::string RankWatch::dead_rank(const std::map<std::int64_t, RankFile>& said) {
  for (auto& [number, rank] : ranks_) {
    if (rank.has_ended) continue;
    const auto state = state_of(rank.process.pid);
    const bool is_gone = !state || state->start != rank.process.start;
    if (!is_gone && state->state != 'Z' && state->state != 'X') continue;
    if (is_gone && ++rank.looks_gone < 2) continue;  // its last words may not have been read yet
    rank.has_ended = true;
    const std::string name = fmt::format("rank {} (process {})", number, rank.process.pid);
    if (!is_gone && state->exit_status) {
      const int status = *state->exit_status;
      if (status == 0) continue;
      if (WIFSIGNALED(status))
        return fmt::format("{} was killed by signal {} ({})", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
      return fmt::format("{} ended with exit code {}", name, WEXITSTATUS(status));
    }
    const auto file = said.find(number);
    if (file != said.end() && file->second.pid == rank.process.pid && !file->second.has_ended)
      return name + " has died";
  }
  return {};
}

std::vector<ProcessId> RankWatch::processes() const {
  std::vector<ProcessId> out;
  for (const auto& [number, rank] : ranks_) out.push_back(rank.process);
  return out;
}

}  // namespace gpuplan

#include "run_program/process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpuplan::test {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string next_mark() {
  static int number = 0;
  return "GPUPLAN_TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(++number);
}

void redirect(const std::filesystem::path& file, int descriptor) {
  const int to = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(to, descriptor);
  close(to);
}

bool has_variable(const std::string& environment, const std::string& variable) {
  return (std::string(1, '\0') + environment).find(std::string(1, '\0') + variable + std::string(1, '\0')) !=
         std::string::npos;
}

/// That have all these variables.
std::vector<pid_t> processes_with(const std::vector<std::string>& variables) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = content(entry.path() / "environ");
    if (std::all_of(variables.begin(), variables.end(),
                    [&](const std::string& v) { return has_variable(environment, v); }))
      out.push_back(std::stoi(name));
  }
  return out;
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Process::Process(std::vector<std::string> words, std::filesystem::path folder)
    : folder_(std::move(folder)),
      mark_(next_mark()),
      begin_(now()) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  redirect(folder_ / "stdout.txt", STDOUT_FILENO);
  redirect(folder_ / "stderr.txt", STDERR_FILENO);
  close(STDIN_FILENO);
  open("/dev/null", O_RDONLY);
  putenv(mark_.data());
  execvp(pointers[0], pointers.data());
  _exit(127);
}

Process::~Process() {
  if (is_running()) signal(SIGKILL), wait(5);
}

void Process::signal(int number) const { kill(pid_, number); }

pid_t Process::rank(int number, const std::string& name) const {
  const std::string variable = name + "=" + std::to_string(number);
  for (const double until = now() + kPatience; now() < until; sleep_seconds(0.02))
    if (const auto found = processes_with({mark_, variable}); !found.empty()) return found.front();
  return 0;
}

int Process::num_processes() const { return int(processes_with({mark_}).size()); }

namespace {

/// By inode: the 10th word of a line of proc(5)'s tcp and tcp6, after address and state.
void read_listening(const char* file, std::map<std::string, Process::Port>& out) {
  std::istringstream lines(content(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::vector<std::string> words;
    for (std::string word; fields >> word;) words.push_back(word);
    if (words.size() < 10 || words[3] != "0A") continue;
    const std::size_t colon = words[1].find(':');  // "0100007F:1F90": the bytes of each 32-bit word backwards, the port
    const std::string address = words[1].substr(0, colon);
    const bool is_v4 = address.size() == 8 || address.starts_with("0000000000000000FFFF0000");
    const bool is_local = is_v4 ? address.ends_with("7F") : address == "00000000000000000000000001000000";
    out["socket:[" + words[9] + "]"] = {
        .number = std::stoi(words[1].substr(colon + 1), nullptr, 16), .is_local = is_local, .program = {}};
  }
}

}  // namespace

std::vector<Process::Port> Process::ports() const {
  std::vector<Port> out;
  std::map<std::string, Port> listening;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) read_listening(file, listening);
  std::error_code gone;
  for (const pid_t pid : processes_with({mark_})) {
    const std::string process = "/proc/" + std::to_string(pid), line = content(process + "/comm"),
                      name = line.substr(0, line.find('\n'));
    for (const auto& file : std::filesystem::directory_iterator(process + "/fd", gone))
      if (const auto found = listening.find(std::filesystem::read_symlink(file.path(), gone).string());
          found != listening.end())
        out.push_back({found->second.number, found->second.is_local, name});
  }
  return out;
}

bool Process::is_running() {
  if (!has_ended_) has_ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !has_ended_;
}

Finished Process::wait(double limit_seconds) {
  Finished f;
  while (is_running() && now() < begin_ + limit_seconds) sleep_seconds(0.005);
  f.seconds = now() - begin_;
  if (is_running()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    has_ended_ = true;
  } else {
    f.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  f.out = content(folder_ / "stdout.txt"), f.err = content(folder_ / "stderr.txt");
  return f;
}

}  // namespace gpuplan::test

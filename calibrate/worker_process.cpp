#include "calibrate/worker_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kErrorsKept = 4096;  // of standard error, bytes
constexpr std::size_t kWordsTold = 300;
const Seconds kPoll{0.01};  // between looks at a child that is about to end

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw EnvError(std::string("no pipe for a worker: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

/// In the child, after fork: only what is safe there.
[[noreturn]] void become(char* const* arguments, int in, int out, int error, int report, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // it died before it could be noticed
  signal(SIGPIPE, SIG_DFL);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  execvp(arguments[0], arguments);
  const int why = errno;
  [[maybe_unused]] const auto ignored = write(report, &why, sizeof why);
  _exit(127);
}

std::string end_text(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
}

Seconds since(Clock::time_point begin) { return {std::chrono::duration<double>(Clock::now() - begin).count()}; }

/// Appends what a descriptor holds; closes it at its end.
void drain(int& descriptor, std::string& to) {
  std::array<char, 65536> chunk;
  const ssize_t size = read(descriptor, chunk.data(), chunk.size());
  if (size > 0) return void(to.append(chunk.data(), std::size_t(size)));
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  close(descriptor);
  descriptor = -1;
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerCommand& command) {
  GPUPLAN_CHECK(!command.arguments.empty(), "a worker is a program");
  std::vector<std::string> words = command.arguments;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Pipe in = make_pipe(), out = make_pipe(), error = make_pipe(), report = make_pipe();
  const pid_t self = getpid();
  process_ = fork();
  if (process_ == 0) become(arguments.data(), in.read, out.write, error.write, report.write, self);
  for (const int end : {in.read, out.write, error.write, report.write}) close(end);
  input_ = in.write, output_ = out.read, error_ = error.read;
  int why = process_ < 0 ? errno : 0;
  if (process_ > 0 && read(report.read, &why, sizeof why) == 0) why = 0;  // closed by exec
  close(report.read);
  if (why == 0) return;
  stop({});
  throw EnvError("cannot start " + words.front() + ": " + std::strerror(why));
}

WorkerProcess::~WorkerProcess() { stop(Seconds{2}); }

bool WorkerProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  return input_ >= 0 && write(input_, text.data(), text.size()) == ssize_t(text.size());
}

bool WorkerProcess::pump(Seconds timeout) {
  std::array<pollfd, 2> files{pollfd{output_, POLLIN, 0}, pollfd{error_, POLLIN, 0}};
  if (poll(files.data(), files.size(), std::max(0, int(timeout.value * 1000) + 1)) > 0) {
    if (files[0].revents) drain(output_, read_);
    if (files[1].revents) drain(error_, errors_);
    if (errors_.size() > kErrorsKept) errors_.erase(0, errors_.size() - kErrorsKept);
  }
  return output_ >= 0;
}

WorkerAnswer WorkerProcess::receive(Seconds timeout) {
  const auto begin = Clock::now();
  for (bool is_open = true;;) {
    if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return {WorkerAnswer::Kind::Line, line};
    }
    if (!is_open) return {WorkerAnswer::Kind::Ended, {}};
    const Seconds left = timeout - since(begin);
    if (left.value <= 0) return {WorkerAnswer::Kind::TimedOut, {}};
    is_open = pump(left);
  }
}

/// SIGTERM before SIGKILL: mpirun ends its ranks, which are in groups of their own.
std::string WorkerProcess::stop(Seconds patience) {
  close_if_open(input_);
  const std::array<std::pair<int, Seconds>, 3> steps{{{0, patience}, {SIGTERM, Seconds{2}}, {SIGKILL, Seconds{10}}}};
  for (const auto& [signal, wait] : steps) {
    if (process_ <= 0) break;
    if (signal != 0) kill(-process_, signal);
    for (const auto begin = Clock::now(); process_ > 0;) {
      int status = 0;
      if (waitpid(process_, &status, WNOHANG) == process_) {
        kill(-process_, SIGKILL);  // what it left behind
        process_ = -1;
        ended_ = end_text(status);
      } else if (since(begin) >= wait) {
        break;
      } else if (output_ >= 0 || error_ >= 0) {
        pump(kPoll);  // it may be waiting to be read
      } else {
        std::this_thread::sleep_for(std::chrono::duration<double>(kPoll.value));
      }
    }
  }
  while (error_ >= 0 && !ended_.empty()) {  // last words
    const std::size_t size = errors_.size();
    pollfd file{error_, POLLIN, 0};
    if (poll(&file, 1, 100) <= 0) break;
    drain(error_, errors_);
    if (errors_.size() == size) break;
  }
  close_if_open(output_);
  close_if_open(error_);
  return ended_;
}

std::string WorkerProcess::last_words() const {
  std::string words;
  const auto lines = split(errors_, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::string_view text = trim(*line).substr(0, kWordsTold);
    if (text.empty()) continue;
    if (!words.empty() && words.size() + text.size() > kWordsTold) break;
    words = words.empty() ? std::string(text) : std::string(text) + " | " + words;
  }
  return words;
}

}  // namespace gpuplan

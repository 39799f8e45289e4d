#include "calibrate/worker_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"

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

WorkerProcess::WorkerProcess(const WorkerCommand& command) : mpi_(command.mpi) {
  const Pipe in = make_pipe(), out = make_pipe(), error = make_pipe();
  input_ = in.write, output_ = out.read, error_ = error.read;
  const auto close_others = [&] {
    for (const int end : {in.read, out.write, error.write}) close(end);
  };
  try {
    process_ = start_child({.name = command.arguments.front(),
                            .command = command.arguments,
                            .input = in.read,
                            .output = out.write,
                            .error = error.write});
  } catch (const EnvError&) {
    close_others();
    stop({});
    throw;
  }
  close_others();
}

WorkerProcess::~WorkerProcess() { stop(Seconds{2}); }

bool WorkerProcess::send(const std::string& line) {
  const std::string text = line + "\n";
  return input_ >= 0 && write(input_, text.data(), text.size()) == ssize_t(text.size());
}

bool WorkerProcess::pump(Seconds timeout) {
  std::array<pollfd, 2> files{pollfd{output_, POLLIN, 0}, pollfd{error_, POLLIN, 0}};
  if (poll(files.data(), files.size(), std::max(0, narrow<int>(std::llround(timeout.value * 1000)) + 1)) > 0) {
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
        ended_ = describe_end(status);
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

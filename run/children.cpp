#include "run/children.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ostream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

const Seconds kShutdownTimeout{30};  // between the end of the first child, all being well, and of the last
constexpr auto kPoll = std::chrono::milliseconds(50);

volatile std::sig_atomic_t num_interrupts = 0;
void count_interrupt(int) { num_interrupts = num_interrupts + 1; }

/// The larger, the less another rank's end can have caused this one.
int rank_of_cause(int status) {
  if (WIFSIGNALED(status)) return 2;
  return is_ranks_own(WEXITSTATUS(status)) ? 0 : 1;
}

}  // namespace

bool is_ranks_own(int code) { return code >= kWrongInput && code <= kOurBug; }

Children::~Children() { kill_all(); }

void Children::add(ChildPlan plan) {
  const std::string name = plan.name;
  all_.push_back({name, start_child(std::move(plan)), {}});
}

const Child* Children::failed() {
  const Child* cause = nullptr;
  // A rank whose peer has died ends by itself: whoever ended before it is known by the second look.
  for (int look = 0; look < 2; ++look) {
    for (Child& child : all_) {
      int status = 0;
      if (child.status || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.status = status;
      if (status != 0 && (!cause || rank_of_cause(status) > rank_of_cause(*cause->status))) cause = &child;
    }
    if (!cause) break;
  }
  return cause;
}

std::int64_t Children::num_running() const {
  return std::count_if(all_.begin(), all_.end(), [](const Child& child) { return !child.status; });
}

void Children::signal(int number) const {
  for (const Child& child : all_)
    if (!child.status) kill(child.pid, number);
}

void Children::kill_all() {
  for (const Child& child : all_) {
    kill(-child.pid, SIGKILL);                    // also what one that has ended left behind
    if (!child.status) kill(child.pid, SIGKILL);  // where it has no group yet
  }
  for (Child& child : all_) {
    int status = 0;
    if (!child.status && waitpid(child.pid, &status, 0) == child.pid) child.status = status;
  }
}

void Children::end() {
  signal(SIGTERM);
  for (int i = 0; i < 60 && num_running() > 0; ++i, std::this_thread::sleep_for(kPoll)) static_cast<void>(failed());
  kill_all();
}

OutputPipe::OutputPipe() {
  if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw EnvError("no pipe for the output of a child");
  fcntl(ends_[0], F_SETFL, O_NONBLOCK);
}

OutputPipe::~OutputPipe() {
  close(ends_[0]);
  close_input();
}

void OutputPipe::close_input() {
  if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
}

void OutputPipe::read_into(const std::function<void(std::string_view)>& sink) const {
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t n = read(ends_[0], buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    sink({buffer.data(), std::size_t(n)});
  }
}

CountedInterrupts::CountedInterrupts() : handlers_(count_interrupt, {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
  num_interrupts = 0;
}

int CountedInterrupts::count() { return num_interrupts; }

int watch(Children& children, const WatchPolicy& policy, std::ostream& err) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kStoppedTurn{
      1};  // a turn that takes longer: the machine was suspended, and the ranks with us
  std::optional<Clock::time_point> first_end;
  Clock::time_point turn = Clock::now(), listens_from = turn;
  for (int passed_on = 0;; std::this_thread::sleep_for(kPoll)) {
    const auto last_turn = std::exchange(turn, Clock::now());
    if (turn - last_turn > kStoppedTurn)
      listens_from =
          turn + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(policy.patience.value));
    if (policy.each_turn) policy.each_turn();
    if (const Child* const failed = children.failed()) {
      const int code =
          policy.exit_code(*failed, err);  // told before the others are ended: a wedged driver can hold them for long
      err << std::flush;
      return policy.end(children), code;
    }
    if (children.num_running() == 0) return 0;
    if (children.has_any_ended() && !first_end) first_end = Clock::now();
    if (policy.has_shutdown_limit && first_end &&
        std::chrono::duration<double>(Clock::now() - *first_end).count() > kShutdownTimeout.value) {
      err << fmt::format("gpuplan: ended, but {} of its ranks did not and were killed\n", children.num_running());
      return policy.end(children), kWorldFailed;
    }
    if (num_interrupts > passed_on) {
      if (++passed_on > 1) return policy.end(children), kWorldFailed;
      policy.first_interrupt(children, err);
    }
    if (turn < listens_from || !policy.silent) continue;
    if (const std::string silent = policy.silent(); !silent.empty()) {
      err << fmt::format("gpuplan: {}; stopping the others\n", silent);
      return policy.end(children), kWorldFailed;
    }
  }
}

}  // namespace gpuplan

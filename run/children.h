// Child processes that are watched together: who has ended and why, Ctrl-C passed on, all stopped when one fails.
// run/supervise watches gpuplan's own ranks with it, run/engine the launchers of other programs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/child_process.h"
#include "base/units.h"

namespace gpuplan {

struct Child {
  std::string name;
  pid_t pid = 0;
  std::optional<int> status;  // of waitpid, once it has ended
};

/// Says whether an exit code is one of gpuplan's own ranks, which has written its message.
bool is_ranks_own(int code);

class Children {
 public:
  ~Children();
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(ChildPlan plan);  // throws EnvError
  /// Looks who has ended. Of those that did not end well, the cause of it all: one that was killed, else one that
  /// ended with a code that is none of ours, else the first. Null where all is well.
  const Child* failed();
  std::int64_t num_running() const;
  bool has_any_ended() const { return num_running() < std::int64_t(all_.size()); }
  void signal(int number) const;
  /// Kills the children and what they started.
  void kill_all();
  /// SIGTERM lets a launcher end its ranks, which are in groups of their own; SIGKILL where that takes too long.
  void end();
  const std::vector<Child>& all() const { return all_; }

 private:
  std::vector<Child> all_;
};

/// A pipe for children's output, which is read as it comes.
class OutputPipe {
 public:
  OutputPipe();  // throws EnvError
  ~OutputPipe();
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;
  int input() const { return ends_[1]; }
  void close_input();
  /// Hands out what is there now.
  void read_into(const std::function<void(std::string_view)>& sink) const;

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// Counts what people and schedulers send to end a run, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, while it lives,
/// from 0.
class CountedInterrupts {
 public:
  CountedInterrupts();
  static int count();

 private:
  SignalHandlers handlers_;
};

/// Policy of ending children, and the meaning of their end.
struct WatchPolicy {
  std::function<void(Children&)> end;
  std::function<int(const Child&, std::ostream&)> exit_code;
  std::function<void(Children&, std::ostream&)> first_interrupt;  // a second one ends all
  std::function<std::string()> silent;  // what to say of one that no longer works; may be null
  Seconds patience;                     // after the machine was suspended: `silent` is not asked so long
  std::function<void()> each_turn;      // 20 times a second, and once after the end; may be null
  bool has_shutdown_limit = true;       // who has not ended 30 s after the first is killed
};

/// Waits for the children; the exit code. Requires: CountedInterrupts.
int watch(Children& children, const WatchPolicy& policy, std::ostream& err);

}  // namespace gpuplan

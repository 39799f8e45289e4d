// Child processes, and what a parent does with signals while they run.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gpuplan {

struct ChildPlan {
  std::string name;  // for messages: "mpirun", "rank 3"
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> variables;  // set in the child's environment
  std::vector<std::string> unset;                              // and removed from it
  int input = -1, output = -1, error = -1;                     // its standard streams; -1: ours
  int inherited = -1;                                          // another descriptor that it gets
  int death_signal = SIGTERM;                                  // that it gets when this process dies
};

/// Starts a child in a process group of its own, so that Ctrl-C of the terminal comes to this process alone. Throws
/// EnvError when the program cannot be started.
pid_t start_child(ChildPlan plan);

/// Path of a program of this name on the PATH; empty where there is none. A name with '/' is a path itself.
std::string find_program(const std::string& name);

/// Standard output of `command`; nothing where it cannot be started or does not end with 0. Its other streams are
/// /dev/null.
std::optional<std::string> output_of(const std::vector<std::string>& command);

/// Describes a status of waitpid: "exit code 1", "signal 11 (Segmentation fault)".
std::string describe_end(int status);

/// Other signal handlers while it lives. SIGHUP stays ignored where it is (nohup).
class SignalHandlers {
 public:
  SignalHandlers(void (*handler)(int), std::initializer_list<int> signals);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::vector<std::pair<int, void (*)(int)>> before_;
};

}  // namespace gpuplan

// A program under test: started with its output in files, waited for with a limit, and its ranks found and signalled.
#pragma once

#include <compare>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gpuplan::test {

/// When a test gives up on a program. What a program promises is never measured by it.
constexpr double kPatience = 300;

/// These variables until the end of the scope.
class ScopedVariables {
 public:
  explicit ScopedVariables(std::map<std::string, std::string> wanted) : wanted_(std::move(wanted)) {
    for (const auto& [name, value] : wanted_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedVariables() {
    for (const auto& [name, value] : wanted_) unsetenv(name.c_str());
  }
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

 private:
  std::map<std::string, std::string> wanted_;
};

struct Finished {
  int code = -1;  // 128 + signal when one ended it; -1: it took too long and was killed
  std::string out, err;
  double seconds = 0;
};

class Process {
 public:
  /// Output goes to files in `folder`.
  Process(std::vector<std::string> words, std::filesystem::path folder);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// The process of a rank, by its launcher's variable, waiting for it to be there; 0 when it does not come.
  pid_t rank(int number, const std::string& variable = "OMPI_COMM_WORLD_RANK") const;
  /// Of this program and everything it started, that still run.
  int num_processes() const;
  struct Port {
    int number = 0;
    bool is_local = false;  // of 127.0.0.0/8 or ::1
    std::string program;    // that listens
    auto operator<=>(const Port&) const = default;
  };
  /// At which these listen, over IPv4 and IPv6.
  std::vector<Port> ports() const;
  Finished wait(double limit_seconds = kPatience);
  bool is_running();

 private:
  std::filesystem::path folder_;
  std::string mark_;  // in the environment of all that it starts
  pid_t pid_;
  double begin_;
  int status_ = 0;
  bool has_ended_ = false;
};

/// Seconds of a clock that only goes forward.
double now();
void sleep_seconds(double seconds);

}  // namespace gpuplan::test

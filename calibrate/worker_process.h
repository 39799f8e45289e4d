// A group of worker processes behind one child: its lines in and out, its end, and what it said on standard error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/units.h"
#include "device/mpi_command.h"

namespace gpuplan {

/// Command line of a group of `num_ranks` worker processes; tests start fakes.
struct WorkerCommand {
  std::vector<std::string> arguments;         // program and arguments, mpirun included
  std::shared_ptr<const MpiLaunch> mpi = {};  // where it is mpirun's
};

/// Answer of a worker: a line, or why there is none.
struct WorkerAnswer {
  enum class Kind : std::uint8_t { Line, Ended, TimedOut } kind{};
  std::string line;
};

/// The child leads a process group of its own and gets SIGTERM when this process dies; workers also see the end of
/// their input.
class WorkerProcess {
 public:
  /// Throws EnvError when the program cannot be started.
  explicit WorkerProcess(const WorkerCommand& command);
  ~WorkerProcess();  // stops it
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool send(const std::string& line);  // false: it does not read any more
  WorkerAnswer receive(Seconds timeout);
  /// Ends the input, waits a moment, then ends the group. Says how it ended: "exit code 1", "signal 11 (Segmentation
  /// fault)".
  std::string stop(Seconds patience);
  /// Its last words on standard error, one line; empty when none.
  std::string last_words() const;

 private:
  bool pump(Seconds timeout);  // reads what there is; false: end of output

  std::shared_ptr<const MpiLaunch> mpi_;
  pid_t process_ = -1;
  int input_ = -1, output_ = -1, error_ = -1;
  std::string read_, errors_;
  std::string ended_;
};

}  // namespace gpuplan

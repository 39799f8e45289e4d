// Runs another program's launcher (accelerate, torchrun, deepspeed, sbatch) and watches it: its output is passed on and
// read, ranks that die are noticed, memory is watched where NVML is. The processes are started by run/children.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "run/metrics.h"

namespace gpuplan {

/// A launcher on this machine, or ssh to another.
struct EngineProcess {
  std::string name;                  // for messages: "torchrun", "torchrun on node2"
  std::vector<std::string> command;  // program first; no shell reads it
  std::vector<std::pair<std::string, std::string>> variables;
  bool is_here = true;
};

struct EngineRun {
  std::vector<EngineProcess> processes;
  std::filesystem::path metrics;  // folder for the files of gpuplan_metrics.py; what is in it is removed first
  bool has_gpus = false;          // NVML is asked
  /// Output file of a batch job: the first line of output is its number, its own output goes to this file of the job's
  /// number (%j), and `cancel` with the number ends it.
  std::string batch_output;
  std::vector<std::string> cancel;
};

struct EngineOutcome {
  int code = 0;                    // of gpuplan: 0, or 3
  bool was_stopped = false;        // by Ctrl-C
  std::vector<StepMetrics> steps;  // of rank 0; durations of 0 are not known
  bool has_metrics = false;        // they come from gpuplan_metrics.py, not from log lines
  Bytes tensors;                   // most in tensors on rank 0's GPU; 0: not known
  Bytes gpu_process;               // most that NVML saw one GPU's processes hold; 0: not known
  Bytes host_process;              // most resident memory of rank 0; 0: not known
  std::string tail;                // of the output
};

/// Starts the processes and waits for them. `echo` gets their output, `err` what gpuplan says. A rank that dies, or a
/// launcher that fails, ends all of them. Throws EnvError when a program cannot be started.
EngineOutcome run_engine(const EngineRun& run, std::ostream& echo, std::ostream& err);

}  // namespace gpuplan

// The worker's side of a calibration: the process that opens device libraries, so that a crash or a lost device costs
// one probe.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace gpuplan {

/// Command that makes this program a worker. Not meant for people.
inline constexpr const char* kWorkerCommand = "calibrate-worker";
inline constexpr std::string_view kWorkerReady = "ready";  // written whenever the next probe may come
inline constexpr int kWorkerLost = 3;                      // exit code: the device is of no more use

/// Facts about a worker's device, for the process that started it.
struct WorkerFacts {
  DeviceFacts device;
  int num_devices = 1;              // of this kind; 1 on a CPU
  bool has_collectives = false;     // MPI or NCCL
  std::string collectives_problem;  // why not

  /// The facts that decide if samples are of the same machine: all but how much memory is free.
  WorkerFacts identity() const;
};

/// Opens the device libraries in this process. Throws EnvError where there is no such device.
WorkerFacts read_worker_facts(DeviceKind kind);

std::string to_json_line(const WorkerFacts& facts);
/// Throws InputError naming `where`.
WorkerFacts worker_facts_from_json(const std::string& line, const std::string& where);

/// `calibrate-worker cpu|cuda facts` writes its facts as one line of JSON. `calibrate-worker cpu|cuda RANKS [quick]`
/// serves probes: on every rank, probes as JSON lines on `in`, samples as JSON lines on `out` (rank 0 alone reads and
/// writes), until the end of input. Returns the exit code. Throws EnvError when the device or its ranks cannot be had.
int run_worker(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out);

}  // namespace gpuplan

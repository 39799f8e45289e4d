// What a worker says of its device to the process that started it.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"

namespace gpuplan {

struct WorkerFacts {
  DeviceFacts device;
  int num_devices = 1;              // of this kind; 1 on a CPU
  bool has_collectives = false;     // MPI or NCCL
  std::string collectives_problem;  // why not

  /// What decides whether samples are of the same machine: everything but how much memory is free.
  WorkerFacts identity() const;
};

/// Opens the device libraries in this process. Throws EnvError where there is no such device.
WorkerFacts read_worker_facts(DeviceKind kind);

std::string to_json_line(const WorkerFacts& facts);
/// Throws InputError naming `where`.
WorkerFacts worker_facts_from_json(const std::string& line, const std::string& where);

}  // namespace gpuplan

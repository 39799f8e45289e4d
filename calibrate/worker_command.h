// Starting worker processes of this program, alone or as MPI ranks.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "calibrate/facts_json.h"
#include "calibrate/session.h"

namespace gpuplan {

/// What this program is told to be a worker; cli/calibrate_worker.h.
inline constexpr const char* kWorkerCommand = "calibrate-worker";

/// The command for `num_ranks` workers of `program`: CPU ranks under mpirun, bound to nothing; GPUs share one process.
/// Throws EnvError when mpirun is needed and not found.
WorkerCommand worker_command(const std::string& program, DeviceKind kind, std::int64_t num_ranks, bool is_quick);

/// What a worker says of its device. Throws EnvError in the worker's own words when it cannot, or takes longer than
/// `patience`.
WorkerFacts ask_worker(const std::string& program, DeviceKind kind, Seconds patience = {60});

}  // namespace gpuplan

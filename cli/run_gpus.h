// What `gpuplan run` does for ranks on GPUs before and beside training.
#pragma once

#include <memory>
#include <span>

#include "device/backend.h"
#include "run/gpu_check.h"
#include "run/launch.h"

namespace gpuplan {

/// The GPU that this rank takes, which must be the plan's, with enough free memory: before anything is loaded.
/// `wanted`: by rank. Throws as require_gpus does. Where NVML is not there, the opened device says what it is.
std::unique_ptr<Device> open_gpu(std::span<const GpuWanted> wanted, const LaunchedRank& launched);

/// On this machine, for the ranks that we are about to start: one message for all.
void require_gpus_here(std::span<const GpuWanted> wanted);

/// Ranks on GPUs meet before any of them opens its own: what one holds would be memory in use to one that still reads
/// `--gpus local`. Collective among GPU ranks; throws EnvError. CPU ranks are met by MPI.
Rendezvous meet(DeviceKind kind, const LaunchedRank& launched, std::int64_t size);

/// To give up a GPU waits for what runs there, and aborting NCCL's groups one by one can wait for ever for another of
/// them (NVIDIA/nccl issue 1013). So this process ends in 15 s if it has not by then. Called while an exception is
/// handled, which is told if it `speaks`.
void end_when_stuck(bool speaks);

}  // namespace gpuplan

// Before anything is loaded: the GPUs of the plan are the ones that are here, and each has room for what its rank
// needs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/local_machine.h"
#include "device/device.h"
#include "planner/estimate.h"
#include "run/launch.h"

namespace gpuplan {

/// A GPU of this machine, in the order of CUDA_VISIBLE_DEVICES.
struct GpuHere {
  std::string name, product;  // "NVIDIA RTX A6000", its id in the catalogue
  Bytes memory, memory_free;
  std::vector<LocalProcess> processes;  // that hold memory on it
};

/// GPU that a rank needs.
struct GpuWanted {
  std::string name, product;
  Bytes needed;  // by the whole process
};

/// GPUs of this machine by the driver's NVML; nothing where it cannot be asked. CUDA, which counts otherwise unless
/// CUDA_DEVICE_ORDER=PCI_BUS_ID, may know them all the same.
std::optional<std::vector<GpuHere>> gpus_here();
/// The same of an opened device, whose context counts as free.
GpuHere gpu_of(const Device& device);

/// GPUs that a plan needs, by rank. Throws InputError for GPUs that can be planned for only.
std::vector<GpuWanted> gpus_wanted(const EstimateRequest& request, const EstimateResult& result,
                                   const Strategy& strategy);

/// One GPU per rank, `here` from the first on. Throws InputError when there are too few, or others than the plan names;
/// EnvError when one has not enough free memory: what is needed and free, and who holds it.
void require_gpus(std::span<const GpuWanted> wanted, std::span<const GpuHere> here, std::int64_t first_index = 0);

/// On this machine, for the ranks that we are about to start: one message for all.
void require_gpus_here(std::span<const GpuWanted> wanted);

/// The GPU that this rank takes, which must be the plan's, with enough free memory: before anything is loaded.
/// `wanted`: by rank. Throws as require_gpus does. Where NVML is not there, the opened device says what it is.
std::unique_ptr<Device> open_gpu(std::span<const GpuWanted> wanted, const LaunchedRank& launched);

/// Index of a rank's GPU among those that its process sees: its place on the machine, or the only one where the
/// launcher shows each rank its own. Throws InputError when there are fewer than ranks.
int gpu_index(std::int64_t local_rank, int num_visible);

/// Sets CUDA_DEVICE_ORDER unless it is set, so that ranks and their parent count GPUs alike.
void count_gpus_by_bus();

}  // namespace gpuplan

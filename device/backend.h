// The shared objects of device/, opened on demand: libgpuplan_cpu.so and libgpuplan_cuda.so (devices),
// libgpuplan_mpi.so and libgpuplan_nccl.so (collectives). Nothing else of gpuplan links CUDA, NCCL, MPI or a BLAS.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan {

struct DeviceOptions {
  int index = 0;        // of the GPU; no meaning on a CPU
  int num_threads = 0;  // a CPU rank computes with; 0: all cores this process may use
};

/// Interface of a device library. One object per process.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual int num_devices() const = 0;  // 1 on a CPU; throws EnvError without a driver
  virtual std::unique_ptr<Device> open(const DeviceOptions& options) = 0;
};

/// Address at which the ranks of a group meet.
struct Rendezvous {
  int rank = 0, size = 1;
  std::string id;  // of NCCL: what make_id() gave on rank 0, passed on by the launcher. MPI knows its ranks itself
};

/// Interface of a library of collectives.
class CollectiveBackend {
 public:
  virtual ~CollectiveBackend() = default;
  virtual std::string make_id() = 0;
  /// Collective among all ranks. `device` outlives the communicator.
  virtual std::unique_ptr<Communicator> join(Device& device, const Rendezvous& rendezvous) = 0;
};

/// Opens the library of a kind. Throws EnvError saying which file is missing or what the loader said, and what to
/// install. The library stays open to the end of the process.
DeviceBackend& device_backend(DeviceKind kind);
CollectiveBackend& collective_backend(DeviceKind kind);  // MPI for CPU ranks, NCCL for CUDA

/// Folders that may hold the libraries: $GPUPLAN_LIBRARY_DIR, lib/gpuplan beside the installed program, beside the
/// program.
std::vector<std::filesystem::path> device_library_dirs();

}  // namespace gpuplan

// What the shared objects export, with C linkage. `abi` must equal kDeviceAbi, else they return null.
namespace gpuplan {
constexpr int kDeviceAbi = 6;
using OpenDeviceBackend = DeviceBackend* (*)(int abi);          // symbol "gpuplan_device_backend"
using OpenCollectiveBackend = CollectiveBackend* (*)(int abi);  // symbol "gpuplan_collective_backend"
}  // namespace gpuplan

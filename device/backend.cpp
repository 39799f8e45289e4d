#include "device/backend.h"

#include <array>
#include <cstdlib>
#include <map>

#include <dlfcn.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/name_table.h"

namespace gpuplan {
namespace {

/// One shared object: what it is called, for people and for the loader.
struct Library {
  std::string_view file, what, install;
};
constexpr std::array kDeviceLibraries{
    Library{"libgpuplan_cpu.so", "the CPU kernels", "install oneDNN (libdnnl-dev) and build again"},
    Library{"libgpuplan_cuda.so", "the CUDA kernels", "install the CUDA toolkit and build again"}};
constexpr std::array kCollectiveLibraries{
    Library{"libgpuplan_mpi.so", "collectives of CPU ranks",
            "install Open MPI (libopenmpi-dev, openmpi-bin) and build again"},
    Library{"libgpuplan_nccl.so", "collectives of GPUs", "install NCCL and build again"}};

/// Opens `library` and calls `entry`. Loading runs code of other people: a failure is told in the loader's words.
template <class Backend>
Backend& open(const Library& library, const char* entry) {
  for (const auto& dir : device_library_dirs()) {
    const auto path = dir / library.file;
    if (!is_there(path)) continue;
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw EnvError(std::string(library.what) + " cannot be loaded: " + dlerror());
    const auto make = reinterpret_cast<Backend* (*)(int)>(dlsym(handle, entry));
    Backend* const backend = make ? make(kDeviceAbi) : nullptr;
    if (!backend) throw EnvError(path.string() + " belongs to another version of gpuplan: build again");
    return *backend;
  }
  throw EnvError(std::string(library.what) + " are not in this build (no " + std::string(library.file) +
                 "): " + std::string(library.install));
}

}  // namespace

NameTable<DeviceKind> names_of(DeviceKind) {
  static constexpr std::array kNames{NameRow<DeviceKind>{"cpu", DeviceKind::Cpu},
                                     NameRow<DeviceKind>{"cuda", DeviceKind::Cuda}};
  return {"device", kNames};
}
std::string_view to_string(DeviceKind kind) { return names_of(kind).name_of(kind); }

std::vector<std::filesystem::path> device_library_dirs() {
  if (const std::string set = text_of_variable("GPUPLAN_LIBRARY_DIR"); !set.empty()) return {set};
  const auto program = own_program().parent_path();
  return {program / "lib" / "gpuplan", program.parent_path() / "lib" / "gpuplan"};
}

DeviceBackend& device_backend(DeviceKind kind) {
  static std::map<DeviceKind, DeviceBackend*> opened;
  DeviceBackend*& backend = opened[kind];
  // OpenMP reads this as it is loaded. Its own choice is to spin for a millisecond where cores seem free, and other
  // ranks and programs want them too; 10,000 turns are about 30 us, as fast where nobody else is (measured), and
  // nobody's own setting is changed.
  if (kind == DeviceKind::Cpu && !backend && !has_variable("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "10000", 0);
  if (!backend) backend = &open<DeviceBackend>(kDeviceLibraries[std::size_t(kind)], "gpuplan_device_backend");
  return *backend;
}

CollectiveBackend& collective_backend(DeviceKind kind) {
  static std::map<DeviceKind, CollectiveBackend*> opened;
  CollectiveBackend*& backend = opened[kind];
  if (!backend)
    backend = &open<CollectiveBackend>(kCollectiveLibraries[std::size_t(kind)], "gpuplan_collective_backend");
  return *backend;
}

}  // namespace gpuplan

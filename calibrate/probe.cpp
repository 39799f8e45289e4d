#include "calibrate/probe.h"

#include <array>

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 8> kFamilies{"gemm", "attention", "memory", "dispatch", "copy", "overhead", "nccl", "overlap"};
constexpr std::array<std::string_view, 6> kKernels{"copy", "rms-norm", "swiglu", "cross-entropy", "adamw", "nf4-dequantise"};
constexpr std::array<std::string_view, 5> kPaths{"host-to-device", "device-to-host", "pinned-to-device", "device-to-pinned", "peer"};
constexpr std::array<std::string_view, 4> kOverheads{"context", "blas-workspace", "allocator", "communicator"};
constexpr std::array<std::string_view, 2> kDispatches{"empty-kernel", "host-enqueue"};

}  // namespace

std::string_view to_string(ProbeFamily family) { return kFamilies[std::size_t(family)]; }
std::string_view to_string(MemoryKernel kernel) { return kKernels[std::size_t(kernel)]; }
std::string_view to_string(CopyPath path) { return kPaths[std::size_t(path)]; }
std::string_view to_string(OverheadKind kind) { return kOverheads[std::size_t(kind)]; }
std::string_view to_string(DispatchKind kind) { return kDispatches[std::size_t(kind)]; }

}  // namespace gpuplan

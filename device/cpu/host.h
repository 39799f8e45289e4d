// This machine as the CPU device: its memory, its processor, and which instruction set oneDNN chose on it and whether
// it should have chosen better.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"

namespace gpuplan {

/// Aligned to kAlignment, large ones to 2 MiB and asked to be huge pages. Throws EnvError with what is asked and what
/// is free.
Buffer host_memory(Bytes size);

Bytes total_host_memory();
/// Memory that can be had without swapping, by the kernel and by the limit of this process' control group.
Bytes free_host_memory();

/// Version of oneDNN, and what it does with this processor.
struct GemmLibrary {
  std::string version;          // "2.6.3"
  std::string instructions;     // "avx512_core_amx", what it really uses
  std::vector<GemmType> types;  // that it multiplies on this processor without conversion
  std::string warning;          // empty, or that the processor has more
};
GemmLibrary gemm_library();

DeviceFacts cpu_facts(int num_threads);

}  // namespace gpuplan

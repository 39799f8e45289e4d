#include "device/cpu/processor.h"

#include <sys/utsname.h>

#include "base/processor.h"
#include "device/cpu/gemm.h"
#include "device/cpu/memory.h"

namespace gpuplan {
namespace {

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}

}  // namespace

DeviceFacts cpu_facts(int num_threads) {
  const GemmLibrary library = gemm_library();
  DeviceFacts facts{.kind = DeviceKind::Cpu,
                    .name = read_processor_facts().name,
                    .architecture = library.instructions,
                    .memory = total_host_memory(),
                    .memory_free = free_host_memory(),
                    .num_cores = num_threads,
                    .gemm_types = library.types,
                    .versions = {{"oneDNN", library.version}, {"Linux", kernel_release()}},
                    .warnings = {}};
  if (!library.warning.empty()) facts.warnings.push_back(library.warning);
  return facts;
}

}  // namespace gpuplan

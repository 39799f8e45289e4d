#include "run/process_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace gpuplan {

Bytes peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return Bytes{kib * 1024};
  }
  return {};
}

ProcessMemory::ProcessMemory() : resident_(peak_resident_bytes()) {}

void ProcessMemory::opened(const Device& device) {
  context_ = device.overhead();
  free_ = device.facts().memory_free;
}

Bytes ProcessMemory::now(const Device& device, Bytes held) const {
  const DeviceFacts facts = device.facts();
  if (facts.kind == DeviceKind::Cpu) return peak_resident_bytes() - resident_;
  return std::max(context_ + (free_ - facts.memory_free), device.overhead() + held);
}

}  // namespace gpuplan

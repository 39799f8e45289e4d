#include "device/nccl/check.h"

#include <fmt/format.h>

namespace gpuplan::nccl {

/// NCCL's number is 10000 major + 100 minor + patch since 2.9, which is older than anything we build with.
std::string version_text() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "of unknown version";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string failure_text(ncclResult_t result, ncclComm_t comm) {
  std::string text = ncclGetErrorString(result);
  if (const char* const last = ncclGetLastError(comm); last && *last) text += fmt::format(" ({})", last);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace gpuplan::nccl

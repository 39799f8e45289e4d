// Every call of NCCL goes through here: what failed becomes an EnvError in NCCL's own words.
#pragma once

#include <string>
#include <string_view>

#include <nccl.h>

#include "base/error.h"

namespace gpuplan::nccl {

/// "2.28.9", of the library that runs.
std::string version_text();

/// What NCCL says about a failure: its name, and the last thing it logged as an error. `comm` may be null.
std::string failure_text(ncclResult_t result, ncclComm_t comm);

inline void nccl_check(ncclResult_t result, std::string_view doing, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  throw EnvError("NCCL " + version_text() + ": " + std::string(doing) + ": " + failure_text(result, comm));
}

}  // namespace gpuplan::nccl

#include "device/nccl/watched_comm.h"

#include <exception>
#include <utility>

namespace gpuplan::nccl {

WatchedComm::~WatchedComm() {
  ncclResult_t state = ncclSuccess;
  if (!comm_) return;
  if (std::uncaught_exceptions() > 0 || ncclCommGetAsyncError(comm_, &state) != ncclSuccess || state != ncclSuccess)
    abort();
  else
    ncclCommDestroy(comm_);
}

ncclComm_t WatchedComm::get() const {
  if (!comm_) throw EnvError("the NCCL communicator was aborted after a failure");
  return comm_;
}

void WatchedComm::check() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(get(), &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return;
  const std::string failure = failure_text(state, comm_);
  abort();
  throw EnvError("NCCL " + version_text() + ": a collective failed: " + failure);
}

void WatchedComm::check_call(ncclResult_t result, std::string_view doing) {
  try {
    nccl_check(result, doing, comm_);
  } catch (const EnvError&) {
    if (result != ncclInvalidArgument && result != ncclInvalidUsage) abort();
    throw;
  }
}

void WatchedComm::abort() noexcept {
  if (ncclComm_t comm = std::exchange(comm_, nullptr)) static_cast<void>(ncclCommAbort(comm));
}

}  // namespace gpuplan::nccl

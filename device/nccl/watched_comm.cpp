#include "device/nccl/watched_comm.h"

#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace gpuplan::nccl {

WatchedComm::~WatchedComm() {
  constexpr std::chrono::seconds kPatience{
      5};  // only ever used up where another communicator of the same graph is not aborted
  if (comm_) finish();
  if (aborted_.valid()) aborted_.wait_for(kPatience);
}

/// Finishes in order, unless a failure ends it: then others may never come.
void WatchedComm::finish() noexcept {
  ncclResult_t state = ncclSuccess;
  if (std::uncaught_exceptions() > 0 || ncclCommGetAsyncError(comm_, &state) != ncclSuccess || state != ncclSuccess)
    return abort();
  release_captured();
  ncclCommDestroy(comm_);
}

ncclComm_t WatchedComm::get() const {
  if (!comm_)
    throw EnvError("the NCCL communicator was aborted after a failure" + (failure_.empty() ? "" : ": " + failure_));
  return comm_;
}

void WatchedComm::check() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(get(), &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return;
  failure_ = "NCCL " + version_text() + ": a collective failed: " + failure_text(state, comm_);
  abort();
  throw EnvError(failure_);
}

void WatchedComm::check_call(ncclResult_t result, std::string_view doing) {
  try {
    nccl_check(result, doing, comm_);
  } catch (const EnvError& error) {
    if (result != ncclInvalidArgument && result != ncclInvalidUsage) {
      failure_ = error.what();
      abort();
    }
    throw;
  }
}

void WatchedComm::release_first(const std::weak_ptr<CapturedWork>& work) {
  std::erase_if(captured_, [](const auto& weak) { return weak.expired(); });
  captured_.push_back(work);
  was_captured_ = true;
}

void WatchedComm::release_captured() noexcept {
  for (const auto& weak : captured_)
    if (const auto alive = weak.lock()) alive->release();
}

/// NCCL first ends its kernels that run, then waits until no graph with collectives of the communicator is left, and
/// what runs of a graph keeps it: kernels of other communicators too, which wait for lost ranks until these are aborted
/// in their turn. So a thread of its own waits for it. Source: NCCL src/init.cc, ncclCommAbort(), commDestroySync() and
/// localPersistentRefs.
void WatchedComm::abort() noexcept {
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (!comm) return;
  release_captured();
  const auto end = [comm] { static_cast<void>(ncclCommAbort(comm)); };
  try {
    if (!was_captured_) return end();
    std::packaged_task<void()> task(end);
    aborted_ = task.get_future();
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {  // no more threads
    end();
  }
}

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

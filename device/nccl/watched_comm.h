// A communicator of NCCL that is asked for errors, and the check of every call of NCCL, which makes an EnvError of a
// failure in NCCL's own words. NCCL reports a lost peer only when it is asked, and work that waits for the peer never
// ends unless the communicator is aborted.
#pragma once

#include <future>
#include <string>
#include <string_view>
#include <vector>

#include <nccl.h>

#include "base/error.h"
#include "device/cuda/native_stream.h"

namespace gpuplan::nccl {

/// "2.28.9", of the library that runs.
std::string version_text();

/// NCCL's words about a failure: its name, and the last thing it logged as an error. `comm` may be null.
std::string failure_text(ncclResult_t result, ncclComm_t comm);

inline void nccl_check(ncclResult_t result, std::string_view doing, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  throw EnvError("NCCL " + version_text() + ": " + std::string(doing) + ": " + failure_text(result, comm));
}

/// Serves one thread at a time, as a Device does.
class WatchedComm final : public StreamWatch {
 public:
  explicit WatchedComm(ncclComm_t comm) : comm_(comm) {}
  /// Aborts where a failure ends it: to finish in order would be to wait for ranks that may never come.
  ~WatchedComm() override;
  WatchedComm(const WatchedComm&) = delete;
  WatchedComm& operator=(const WatchedComm&) = delete;

  /// Throws EnvError after an abort.
  ncclComm_t get() const;
  /// Aborts and throws EnvError when NCCL knows of a failure.
  void check() override;
  void release_first(const std::weak_ptr<CapturedWork>& work) override;
  /// Checks the result of a call of NCCL. Throws EnvError, and aborts first unless the call was merely wrong: work
  /// under way may wait for a rank that is gone, and freeing memory would then never end.
  void check_call(ncclResult_t result, std::string_view doing);
  /// Ends what is under way, here; peers find out by themselves.
  void abort() noexcept;

 private:
  void finish() noexcept;
  void release_captured() noexcept;

  ncclComm_t comm_;
  std::string failure_;  // why it was aborted, as far as it is known here
  std::vector<std::weak_ptr<CapturedWork>> captured_;
  bool was_captured_ = false;
  std::future<void> aborted_;  // where a thread of its own aborts
};

}  // namespace gpuplan::nccl

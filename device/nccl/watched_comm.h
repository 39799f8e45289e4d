// A communicator of NCCL and the eye on it: NCCL tells of a lost peer only to those who ask, and work that waits for
// the peer never ends unless the communicator is aborted.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "device/cuda/native_stream.h"
#include "device/nccl/check.h"

namespace gpuplan::nccl {

/// For one thread at a time, as a Device is.
class WatchedComm final : public StreamWatch {
 public:
  explicit WatchedComm(ncclComm_t comm) : comm_(comm) {}
  /// Where a failure ends it, it is aborted: to finish in order would be to wait for ranks that may never come.
  ~WatchedComm() override;
  WatchedComm(const WatchedComm&) = delete;
  WatchedComm& operator=(const WatchedComm&) = delete;

  /// Throws EnvError after an abort.
  ncclComm_t get() const;
  /// Aborts and throws EnvError when NCCL knows of a failure.
  void check() override;
  void release_first(const std::weak_ptr<CapturedWork>& work) override;
  /// What a call of NCCL said. Throws EnvError, and aborts first unless the call was merely wrong: what is under way
  /// may wait for a rank that is gone, and freeing memory would then never end.
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

// A communicator of NCCL and the eye on it: NCCL tells of a lost peer only to those who ask, and work that waits for the peer
// never ends unless the communicator is aborted.
#pragma once

#include <exception>

#include "device/cuda/native_stream.h"
#include "device/nccl/check.h"

namespace gpuplan::nccl {

/// For one thread at a time, as a Device is.
class WatchedComm final : public StreamWatch {
 public:
  explicit WatchedComm(ncclComm_t comm) : comm_(comm) {}
  /// After a failure here the others may wait in a call that this rank will not make, and destroying would wait with them.
  ~WatchedComm() override {
    if (std::uncaught_exceptions() > 0) abort();
    else if (comm_) ncclCommDestroy(comm_);
  }
  WatchedComm(const WatchedComm&) = delete;
  WatchedComm& operator=(const WatchedComm&) = delete;

  /// Throws EnvError after an abort.
  ncclComm_t get() const;
  /// Aborts and throws EnvError when NCCL knows of a failure.
  void check() override;
  /// Ends what is under way, here; peers find out by themselves.
  void abort() noexcept;

 private:
  ncclComm_t comm_;
};

}  // namespace gpuplan::nccl

// Streams and events of one GPU.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/cuda/check.h"
#include "device/cuda/context.h"
#include "device/cuda/native_stream.h"

namespace gpuplan::cuda {

/// Events that can end the waiting for a stream: errors of tasks on the host, and watches. Shared by a stream and the
/// events on it.
class StreamState {
 public:
  void watch(const std::shared_ptr<StreamWatch>& watch);
  /// Aborts this stream too when the awaited one is aborted.
  void watch_as(const StreamState& other);
  /// Releases what a graph has recorded of this stream before what is watched.
  void release_first(const std::weak_ptr<CapturedWork>& work) const;
  void fail(std::string error);  // of a task on the host; any thread
  void throw_failure();          // the first one, once
  /// Waits until `status` is something else than cudaErrorNotReady. Watches are asked about once a millisecond.
  void wait(const std::function<cudaError_t()>& status);
  bool is_watched() const { return !watches_.empty(); }

 private:
  void check_watches();
  std::vector<std::weak_ptr<StreamWatch>> watches_;
  std::mutex mutex_;
  std::string failure_;
};

class CudaStream final : public NativeStream {
 public:
  CudaStream(int device_index, std::shared_ptr<OpenedGpu> gpu, StreamUse use = StreamUse::Compute);
  ~CudaStream() override;

  void synchronise() override;
  void run_on_host(std::function<void()> task) override;
  CUstream_st* native() const override { return stream_.get(); }
  int device_index() const override { return device_index_; }
  void watch(const std::shared_ptr<StreamWatch>& watch) override { state_->watch(watch); }

  const std::shared_ptr<StreamState>& state() const { return state_; }
  /// CUDA returns from a copy of pageable memory only when the stream has come to it: where that may be never, `host`
  /// being such memory, waits here, where a watch is asked.
  void before_copy(const void* host);
  /// Scratch memory for products and sums: work of a stream never overlaps, so one is enough for it. Allocated at first
  /// use.
  void* workspace(Bytes size);

 private:
  int device_index_;
  std::shared_ptr<OpenedGpu> gpu_;
  StreamOwner stream_;
  DeviceMemory workspace_;
  Bytes workspace_size_;
  std::shared_ptr<StreamState> state_ = std::make_shared<StreamState>();
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device_index);
  void synchronise() override;
  void record(CudaStream& stream);
  /// Null before the first record.
  const std::shared_ptr<StreamState>& state() const { return state_; }
  cudaEvent_t native() const { return event_.get(); }

 private:
  int device_index_;
  EventOwner event_;
  std::shared_ptr<StreamState> state_;  // of the stream it was recorded on
};

}  // namespace gpuplan::cuda

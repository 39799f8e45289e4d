// What streams of one GPU were asked to do, recorded as a CUDA graph.
#pragma once

#include <memory>

#include "device/cuda/check.h"
#include "device/cuda/native_stream.h"
#include "device/cuda/stream.h"

namespace gpuplan::cuda {

/// Records work of the stream and of those that wait for it instead of running it, until end() or the end of the scope.
/// Calls of this thread that CUDA calls unsafe then, such as allocations, are refused, those of other threads (NCCL has
/// some) are not.
class Capture {
 public:
  explicit Capture(CudaStream& origin);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// All streams have joined the first one again. Throws EnvError when something in between was refused.
  GraphOwner end();

 private:
  CudaStream& origin_;
  bool is_open_ = true;
};

class CudaGraph final : public Graph {
 public:
  /// `origin`: the stream it was captured on, which now has the watches of all that joined it.
  CudaGraph(GraphOwner recorded, CudaStream& origin);
  void launch(CudaStream& stream);

 private:
  struct Work;
  std::shared_ptr<Work> work_;
  std::shared_ptr<StreamState> state_;  // of the stream it was captured on: whoever waits for a launch asks its watches
};

}  // namespace gpuplan::cuda

// Streams whose work is recorded instead of run, and the graphs that come of it.
//
// Several streams take part in a capture: the one that it began on, and those that have waited for an event recorded in
// it. What is recorded goes after what is before it on its stream, and after the events that its stream has waited for.
// A call that CUDA does not allow then invalidates the capture: all that follows fails, until it is ended.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_device/fake/runtime/state.h"

namespace gpuplan::fake {

/// Numbers of nodes that something goes after.
using After = std::vector<std::size_t>;

struct Node {
  TaskAtLaunch at_launch;
  After after;
  std::size_t lane = 0;  // the place of its stream in the capture
};

struct Recorded {
  std::vector<Node> nodes;
  std::size_t num_lanes = 0;
};

/// Guarded by captures_mutex(), as all that follows.
class Capture {
 public:
  explicit Capture(const CUstream_st& origin);

  bool has(const CUstream_st& stream) const { return lanes_.contains(stream.worker); }
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  bool began_on(const CUstream_st& stream) const { return stream.worker == origin_; }
  bool is_over() const { return is_over_; }
  bool is_valid() const { return is_valid_; }
  /// Gives `why`.
  cudaError_t invalidate(cudaError_t why);

  cudaError_t add(const CUstream_st& stream, TaskAtLaunch at_launch);
  After ends_of(const CUstream_st& stream) const { return lanes_.at(stream.worker).ends; }
  /// The stream takes part from now on, if it did not, and goes on after `ends`.
  cudaError_t join(const CUstream_st& stream, const After& ends);
  /// Over, with what was recorded, unless it was invalid or a stream has work that the first one does not go after.
  cudaError_t end(Recorded& out);

 private:
  struct Lane {
    std::size_t number = 0;
    After ends;
  };
  bool is_joined() const;

  std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<Worker> origin_;
  std::map<std::shared_ptr<Worker>, Lane> lanes_;
  Recorded recorded_;
  bool is_valid_ = true, is_over_ = false;
};

std::mutex& captures_mutex();
std::vector<std::shared_ptr<Capture>>& captures();  // that are not over
/// Null when there is none.
std::shared_ptr<Capture> capture_of(const CUstream_st& stream);

// --- locked by themselves ---

bool is_captured(const CUstream_st& stream);
/// Of a call about a stream that makes no sense while it is captured; cudaSuccess when it is not.
cudaError_t refused_of_captured(const CUstream_st& stream);
/// Of a call that is not enqueued, and that CUDA calls unsafe while this thread captures: what it does would be no part
/// of the graph.
cudaError_t refused_while_capturing();

}  // namespace gpuplan::fake

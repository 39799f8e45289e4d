#include "cuda_device/fake/runtime/capture.h"

#include <algorithm>
#include <utility>

namespace gpuplan::fake {

Capture::Capture(const CUstream_st& origin) : origin_(origin.worker), lanes_{{origin.worker, Lane{}}} {}

cudaError_t Capture::invalidate(cudaError_t why) {
  is_valid_ = false;
  return why;
}

cudaError_t Capture::add(const CUstream_st& stream, TaskAtLaunch at_launch) {
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  if (is_capture_to_break(stream.device)) return invalidate(cudaErrorStreamCaptureUnsupported);
  Lane& lane = lanes_.at(stream.worker);
  const std::size_t number = recorded_.nodes.size();
  recorded_.nodes.push_back({std::move(at_launch), std::exchange(lane.ends, {number}), lane.number});
  return cudaSuccess;
}

cudaError_t Capture::join(const CUstream_st& stream, const After& ends) {
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  Lane& lane = lanes_.try_emplace(stream.worker, Lane{.number = lanes_.size(), .ends = {}}).first->second;
  lane.ends.insert(lane.ends.end(), ends.begin(), ends.end());
  return cudaSuccess;
}

/// Whether the first stream's end goes after all that was recorded.
bool Capture::is_joined() const {
  std::vector<bool> is_before(recorded_.nodes.size());
  for (const std::size_t end : lanes_.at(origin_).ends) is_before[end] = true;
  for (std::size_t i = recorded_.nodes.size(); i-- > 0;)
    for (const std::size_t other : recorded_.nodes[i].after)
      if (is_before[i]) is_before[other] = true;
  return std::ranges::all_of(is_before, [](bool yes) { return yes; });
}

cudaError_t Capture::end(Recorded& out) {
  is_over_ = true;
  if (!is_valid_) return cudaErrorStreamCaptureInvalidated;
  if (!is_joined()) return cudaErrorStreamCaptureUnjoined;
  out = std::move(recorded_);
  out.num_lanes = lanes_.size();
  return cudaSuccess;
}

std::mutex& captures_mutex() {
  static std::mutex& only = *new std::mutex;
  return only;
}

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto& only = *new std::vector<std::shared_ptr<Capture>>;
  return only;
}

std::shared_ptr<Capture> capture_of(const CUstream_st& stream) {
  for (const auto& capture : captures())
    if (capture->has(stream)) return capture;
  return nullptr;
}

bool is_captured(const CUstream_st& stream) {
  const std::lock_guard lock(captures_mutex());
  return capture_of(stream) != nullptr;
}

cudaError_t refused_of_captured(const CUstream_st& stream) {
  const std::lock_guard lock(captures_mutex());
  const auto capture = capture_of(stream);
  return capture ? capture->invalidate(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t refused_while_capturing() {
  const std::lock_guard lock(captures_mutex());
  cudaError_t status = cudaSuccess;
  for (const auto& capture : captures())
    if (capture->is_of_this_thread()) status = capture->invalidate(cudaErrorStreamCaptureUnsupported);
  return status;
}

}  // namespace gpuplan::fake

using namespace gpuplan::fake;

extern "C" {

/// Only the mode that gpuplan uses.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const auto status = entered()) return said(status);
  if (!stream || mode != cudaStreamCaptureModeThreadLocal) return said(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(captures_mutex());
  if (capture_of(*stream)) return said(cudaErrorIllegalState);
  captures().push_back(std::make_shared<Capture>(*stream));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  if (const auto status = entered()) return said(status);
  const std::lock_guard lock(captures_mutex());
  const auto capture = capture_of(resolved(stream));
  *out = !capture              ? cudaStreamCaptureStatusNone
         : capture->is_valid() ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(captures_mutex());
  const auto capture = capture_of(resolved(stream));
  if (!capture) return said(cudaErrorIllegalState);
  if (!capture->began_on(*stream)) return said(capture->invalidate(cudaErrorStreamCaptureUnmatched));
  if (!capture->is_of_this_thread()) return said(cudaErrorStreamCaptureWrongThread);
  std::erase(captures(), capture);
  Recorded recorded;
  if (const auto status = capture->end(recorded)) return said(status);
  *graph = new CUgraph_st{std::make_shared<Recorded>(std::move(recorded))};
  return cudaSuccess;
}

}  // extern "C"

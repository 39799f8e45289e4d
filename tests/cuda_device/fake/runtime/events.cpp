// Events: each record is a moment of its own, and what waits, waits for the moment that was the last one then. Recorded
// on a stream that is captured, an event is no moment but a place in the capture, and nothing to those outside.
#include "cuda_device/fake/runtime/capture.h"

using namespace gpuplan::fake;

namespace {

std::shared_ptr<Moment> last_moment(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->recorded;
}

bool is_of_capture(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->capture != nullptr;
}

/// What a call that waits for an event on the host is refused with.
cudaError_t refused_on_host(cudaEvent_t event) {
  if (is_of_capture(event)) return cudaErrorCapturedEvent;
  return refused_while_capturing();
}

/// Requires: captures_mutex() is held, and one of the two belongs to a capture.
cudaError_t wait_in_capture(const CUstream_st& stream, const std::shared_ptr<Capture>& of_stream, cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  if (!event->capture) return event->recorded ? of_stream->invalidate(cudaErrorStreamCaptureIsolation) : cudaSuccess;
  if (event->capture->is_over())
    return of_stream ? of_stream->invalidate(cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
  if (!of_stream || of_stream == event->capture) return event->capture->join(stream, event->ends);
  event->capture->invalidate(cudaErrorStreamCaptureMerge);
  return of_stream->invalidate(cudaErrorStreamCaptureMerge);
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  if (const auto status = entered()) return said(status);
  *event = new CUevent_st{.device = current_device(), .gpu = gpu(current_device())};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return said(entered());
}

/// The event and the stream are of one GPU.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  if (on.device != event->device) return said(cudaErrorInvalidResourceHandle);
  const auto moment = std::make_shared<Moment>();
  {
    const std::scoped_lock lock(captures_mutex(), event->mutex);
    event->capture = capture_of(on);
    if (event->capture) {
      event->ends = event->capture->ends_of(on);
      return cudaSuccess;
    }
    event->recorded = moment;
  }
  on.worker->enqueue([moment] { moment->come(); });  // also on a lost GPU: nobody is to wait for ever
  return cudaSuccess;
}

/// The two may be of different GPUs. An event that was never recorded is no reason to wait.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  {
    const std::lock_guard lock(captures_mutex());
    const auto capture = capture_of(on);
    if (capture || is_of_capture(event)) return said(wait_in_capture(on, capture, event));
  }
  if (const auto moment = last_moment(event)) on.worker->enqueue([moment] { moment->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto status = entered()) return said(status);
  if (event->gpu->lost != cudaSuccess) return said(event->gpu->lost);
  if (const auto status = refused_on_host(event)) return said(status);
  const auto moment = last_moment(event);
  return said(!moment || moment->has_come() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto status = entered()) return said(status);
  if (const auto status = refused_on_host(event)) return said(status);
  if (const auto moment = last_moment(event)) moment->wait();
  return said(event->gpu->lost);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (const auto status = entered()) return said(status);
  if (is_of_capture(begin) || is_of_capture(end)) return said(cudaErrorCapturedEvent);
  const auto first = last_moment(begin), last = last_moment(end);
  if (!first || !last || begin->device != end->device) return said(cudaErrorInvalidResourceHandle);
  if (!first->has_come() || !last->has_come()) return said(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
  return cudaSuccess;
}

}  // extern "C"

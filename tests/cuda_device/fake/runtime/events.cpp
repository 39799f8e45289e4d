// Events: each record is a moment of its own, and what waits, waits for the moment that was the last one then.
#include "cuda_device/fake/runtime/state.h"

using namespace gpuplan::fake;

namespace {

std::shared_ptr<Moment> last_moment(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->recorded;
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
    const std::lock_guard lock(event->mutex);
    event->recorded = moment;
  }
  on.worker->enqueue([moment] { moment->come(); });  // also on a lost GPU: nobody is to wait for ever
  return cudaSuccess;
}

/// The two may be of different GPUs. An event that was never recorded is no reason to wait.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto status = entered()) return said(status);
  if (const auto moment = last_moment(event)) resolved(stream).worker->enqueue([moment] { moment->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto status = entered()) return said(status);
  if (event->gpu->lost != cudaSuccess) return said(event->gpu->lost);
  const auto moment = last_moment(event);
  return said(!moment || moment->has_come() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto status = entered()) return said(status);
  if (const auto moment = last_moment(event)) moment->wait();
  return said(event->gpu->lost);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (const auto status = entered()) return said(status);
  const auto first = last_moment(begin), last = last_moment(end);
  if (!first || !last || begin->device != end->device) return said(cudaErrorInvalidResourceHandle);
  if (!first->has_come() || !last->has_come()) return said(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
  return cudaSuccess;
}

}  // extern "C"

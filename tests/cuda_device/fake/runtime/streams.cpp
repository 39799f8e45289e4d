// Streams, what is enqueued on them, and copies.
#include <cstring>

#include "cuda_device/fake/runtime/capture.h"

namespace gpuplan::fake {
namespace {

std::shared_ptr<Worker> new_worker(GpuState& gpu) {
  auto worker = Worker::start();
  const std::lock_guard lock(gpu.mutex);
  gpu.workers.push_back(worker);
  return worker;
}

CUstream_st default_stream() {
  const auto state = gpu(current_device());
  if (!state->default_worker) state->default_worker = new_worker(*state);
  return {current_device(), state, state->default_worker};
}

bool is_direction_right(cudaMemcpyKind kind, const Location& to, const Location& from) {
  const bool is_to_device = to.place == Place::Device, is_from_device = from.place == Place::Device;
  switch (kind) {
    case cudaMemcpyHostToDevice: return is_to_device && !is_from_device;
    case cudaMemcpyDeviceToHost: return !is_to_device && is_from_device;
    case cudaMemcpyDeviceToDevice: return is_to_device && is_from_device;
    case cudaMemcpyHostToHost: return !is_to_device && !is_from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

bool is_in_bounds(const Location& location, std::int64_t size) {
  return location.place == Place::Pageable || size <= location.bytes_left;
}

}  // namespace

void Moment::come() {
  const std::lock_guard lock(mutex_);
  has_come_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}
bool Moment::has_come() {
  const std::lock_guard lock(mutex_);
  return has_come_;
}
void Moment::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_come_; });
}
std::chrono::steady_clock::time_point Moment::time() {
  const std::lock_guard lock(mutex_);
  return time_;
}

CUstream_st resolved(cudaStream_t stream) { return stream ? *stream : default_stream(); }

cudaError_t enqueue_at_launch(const CUstream_st& stream, TaskAtLaunch at_launch) {
  {
    const std::lock_guard lock(captures_mutex());
    if (const auto capture = capture_of(stream)) return capture->add(stream, std::move(at_launch));
  }
  stream.worker->enqueue(at_launch());
  return cudaSuccess;
}

Task unless_lost(const std::shared_ptr<GpuState>& gpu, Task task) {
  return [gpu, task = std::move(task)] {
    if (gpu->lost == cudaSuccess) task();
  };
}

cudaError_t enqueue(const CUstream_st& stream, Task task) {
  return enqueue_at_launch(stream, [task = unless_lost(stream.gpu, std::move(task))] { return task; });
}

}  // namespace gpuplan::fake

using namespace gpuplan::fake;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const auto status = entered()) return said(status);
  const auto state = gpu(current_device());
  *stream = new CUstream_st{current_device(), state, new_worker(*state)};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return said(entered());
}

/// What is enqueued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return said(cudaErrorInvalidResourceHandle);
  stream->worker->close();
  delete stream;
  return said(entered());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  if (const auto status = refused_of_captured(on)) return said(status);
  if (const auto status = refused_while_capturing()) return said(status);
  if (on.gpu->lost != cudaSuccess) return said(on.gpu->lost);
  return said(on.worker->is_idle() ? on.gpu->lost.load() : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  if (const auto status = refused_of_captured(on)) return said(status);
  if (const auto status = refused_while_capturing()) return said(status);
  on.worker->wait_idle();
  return said(on.gpu->lost);
}

/// The function is not called once the GPU is lost, as CUDA says.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const auto status = entered()) return said(status);
  return said(enqueue(resolved(stream), [=] {
    is_in_host_function() = true;
    function(data);
    is_in_host_function() = false;
  }));
}

/// Pageable memory: what is to be copied has been read, or written, when the call returns. Pinned memory: only once the
/// stream is there. Stricter than CUDA: of pageable memory nothing is recorded.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  if (size == 0) return cudaSuccess;
  const Location there = locate(to), here = locate(from);
  if (!is_direction_right(kind, there, here) || !is_in_bounds(there, std::int64_t(size)) ||
      !is_in_bounds(here, std::int64_t(size)))
    return said(cudaErrorInvalidValue);
  const CUstream_st on = resolved(stream);
  if (here.place == Place::Pageable || there.place == Place::Pageable)
    if (const auto status = refused_of_captured(on)) return said(status);
  cudaError_t status = cudaSuccess;
  if (here.place == Place::Pageable) {
    const auto* const bytes = static_cast<const char*>(from);
    auto staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
    status = enqueue(on, [=] { std::memcpy(to, staged->data(), size); });
  } else {
    status = enqueue(on, [=] { std::memmove(to, from, size); });
  }
  if (there.place == Place::Pageable) on.worker->wait_idle();
  return said(status ? status : on.gpu->lost.load());
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t size, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const Location there = locate(to);
  if (size > 0 && (there.place == Place::Pageable || std::int64_t(size) > there.bytes_left))
    return said(cudaErrorInvalidValue);
  return said(enqueue(resolved(stream), [=] { std::memset(to, value, size); }));
}

}  // extern "C"

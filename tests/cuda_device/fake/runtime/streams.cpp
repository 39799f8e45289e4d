// Streams, what is enqueued on them, and copies.
#include <cstring>

#include "cuda_device/fake/runtime/state.h"

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

bool is_in_bounds(const Location& location, std::int64_t size) { return location.place == Place::Pageable || size <= location.bytes_left; }

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

void enqueue(const CUstream_st& stream, std::function<void()> task) {
  stream.worker->enqueue([gpu = stream.gpu, task = std::move(task)] {
    if (gpu->lost == cudaSuccess) task();
  });
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

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }

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
  if (on.gpu->lost != cudaSuccess) return said(on.gpu->lost);
  return said(on.worker->is_idle() ? on.gpu->lost.load() : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  on.worker->wait_idle();
  return said(on.gpu->lost);
}

/// The function is not called once the GPU is lost, as CUDA says.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const auto status = entered()) return said(status);
  enqueue(resolved(stream), [=] {
    is_in_host_function() = true;
    function(data);
    is_in_host_function() = false;
  });
  return cudaSuccess;
}

/// Pageable memory: what is to be copied has been read, or written, when the call returns. Pinned memory: only once the stream is there.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  if (size == 0) return cudaSuccess;
  const Location there = locate(to), here = locate(from);
  if (!is_direction_right(kind, there, here) || !is_in_bounds(there, std::int64_t(size)) || !is_in_bounds(here, std::int64_t(size)))
    return said(cudaErrorInvalidValue);
  const CUstream_st on = resolved(stream);
  if (here.place == Place::Pageable) {
    const auto* const bytes = static_cast<const char*>(from);
    auto staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
    enqueue(on, [=] { std::memcpy(to, staged->data(), size); });
  } else {
    enqueue(on, [=] { std::memmove(to, from, size); });
  }
  if (there.place == Place::Pageable) on.worker->wait_idle();
  return said(on.gpu->lost);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t size, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const Location there = locate(to);
  if (size > 0 && (there.place == Place::Pageable || std::int64_t(size) > there.bytes_left)) return said(cudaErrorInvalidValue);
  enqueue(resolved(stream), [=] { std::memset(to, value, size); });
  return cudaSuccess;
}

}  // extern "C"

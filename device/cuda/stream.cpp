#include "device/cuda/stream.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "base/unit_text.h"

namespace gpuplan::cuda {
namespace {

/// A task on its way through the driver, which calls it on a thread of its own.
struct HostTask {
  std::function<void()> run;
  std::shared_ptr<StreamState> state;
};

void CUDART_CB run_task(void* data) {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(data));
  try {
    task->run();
  } catch (const std::exception& error) { task->state->fail(error.what()); } catch (...) {
    task->state->fail("unknown error");
  }
}

/// Streams that communicate come first where both want multiprocessors: their work is short, and others wait for it.
StreamOwner create_native(int device_index, StreamUse use) {
  cuda_check(cudaSetDevice(device_index), "selecting the GPU");
  cudaStream_t stream = nullptr;
  int lowest = 0, highest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for the priorities of streams");
  cuda_check(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, use == StreamUse::Communication ? highest : lowest),
      "creating a stream");
  return StreamOwner(stream);
}

}  // namespace

void StreamState::watch(const std::shared_ptr<StreamWatch>& watch) {
  const auto is_same = [&](const auto& other) { return !other.owner_before(watch) && !watch.owner_before(other); };
  if (std::none_of(watches_.begin(), watches_.end(), is_same)) watches_.push_back(watch);
}

void StreamState::watch_as(const StreamState& other) {
  for (const auto& weak : other.watches_)
    if (const auto alive = weak.lock()) watch(alive);
}

void StreamState::release_first(const std::weak_ptr<CapturedWork>& work) const {
  for (const auto& weak : watches_)
    if (const auto alive = weak.lock()) alive->release_first(work);
}

void StreamState::fail(std::string error) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = std::move(error);
}

void StreamState::throw_failure() {
  std::string failure;
  {
    const std::lock_guard lock(mutex_);
    failure.swap(failure_);
  }
  if (!failure.empty()) throw EnvError("a task on the stream failed: " + failure);
}

void StreamState::check_watches() {
  std::erase_if(watches_, [](const auto& watch) { return watch.expired(); });
  for (const auto& watch : watches_)
    if (const auto alive = watch.lock()) alive->check();
}

void StreamState::wait(const std::function<cudaError_t()>& status) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenChecks{1},
      kSpin{2};  // then the core is left to whom it is of use: NCCL's proxy, the loader of data
  constexpr std::chrono::microseconds kNap{50};
  const auto begin = Clock::now();
  auto next_check = begin + kBetweenChecks;
  cudaError_t now = cudaErrorNotReady;
  while (is_under_way(now = status())) {
    const auto time = Clock::now();
    if (time - begin < kSpin)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
    if (time < next_check) continue;
    check_watches();
    next_check = time + kBetweenChecks;
  }
  check_watches();
  cuda_check(now, "work on a stream");
}

CudaStream::CudaStream(int device_index, std::shared_ptr<OpenedGpu> gpu, StreamUse use)
    : device_index_(device_index),
      gpu_(std::move(gpu)),
      stream_(create_native(device_index, use)) {}

/// Waits: work that is under way may use the workspace, and operands whose owners end after this one.
CudaStream::~CudaStream() {
  try {
    synchronise();
  } catch (const std::exception&) {  // told where it was waited for
  }
  if (workspace_) gpu_->workspaces.remove(workspace_size_);
}

void CudaStream::synchronise() {
  if (state_->is_watched())
    state_->wait([this] { return cudaStreamQuery(native()); });
  else
    cuda_check(cudaStreamSynchronize(native()), "work on a stream");
  state_->throw_failure();
}

void CudaStream::run_on_host(std::function<void()> task) {
  cudaStreamCaptureStatus capture{};
  cuda_check(cudaStreamIsCapturing(native(), &capture), "asking whether a stream is recorded");
  if (capture != cudaStreamCaptureStatusNone)
    throw EnvError("a task on the host cannot be part of a graph: it is run once");
  std::unique_ptr<HostTask> held(new HostTask{std::move(task), state_});
  cuda_check(cudaLaunchHostFunc(native(), &run_task, held.get()), "enqueuing a task on the host");
  static_cast<void>(held.release());  // run_task frees it
}

void CudaStream::before_copy(const void* host) {
  if (!state_->is_watched()) return;
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, host), "asking for the kind of memory");
  if (attributes.type == cudaMemoryTypeUnregistered) state_->wait([this] { return cudaStreamQuery(native()); });
}

void* CudaStream::workspace(Bytes size) {
  if (!workspace_) {
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, std::size_t(size.count)),
               "allocating the workspace of a stream (" + format_bytes(size) + ")");
    workspace_.reset(memory);
    workspace_size_ = size;
    gpu_->workspaces.add(size);
  }
  return workspace_.get();
}

CudaEvent::CudaEvent(int device_index) : device_index_(device_index) {
  cuda_check(cudaSetDevice(device_index), "selecting the GPU");
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreate(&event), "creating an event");
  event_.reset(event);
}

void CudaEvent::record(CudaStream& stream) {
  GPUPLAN_CHECK(stream.device_index() == device_index_, "an event is recorded on a stream of its own device");
  state_ = stream.state();
  cuda_check(cudaEventRecord(native(), stream.native()), "recording an event");
}

void CudaEvent::synchronise() {
  if (state_ && state_->is_watched())
    state_->wait([this] { return cudaEventQuery(native()); });
  else
    cuda_check(cudaEventSynchronize(native()), "waiting for an event");
}

}  // namespace gpuplan::cuda

// What the fake runtime remembers: GPUs, the memory on them, streams and events. Inside of libgpuplan_fake_cuda.so
// only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda_device/fake/machine.h"
#include "cuda_device/fake/runtime/worker.h"

namespace gpuplan::fake {

/// What using a GPU takes of its memory before anything is allocated.
inline constexpr std::int64_t kContextBytes = std::int64_t(400) << 20;

/// One GPU, as this process sees it.
struct GpuState {
  Gpu facts;
  std::atomic<cudaError_t> lost{cudaSuccess};  // the sticky error, once it has one
  std::mutex mutex;                            // guards what follows
  std::int64_t allocated = 0;                  // bytes
  bool has_context = false;
  std::set<int> peers;                         // it may access
  std::vector<std::weak_ptr<Worker>> workers;  // of all its streams
  std::shared_ptr<Worker> default_worker;      // of the null stream
};

class Capture;    // capture.h
struct Recorded;  // capture.h

/// The moment that an event was recorded for.
class Moment {
 public:
  void come();
  bool has_come();
  void wait();
  std::chrono::steady_clock::time_point time();  // requires: has_come

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
  std::chrono::steady_clock::time_point time_;
};

// --- the machine
// ------------------------------------------------------------------------------------------------------

int num_gpus();
/// Null when there is no such GPU.
std::shared_ptr<GpuState> gpu(int index);
int& current_device();  // of this thread
Driver driver();
bool has_kernels();
bool has_epilogues();
bool is_allocation_to_fail();          // counts
bool is_gpu_to_be_lost();              // counts launches
bool is_capture_to_break(int device);  // counts what is recorded

// --- errors
// -----------------------------------------------------------------------------------------------------------

/// Remembers what failed for cudaGetLastError.
cudaError_t said(cudaError_t status);
/// What every call begins with: whether there is a driver, the thread may call at all, and the current GPU still works.
cudaError_t entered();
/// True in a function of cudaLaunchHostFunc.
bool& is_in_host_function();

// --- memory
// -----------------------------------------------------------------------------------------------------------

enum class Place { Pageable, Pinned, Device };
struct Location {
  Place place = Place::Pageable;
  int device = -1;
  std::int64_t bytes_left = 0;  // to the end of the allocation
};
Location locate(const void* address);
bool is_on_device(const void* address, std::int64_t bytes, int device);

}  // namespace gpuplan::fake

struct CUstream_st {
  int device = 0;
  std::shared_ptr<gpuplan::fake::GpuState> gpu;
  std::shared_ptr<gpuplan::fake::Worker> worker;
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<gpuplan::fake::GpuState> gpu;
  std::mutex mutex;
  std::shared_ptr<gpuplan::fake::Moment> recorded;  // null before the first record
  // Where the last record was in a capture:
  std::shared_ptr<gpuplan::fake::Capture> capture;
  std::vector<std::size_t> ends;  // numbers of the nodes it is after
};

struct CUgraph_st {
  std::shared_ptr<const gpuplan::fake::Recorded> recorded;
};

namespace gpuplan::fake {

/// The stream, or for null the current GPU's own.
CUstream_st resolved(cudaStream_t stream);

using Task = std::function<void()>;
/// Asked on the host at each launch, which of a graph's work there may be many: what runs this time.
using TaskAtLaunch = std::function<Task()>;
/// In the stream's order: launched now, or recorded while the stream is captured.
cudaError_t enqueue_at_launch(const CUstream_st& stream, TaskAtLaunch at_launch);
/// The same each time; dropped when the GPU is lost by then.
cudaError_t enqueue(const CUstream_st& stream, Task task);
/// What drops the task when the GPU is lost.
Task unless_lost(const std::shared_ptr<GpuState>& gpu, Task task);

}  // namespace gpuplan::fake

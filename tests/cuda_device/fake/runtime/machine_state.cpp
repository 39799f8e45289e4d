// GPUs of the machine that is played, and the errors of this thread.
#include <utility>

#include "cuda_device/fake/runtime/state.h"

namespace gpuplan::fake {
namespace {

struct Played {
  std::mutex mutex;
  Machine machine;
  std::vector<std::shared_ptr<GpuState>> gpus;

  Played() { set(machine_of_environment()); }
  void set(const Machine& now) {
    const std::lock_guard lock(mutex);
    machine = now;
    gpus.clear();
    for (const Gpu& facts : machine.gpus) {
      gpus.push_back(std::make_shared<GpuState>());
      gpus.back()->facts = facts;
    }
  }
  bool is_of_broken_captures(int device) {
    const std::lock_guard lock(mutex);
    return machine.break_capture_on < 0 || machine.break_capture_on == device;
  }
  /// True when `counter` comes to its end with this call.
  bool counts_down(int Machine::*counter) {
    const std::lock_guard lock(mutex);
    return machine.*counter > 0 && --(machine.*counter) == 0;
  }
};

/// Never destroyed: threads of streams may outlive main.
Played& played() {
  static Played& only = *new Played;
  return only;
}

thread_local cudaError_t t_last_error = cudaSuccess;

}  // namespace

void play(const Machine& machine) { played().set(machine); }

int num_gpus() {
  const std::lock_guard lock(played().mutex);
  return int(played().gpus.size());
}

std::shared_ptr<GpuState> gpu(int index) {
  const std::lock_guard lock(played().mutex);
  const auto& gpus = played().gpus;
  return index >= 0 && index < int(gpus.size()) ? gpus[std::size_t(index)] : nullptr;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

Driver driver() {
  const std::lock_guard lock(played().mutex);
  return played().machine.driver;
}
bool has_kernels() {
  const std::lock_guard lock(played().mutex);
  return played().machine.has_kernels;
}
bool has_epilogues() {
  const std::lock_guard lock(played().mutex);
  return played().machine.has_epilogues;
}
bool is_allocation_to_fail() { return played().counts_down(&Machine::fail_allocation); }
bool is_capture_to_break(int device) {
  return played().is_of_broken_captures(device) && played().counts_down(&Machine::break_capture_at);
}
bool is_gpu_to_be_lost() { return played().counts_down(&Machine::lose_gpu_at_launch); }

bool& is_in_host_function() {
  thread_local bool is_in = false;
  return is_in;
}

cudaError_t said(cudaError_t status) {
  if (status != cudaSuccess) t_last_error = status;
  return status;
}

cudaError_t entered() {
  if (driver() != Driver::Present) return cudaErrorInsufficientDriver;
  if (is_in_host_function()) return cudaErrorNotPermitted;
  const auto now = gpu(current_device());
  if (!now) return num_gpus() == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
  {
    const std::lock_guard lock(now->mutex);
    now->has_context = true;
  }
  return now->lost;
}

}  // namespace gpuplan::fake

using namespace gpuplan::fake;

extern "C" {

/// A sticky error stays; any other is told once.
cudaError_t cudaGetLastError() {
  const auto now = gpu(current_device());
  const cudaError_t last = std::exchange(t_last_error, cudaSuccess);
  return now && now->lost != cudaSuccess ? now->lost.load() : last;
}

}  // extern "C"

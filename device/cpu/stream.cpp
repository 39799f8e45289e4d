#include "device/cpu/stream.h"

#include <new>
#include <utility>

#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "device/pause_core.h"

namespace gpuplan {
namespace {

/// Looks for `condition` this long before sleeping: waking a thread costs 5 to 50 us, and the next task is often near.
/// Never yields: Linux takes a thread that yields for one that has used up its slice (3 ms), so that ranks beside a
/// busy program got a tenth of the core that a thread gets which sleeps.
template <class Condition>
bool spin(Condition condition) {
  constexpr auto kPatience = std::chrono::microseconds(30);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    if (condition()) return true;
    pause_core();
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

/// The calling thread runs for a tenth of a millisecond at a time, and so is let in sooner when it wakes than threads
/// that compute for milliseconds, with no larger share of the core. Source: sched_setattr(2), sched_runtime of
/// SCHED_OTHER; Linux before 6.12 takes no notice.
void ask_for_short_slices() {
  struct {  // its first version: Debian 12's headers of Linux and of C both declare sched_param
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t niceness;
    std::uint32_t priority;
    std::uint64_t sched_runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.sched_runtime = 100'000;  // ns
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Turns an exception of a task into the errors that callers of a device know.
std::exception_ptr as_device_error() {
  try {
    throw;
  } catch (const EnvError&) { return std::current_exception(); } catch (const BugError&) {
    return std::current_exception();
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(EnvError("the CPU device is out of memory"));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(EnvError(std::string("work on the CPU device failed: ") + e.what()));
  } catch (...) { return std::make_exception_ptr(EnvError("work on the CPU device failed")); }
}

}  // namespace

void Mark::reach(std::exception_ptr failed) {
  failure = std::move(failed);
  time = std::chrono::steady_clock::now();
  is_reached.store(true, std::memory_order_release);
  is_reached.notify_all();
}

void Mark::wait() const {
  if (!spin([this] { return is_reached.load(std::memory_order_acquire); }))
    is_reached.wait(false, std::memory_order_acquire);
}

void CpuEvent::synchronise() {
  if (!mark) return;
  mark->wait();
  if (mark->failure) std::rethrow_exception(mark->failure);
}

CpuStream::CpuStream(int num_threads, StreamUse use) : worker_([=, this] { serve(num_threads, use); }) {}

CpuStream::~CpuStream() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  has_work_.notify_one();
  worker_.join();
}

void CpuStream::synchronise() {
  const auto mark = std::make_shared<Mark>();
  push({.mark = mark});
  mark->wait();
  if (!mark->failure) return;
  push({.work = [this] { failure_ = nullptr; }, .mark = nullptr});
  std::rethrow_exception(mark->failure);
}

void CpuStream::enqueue(std::function<void()> task) {
  push({.work = [this, task = std::move(task)] {
    if (!failure_) task();
  }});
}

void CpuStream::record(CpuEvent& event) {
  event.mark = std::make_shared<Mark>();
  push({.mark = event.mark});
}

void CpuStream::wait(CpuEvent& event) {
  if (event.mark) push({.work = [mark = event.mark] { mark->wait(); }});
}

void CpuStream::push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    num_waiting_.store(std::int64_t(tasks_.size()), std::memory_order_release);
  }
  has_work_.notify_one();
}

/// An empty task when the stream closes: after all others.
CpuStream::Task CpuStream::next() {
  spin([this] { return num_waiting_.load(std::memory_order_acquire) > 0; });
  std::unique_lock lock(mutex_);
  has_work_.wait(lock, [this] { return !tasks_.empty() || is_closing_; });
  if (tasks_.empty()) return {};
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  num_waiting_.store(std::int64_t(tasks_.size()), std::memory_order_release);
  return task;
}

void CpuStream::serve(int num_threads, StreamUse use) {
  if (use == StreamUse::Communication) ask_for_short_slices();  // its team inherits them
  omp_set_num_threads(num_threads);
  for (Task task = next(); task.work || task.mark; task = next()) execute(task);
}

void CpuStream::execute(Task& task) {
  if (task.mark) return task.mark->reach(failure_);
  try {
    task.work();
  } catch (...) { failure_ = as_device_error(); }
}

}  // namespace gpuplan

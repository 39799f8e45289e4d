#include "device/cpu/stream.h"

#include <new>
#include <utility>

#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

namespace gpuplan {
namespace {

/// Looks for `condition` this long before sleeping: waking a thread costs 5 to 50 us, and the next task is often near.
/// Yields between looks: where every core has a rank, the thread waited for may need this very core.
template <class Condition>
bool spin(Condition condition) {
  constexpr auto kPatience = std::chrono::microseconds(30);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    if (condition()) return true;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return condition();
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

CpuStream::CpuStream(int num_threads, int niceness) : worker_([=, this] { serve(num_threads, niceness); }) {}

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

void CpuStream::serve(int num_threads, int niceness) {
  if (niceness > 0) setpriority(PRIO_PROCESS, id_t(gettid()), niceness);  // its team inherits it
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

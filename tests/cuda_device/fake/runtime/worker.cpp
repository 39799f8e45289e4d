#include "cuda_device/fake/runtime/worker.h"

#include <thread>
#include <utility>

namespace gpuplan::fake {

/// Detached: as with CUDA, destroying a stream does not wait for it, and a program may end while its work hangs.
std::shared_ptr<Worker> Worker::start() {
  auto worker = std::make_shared<Worker>();
  std::thread([worker] { worker->work(); }).detach();
  return worker;
}

void Worker::enqueue(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void Worker::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool Worker::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !is_busy_;
}

void Worker::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !is_busy_; });
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty() || is_closed_; });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    is_busy_ = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace gpuplan::fake

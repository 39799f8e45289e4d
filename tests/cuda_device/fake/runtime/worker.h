// The thread behind a fake stream: tasks one after the other, beside everybody else's, so that a wait that is missing
// shows as a wrong result.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace gpuplan::fake {

class Worker {
 public:
  /// Its thread lives until close() and the end of what is enqueued by then.
  static std::shared_ptr<Worker> start();
  void enqueue(std::function<void()> task);
  void close();
  bool is_idle();
  void wait_idle();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_busy_ = false, is_closed_ = false;
};

}  // namespace gpuplan::fake

// Streams of the CPU device: one thread each, which runs what is enqueued in order. Events carry the time at which the
// stream came to them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "device/cpu/gemm.h"
#include "device/device.h"

namespace gpuplan {

/// A point in a stream's work, made by one record.
struct Mark {
  std::atomic<bool> is_reached{false};
  std::chrono::steady_clock::time_point time;
  std::exception_ptr failure;  // of the work before it; read after is_reached
  void reach(std::exception_ptr failed);
  void wait() const;
};

class CpuEvent final : public Event {
 public:
  void synchronise() override;
  std::shared_ptr<Mark> mark;  // of the latest record; null before the first
};

class CpuStream final : public Stream {
 public:
  /// Work computes on `num_threads` threads; those that communicate are let in soon when they wake.
  explicit CpuStream(int num_threads, StreamUse use = StreamUse::Compute);
  ~CpuStream() override;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  void synchronise() override;
  void run_on_host(std::function<void()> task) override { enqueue(std::move(task)); }
  /// Skipped when earlier work failed and no `synchronise` has told so yet.
  void enqueue(std::function<void()> task);
  void record(CpuEvent& event);
  void wait(CpuEvent& event);
  CpuGemm& gemm() { return gemm_; }  // for tasks of this stream alone

 private:
  struct Task {
    std::function<void()> work;
    std::shared_ptr<Mark> mark;  // instead of work
  };
  void push(Task task);
  Task next();
  void serve(int num_threads, StreamUse use);
  void execute(Task& task);

  CpuGemm gemm_;
  std::exception_ptr failure_;  // of the worker, given to `synchronise` through a mark
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Task> tasks_;
  std::atomic<std::int64_t> num_waiting_{0};  // tasks in the queue, to look at without the lock
  bool is_closing_ = false;
  std::thread worker_;  // last: it uses the others
};

}  // namespace gpuplan

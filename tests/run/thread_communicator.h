// Collectives between threads of one process: the ranks of a test, without MPI. Simple and slow; sums in the order of
// the ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "device/communicator.h"
#include "device/narrow_floats.h"

namespace gpuplan::test {

/// Where the ranks of a group meet. One that fails ends everybody's waiting.
class Meeting {
 public:
  Meeting(int size, std::shared_ptr<std::atomic<bool>> failed)
      : size_(size),
        posted_(std::size_t(size)),
        failed_(std::move(failed)) {}
  int size() const { return size_; }

  void barrier() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++num_here_ == size_)
      num_here_ = 0, ++round_, changed_.notify_all();
    else
      wait(lock, [&] { return round_ != round; });
  }
  void post(int rank, const void* data) {
    {
      const std::lock_guard lock(mutex_);
      posted_[std::size_t(rank)] = data;
    }
    barrier();
  }
  const void* of(int rank) const { return posted_[std::size_t(rank)]; }

  void send(int from, int to, const void* data) {
    std::unique_lock lock(mutex_);
    const void*& box = boxes_[{from, to}];
    box = data;
    changed_.notify_all();
    wait(lock, [&] { return !box; });
  }
  void receive(int from, int to, void* data, std::int64_t bytes) {
    std::unique_lock lock(mutex_);
    const void*& box = boxes_[{from, to}];
    wait(lock, [&] { return box != nullptr; });
    std::memcpy(data, box, std::size_t(bytes));
    box = nullptr;
    changed_.notify_all();
  }

  std::shared_ptr<Meeting> child(int colour, int size) {
    const std::lock_guard lock(mutex_);
    auto& made = children_[colour];
    if (!made) made = std::make_shared<Meeting>(size, failed_);
    return made;
  }
  void forget_children() { children_.clear(); }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    while (!changed_.wait_for(lock, std::chrono::milliseconds(20), condition))
      if (*failed_) throw EnvError("another rank failed");
  }

  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> posted_;
  std::map<std::pair<int, int>, const void*> boxes_;
  std::map<int, std::shared_ptr<Meeting>> children_;
  int num_here_ = 0;
  std::uint64_t round_ = 0;
  std::shared_ptr<std::atomic<bool>> failed_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  std::string library() const override { return "threads"; }

  void all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& on) override {
    on.run_on_host([=, this] { sum(send, receive, 0, count, dtype); });
  }
  void all_reduce_max(float* data, std::int64_t count, Stream& on) override {
    on.run_on_host([=, this] {
      meeting_->post(rank_, data);
      std::vector<float> largest(data, data + count);
      for (int r = 0; r < size(); ++r)
        for (std::int64_t i = 0; i < count; ++i)
          largest[std::size_t(i)] = std::max(largest[std::size_t(i)], static_cast<const float*>(meeting_->of(r))[i]);
      meeting_->barrier();
      std::copy(largest.begin(), largest.end(), data);
    });
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& on) override {
    on.run_on_host([=, this] { sum(send, receive, rank_ * count, count, dtype); });
  }
  void all_gather(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& on) override {
    on.run_on_host([=, this] {
      const std::int64_t bytes = bytes_of(count, dtype).count;
      meeting_->post(rank_, send);
      for (int r = 0; r < size(); ++r)
        std::memmove(static_cast<std::byte*>(receive) + r * bytes, meeting_->of(r), std::size_t(bytes));
      meeting_->barrier();
    });
  }
  void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& on) override {
    on.run_on_host([=, this] {
      broadcast_host({static_cast<std::byte*>(data), std::size_t(bytes_of(count, dtype).count)}, root);
    });
  }
  void send(const void* data, std::int64_t, Dtype, int to, Stream& on) override {
    on.run_on_host([=, this] { meeting_->send(rank_, to, data); });
  }
  void receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& on) override {
    on.run_on_host([=, this] { meeting_->receive(from, rank_, data, bytes_of(count, dtype).count); });
  }
  void begin_group() override { throw BugError("groups are not tested here"); }
  void end_group() override {}

  void barrier() override { meeting_->barrier(); }
  void broadcast_host(std::span<std::byte> data, int root) override {
    meeting_->post(rank_, data.data());
    if (rank_ != root) std::memcpy(data.data(), meeting_->of(root), data.size());
    meeting_->barrier();
  }
  double max_host(double value) override {
    meeting_->post(rank_, &value);
    double most = value;
    for (int r = 0; r < size(); ++r) most = std::max(most, *static_cast<const double*>(meeting_->of(r)));
    meeting_->barrier();
    return most;
  }
  void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) override {
    meeting_->post(rank_, own.data());
    for (int r = 0; r < size(); ++r) std::memcpy(all.data() + std::size_t(r) * own.size(), meeting_->of(r), own.size());
    meeting_->barrier();
  }
  std::unique_ptr<Communicator> split(int colour) override {
    meeting_->post(rank_, &colour);
    int size_of_mine = 0, place = 0;
    for (int r = 0; r < size(); ++r)
      if (*static_cast<const int*>(meeting_->of(r)) == colour) place += r < rank_, ++size_of_mine;
    auto mine =
        colour < 0 ? nullptr : std::make_unique<ThreadCommunicator>(meeting_->child(colour, size_of_mine), place);
    meeting_->barrier();
    if (rank_ == 0) meeting_->forget_children();
    meeting_->barrier();
    return mine;
  }

 private:
  static float value(const void* data, std::int64_t i, Dtype dtype) {
    return dtype == Dtype::F32 ? static_cast<const float*>(data)[i]
                               : bf16_to_float(static_cast<const std::uint16_t*>(data)[i]);
  }
  /// Elements [begin, begin + count) of every rank's `send`, added. May go where a rank's input lies.
  void sum(const void* send, void* receive, std::int64_t begin, std::int64_t count, Dtype dtype) {
    meeting_->post(rank_, send);
    std::vector<float> total(std::size_t(count), 0.0F);
    for (int r = 0; r < size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) total[std::size_t(i)] += value(meeting_->of(r), begin + i, dtype);
    meeting_->barrier();
    for (std::int64_t i = 0; i < count; ++i)
      if (dtype == Dtype::F32)
        static_cast<float*>(receive)[i] = total[std::size_t(i)];
      else
        static_cast<std::uint16_t*>(receive)[i] = float_to_bf16(total[std::size_t(i)]);
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace gpuplan::test

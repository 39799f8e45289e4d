// A libgpuplan_nccl.so without GPUs: processes of one machine that meet in shared memory, named by the id that rank 0
// made. Like NCCL it knows its ranks by that id alone, and a call waits for ever for a rank that is gone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "device/backend.h"

namespace gpuplan::test {
namespace {

constexpr std::int64_t kSlot = 1 << 20;  // bytes of each rank that the others see at once

struct Shared {
  std::atomic<int> num_here;
  std::atomic<int> round;
};

class PretendCommunicator final : public Communicator {
 public:
  PretendCommunicator(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {
    const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
    length_ = std::size_t(4096 + kSlot * size);
    if (file < 0 || ftruncate(file, off_t(length_)) != 0) throw EnvError("pretended NCCL: no shared memory " + name_);
    memory_ = static_cast<std::byte*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    barrier();
  }
  ~PretendCommunicator() override {
    munmap(memory_, length_);
    shm_unlink(name_.c_str());
  }
  PretendCommunicator(const PretendCommunicator&) = delete;
  PretendCommunicator& operator=(const PretendCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return "pretended NCCL"; }

  void all_reduce(const void* from, void* to, std::int64_t count, Dtype dtype, Stream& s) override {
    s.run_on_host([=, this] { sum(static_cast<const float*>(from), static_cast<float*>(to), 0, count, count, dtype); });
  }
  void all_reduce_max(float*, std::int64_t, Stream&) override { throw BugError("maxima are not pretended"); }
  void reduce_scatter(const void* from, void* to, std::int64_t count, Dtype dtype, Stream& s) override {
    s.run_on_host([=, this] {
      sum(static_cast<const float*>(from), static_cast<float*>(to), rank_ * count, count, count * size_, dtype);
    });
  }
  void all_gather(const void* from, void* to, std::int64_t count, Dtype dtype, Stream& s) override {
    s.run_on_host([=, this] {
      const std::int64_t part = bytes_of(count, dtype).count;
      gather({static_cast<const std::byte*>(from), std::size_t(part)}, static_cast<std::byte*>(to));
    });
  }
  void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& s) override {
    s.run_on_host([=, this] {
      broadcast_host({static_cast<std::byte*>(data), std::size_t(bytes_of(count, dtype).count)}, root);
    });
  }
  void send(const void*, std::int64_t, Dtype, int, Stream&) override {
    throw BugError("pretended NCCL sends no messages");
  }
  void receive(void*, std::int64_t, Dtype, int, Stream&) override {
    throw BugError("pretended NCCL receives no messages");
  }
  void begin_group() override {}
  void end_group() override {}

  void barrier() override {
    auto& shared = *reinterpret_cast<Shared*>(memory_);
    const int round = shared.round;
    if (++shared.num_here == size_) {
      shared.num_here = 0;
      ++shared.round;
    }
    while (shared.round == round) {
      if (is_aborted_) throw EnvError("pretended NCCL was aborted");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void broadcast_host(std::span<std::byte> data, int root) override {
    in_pieces(
        std::ssize(data),
        [&](std::int64_t begin, std::int64_t count) {
          if (rank_ == root) std::memcpy(slot(rank_), data.data() + begin, std::size_t(count));
        },
        [&](std::int64_t begin, std::int64_t count) {
          std::memcpy(data.data() + begin, slot(root), std::size_t(count));
        });
  }
  double max_host(double value) override {
    std::vector<double> all(std::size_t(size_), 0.0);
    all_gather_host(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
    return *std::max_element(all.begin(), all.end());
  }
  void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) override { gather(own, all.data()); }
  std::unique_ptr<Communicator> split(int colour) override {
    std::vector<int> colours(std::size_t(size_), 0);
    all_gather_host(std::as_bytes(std::span(&colour, 1)), std::as_writable_bytes(std::span(colours)));
    const auto place = std::count(colours.begin(), colours.begin() + rank_, colour),
               mine = std::count(colours.begin(), colours.end(), colour);
    ++num_splits_;
    if (colour < 0) return nullptr;
    return std::make_unique<PretendCommunicator>(
        name_ + "." + std::to_string(num_splits_) + "." + std::to_string(colour), int(place), int(mine));
  }
  void abort() noexcept override { is_aborted_ = true; }

 private:
  std::byte* slot(int rank) const { return memory_ + 4096 + kSlot * rank; }

  template <class Put, class Take>
  void in_pieces(std::int64_t bytes, Put put, Take take) {
    for (std::int64_t begin = 0; begin < bytes; begin += kSlot) {
      const std::int64_t count = std::min(kSlot, bytes - begin);
      put(begin, count);
      barrier();
      take(begin, count);
      barrier();
    }
  }
  void gather(std::span<const std::byte> own, std::byte* all) {
    in_pieces(
        std::ssize(own),
        [&](std::int64_t begin, std::int64_t count) {
          std::memcpy(slot(rank_), own.data() + begin, std::size_t(count));
        },
        [&](std::int64_t begin, std::int64_t count) {
          for (int r = 0; r < size_; ++r) std::memcpy(all + std::ssize(own) * r + begin, slot(r), std::size_t(count));
        });
  }
  /// Elements [first, first + count) of all ranks' `length`, added in the order of the ranks.
  void sum(const float* from, float* to, std::int64_t first, std::int64_t count, std::int64_t length, Dtype dtype) {
    GPUPLAN_CHECK(dtype == Dtype::F32, "pretended NCCL adds fp32");
    std::vector<float> total(std::size_t(count), 0.0F);
    const std::int64_t size = sizeof(float);
    in_pieces(
        length * size,
        [&](std::int64_t begin, std::int64_t bytes) {
          std::memcpy(slot(rank_), from + begin / size, std::size_t(bytes));
        },
        [&](std::int64_t begin, std::int64_t bytes) {
          for (int r = 0; r < size_; ++r)
            for (std::int64_t i = std::max(first, begin / size); i < std::min(first + count, (begin + bytes) / size);
                 ++i)
              total[std::size_t(i - first)] += reinterpret_cast<const float*>(slot(r))[i - begin / size];
        });
    std::copy(total.begin(), total.end(), to);
  }

  std::string name_;
  int rank_, size_, num_splits_ = 0;
  std::size_t length_ = 0;
  std::byte* memory_ = nullptr;
  std::atomic<bool> is_aborted_{false};
};

class PretendNccl final : public CollectiveBackend {
 public:
  std::string make_id() override { return "/gpuplan-pretend-" + std::to_string(getpid()); }
  std::unique_ptr<Communicator> join(Device&, const Rendezvous& r) override {
    if (r.id.empty()) throw EnvError("pretended NCCL: rank " + std::to_string(r.rank) + " has no id");
    return std::make_unique<PretendCommunicator>(r.id, r.rank, r.size);
  }
};

}  // namespace
}  // namespace gpuplan::test

extern "C" __attribute__((visibility("default"))) gpuplan::CollectiveBackend* gpuplan_collective_backend(int abi) {
  static gpuplan::test::PretendNccl backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}

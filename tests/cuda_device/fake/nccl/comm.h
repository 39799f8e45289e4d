// One rank's communicator of the fake NCCL, and the ways to wait for the others.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nccl.h>

#include "cuda_device/fake/nccl/segment.h"

namespace gpuplan::fake {

/// A wait that was ended: by an abort, or since the ranks do not agree.
struct Interrupted {};

/// What ncclGetLastError tells.
void remember_error(const std::string& text);
ncclResult_t refused(ncclResult_t result, const std::string& why);  // remembers why, and gives the result
const char* last_error();

/// What all ranks must say alike of a collective.
struct Call {
  int kind = 0, type = 0, operation = 0, root = 0, is_captured = 0;
  std::uint64_t count = 0;
  bool operator==(const Call&) const = default;
};

class Comm {
 public:
  Comm(const std::string& name, int num_ranks, int rank, int device);

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  const std::string& name() const { return name_; }
  Segment& segment() { return segment_; }

  // --- on the host, in set-up ---
  /// All ranks' words of kHostSlotBytes, by rank. Throws std::runtime_error when a rank vanishes or does not come.
  std::vector<std::string> exchange_on_host(const std::string& mine);
  int next_split() { return num_splits_++; }

  // --- on a stream's thread ---
  void wait(const std::function<bool()>& is_over);  // throws Interrupted
  /// Until all ranks have come so far.
  void step();
  /// One rank after another says its call; throws Interrupted when they differ.
  void agree(const Call& mine);

  // --- order and failure ---
  /// Operations of a communicator go one after the other, whatever their streams.
  std::uint64_t take_ticket() { return next_ticket_++; }
  void run(std::uint64_t ticket, const std::function<void()>& operation);
  void wait_for_operations();
  /// Held by what graphs have of this communicator, which does not end before they are gone.
  std::shared_ptr<void> graph_reference();
  void wait_for_graphs();
  void abort();
  void fail(ncclResult_t error, const std::string& text);
  /// Looks for ranks that are gone.
  ncclResult_t asynchronous_error();

 private:
  std::string name_;
  int rank_, size_, device_;
  Segment segment_;
  std::uint64_t host_step_ = 0, stream_step_ = 0;
  int num_splits_ = 0;
  std::atomic<int> graph_references_{0};
  std::atomic<bool> is_aborted_{false};
  std::atomic<ncclResult_t> error_{ncclSuccess};
  std::atomic<std::uint64_t> next_ticket_{0};
  std::mutex mutex_;
  std::condition_variable served_;
  std::uint64_t next_served_ = 0;
};

}  // namespace gpuplan::fake

struct ncclComm {
  std::shared_ptr<gpuplan::fake::Comm> ranks;
};

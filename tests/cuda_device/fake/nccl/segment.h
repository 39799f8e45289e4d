// The shared memory where the ranks of a fake NCCL communicator meet, in threads of one process or in several
// processes.
//
// Each rank counts its steps in a lane; a step is over when all have come to it. Between two steps a rank's slot of the
// lane is its own to write, after the next one all may read it. A channel carries bytes from one rank to one other.
// Each rank holds a lock on a byte of the file, which the system drops when its process ends, however it ends: so the
// others can know.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gpuplan::fake {

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kSlotBytes = 256 * 1024, kHostSlotBytes = 256, kChannelBytes = 64 * 1024;

using Steps = std::array<std::atomic<std::uint64_t>, kMostRanks>;

/// From one rank to another; `written` and `read` count chunks.
struct Channel {
  std::atomic<std::uint64_t> written, read;
  std::uint64_t total_bytes;  // of the message that is under way
  bool is_captured;           // it is of a graph
  char data[kChannelBytes];
};

struct SharedHeader {
  std::atomic<int> num_ranks;
  Steps host_steps, stream_steps;
  std::array<std::atomic<int>, kMostRanks> has_joined, has_left;
};

class Segment {
 public:
  /// Opens the segment of this name, or makes it. Throws std::runtime_error in words.
  Segment(const std::string& name, int num_ranks, int rank);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SharedHeader& header() const { return *header_; }
  char* slot(int rank) const;       // kSlotBytes, of the streams' lane
  char* host_slot(int rank) const;  // kHostSlotBytes
  Channel& channel(int from, int to) const;

  /// The name goes; who has joined stays.
  void unlink() const;
  /// Says so to the others first: they will not take it for a death.
  void leave();
  /// As a death would: the others see it.
  void drop();
  /// A rank that joined and is gone without having left; -1 when there is none.
  int vanished_rank() const;

 private:
  std::string name_;
  int file_ = -1, num_ranks_, rank_;
  std::size_t size_;
  char* memory_ = nullptr;
  SharedHeader* header_ = nullptr;
};

}  // namespace gpuplan::fake

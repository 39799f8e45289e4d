// Where ranks of one machine wait for each other without keeping their cores busy: in memory that they share, asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <mpi.h>

namespace gpuplan {

/// MPI's own waits spin, on a core that a late rank, or work of this one, may need.
class Meeting {
 public:
  /// Null where the ranks of `comm` cannot share memory: on several machines, or in containers that do not see each other. All of them get
  /// the same answer. They look for the last one for `patience` before they sleep: waking takes 5 to 50 us. Requires: all ask.
  static std::unique_ptr<Meeting> of(MPI_Comm comm, std::chrono::microseconds patience);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Returns when all of the group have come. One thread of each rank comes at a time.
  void come();

 private:
  struct Place {
    std::uint64_t token;  // that it is the one that rank 0 made
    alignas(64) std::atomic<std::uint32_t> num_here;
    alignas(64) std::atomic<std::uint32_t> turn;  // one more each time that all were here
  };
  Meeting(Place* place, int num_ranks, std::chrono::microseconds patience);
  static Place* open(MPI_Comm comm);

  Place* place_;
  std::uint32_t num_ranks_;
  std::chrono::microseconds patience_;
};

}  // namespace gpuplan

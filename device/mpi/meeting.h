// Where ranks of one machine wait for each other without keeping their cores busy: in memory that they share, asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

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

  /// Tells rank `to` that a message of this one is under way.
  void announce(int to);
  /// Returns when one more message of rank `from` is under way than this was asked for before. One thread of each rank asks at a time.
  void expect(int from);

 private:
  using Word = std::atomic<std::uint32_t>;
  struct Place {
    std::uint64_t token;  // that it is the one that rank 0 made
    alignas(64) Word num_here;
    alignas(64) Word turn;  // one more each time that all were here
  };  // behind it the numbers of messages under way: to each rank, and from each to each
  Meeting(Place* place, int rank, int num_ranks, std::chrono::microseconds patience);
  static std::size_t size_of_place(int num_ranks) { return sizeof(Place) + sizeof(Word) * std::size_t(num_ranks) * std::size_t(num_ranks + 1); }
  static Place* open(MPI_Comm comm, int rank, int num_ranks);
  /// Sleeps until `is_over`, which changes with `word` alone.
  template <class Condition>
  void wait(const Word& word, Condition is_over) const;
  Word& num_to(int rank) { return reinterpret_cast<Word*>(place_ + 1)[rank]; }
  Word& num_between(int from, int to) { return (&num_to(num_ranks_))[from * num_ranks_ + to]; }

  Place* place_;
  int rank_, num_ranks_;
  std::chrono::microseconds patience_;
  std::vector<std::uint32_t> num_expected_;  // of each rank
};

}  // namespace gpuplan

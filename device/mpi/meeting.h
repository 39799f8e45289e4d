// Where ranks of one machine wait for each other without keeping their cores busy: in memory that they share, asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <mpi.h>

namespace gpuplan {

/// MPI's own waits spin, on a core that a late rank, or work of this one, may need. All that waits here throws EnvError
/// within 0.1 s when `is_given_up` (of `of`) becomes true.
class Meeting {
 public:
  /// Null for one rank, and where the ranks of `comm` cannot share memory: on several machines, in containers that do
  /// not see each other. All of them get the same answer, or an EnvError. They look for others for `patience` before
  /// they sleep: waking takes 5 to 50 us. Requires: all ask.
  static std::unique_ptr<Meeting> of(MPI_Comm comm, std::chrono::microseconds patience,
                                     const std::atomic<bool>& is_given_up);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Hosts do not meet streams: after an error a rank's stream may still wait where its host goes on.
  enum class Caller : std::uint8_t { Host, Stream };
  /// Returns when all of the group have come as `caller`. One thread of each rank comes at a time.
  void come(Caller caller);

  /// Tells rank `to` that a message of this one is under way.
  void announce(int to);
  /// How many messages of rank `from` to this one were announced so far, modulo 2^32.
  std::uint32_t num_announced(int from) const;
  /// Another number after each message to this rank that is announced.
  std::uint32_t news() const;
  /// Returns when `news` is no longer what it was.
  void wait_for_news(std::uint32_t seen) const;

 private:
  using Word = std::atomic<std::uint32_t>;
  struct Turn {
    alignas(64) Word num_here;
    alignas(64) Word number;  // one more each time that all were here
  };
  struct Place {
    std::uint64_t token;  // that it is the one that rank 0 made
    Turn turns[2];        // by Caller
  };                      // behind it the numbers of messages announced: to each rank, and from each to each
  Meeting(Place* place, int rank, int num_ranks, std::chrono::microseconds patience,
          const std::atomic<bool>& is_given_up);
  static std::size_t size_of_place(int num_ranks) {
    return sizeof(Place) + sizeof(Word) * std::size_t(num_ranks) * std::size_t(num_ranks + 1);
  }
  static Place* open(MPI_Comm comm, int rank, int num_ranks);
  void wait_while(const Word& word, std::uint32_t value) const;
  Word& num_to(int rank) const { return reinterpret_cast<Word*>(place_ + 1)[rank]; }
  Word& num_between(int from, int to) const { return (&num_to(num_ranks_))[from * num_ranks_ + to]; }

  Place* place_;
  int rank_, num_ranks_;
  std::chrono::microseconds patience_;
  const std::atomic<bool>& is_given_up_;
};

}  // namespace gpuplan

// How ranks of one machine wait for each other without keeping their cores busy: asleep, on words in shared memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include <mpi.h>

namespace gpuplan {

/// A barrier, and counts of messages on their way, in memory that the ranks of one machine share. MPI's own waits spin,
/// on a core that a late rank, or work of this one, may need. Every wait throws EnvError within 0.1 s after
/// `is_given_up` became true.
class SharedSync {
 public:
  /// Null for one rank, and where the ranks of `comm` cannot share memory: on several machines, in containers that do
  /// not see each other. All ranks get the same answer, or an EnvError. A wait spins for `patience` before it sleeps:
  /// waking takes 5 to 50 us. Collective among the ranks of `comm`.
  static std::unique_ptr<SharedSync> create(MPI_Comm comm, std::chrono::microseconds patience,
                                            const std::atomic<bool>& is_given_up);
  ~SharedSync();
  SharedSync(const SharedSync&) = delete;
  SharedSync& operator=(const SharedSync&) = delete;

  /// Hosts and streams have a barrier each: after an error a rank's stream may still wait where its host goes on.
  enum class Caller : std::uint8_t { Host, Stream };
  /// Returns when all ranks have called it as `caller`. One thread of each rank calls it at a time.
  void barrier(Caller caller);

  /// Tells rank `to` that a message of this one is under way.
  void announce(int to);
  /// Number of messages of rank `from` to this one that were announced so far, modulo 2^32.
  std::uint32_t num_announced(int from) const;
  /// Number of messages to this rank that all ranks announced so far, modulo 2^32.
  std::uint32_t num_announced() const;
  /// Returns when num_announced() is no longer `seen`.
  void wait_for_message(std::uint32_t seen) const;

 private:
  using Word = std::atomic<std::uint32_t>;
  struct Barrier {
    alignas(64) Word num_arrived;
    alignas(64) Word generation;  // one more each time that all have arrived
  };
  /// The shared memory. Behind it lie the numbers of messages announced: to each rank, and from each to each.
  struct Memory {
    std::uint64_t token;  // shows that it is the memory that rank 0 made
    Barrier barriers[2];  // by Caller
  };
  SharedSync(Memory* memory, int rank, int num_ranks, std::chrono::microseconds patience,
             const std::atomic<bool>& is_given_up);
  static std::size_t memory_size(int num_ranks) {
    return sizeof(Memory) + sizeof(Word) * std::size_t(num_ranks) * std::size_t(num_ranks + 1);
  }
  static Memory* open(MPI_Comm comm, int rank, int num_ranks);
  void wait_while(const Word& word, std::uint32_t value) const;
  Word& num_to(int rank) const { return reinterpret_cast<Word*>(memory_ + 1)[rank]; }
  Word& num_between(int from, int to) const { return (&num_to(num_ranks_))[from * num_ranks_ + to]; }

  Memory* memory_;
  int rank_, num_ranks_;
  std::chrono::microseconds patience_;
  const std::atomic<bool>& is_given_up_;
};

}  // namespace gpuplan

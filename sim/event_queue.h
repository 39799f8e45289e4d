// Pending events in total order (time, sequence): what is pushed first comes first among equals. A 4-ary heap of packed
// 128-bit keys over runs: an event at the moment of a recent push joins that one's run, so that what many like ranks do
// at once costs one place in the heap.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/sim_time.h"

namespace gpuplan {

enum class EventTarget : std::uint8_t { Engine, Network };

struct SimEvent {
  SimTime time;
  EventTarget target{};
  std::uint8_t kind{};    // of the target's own making
  std::uint32_t index{};  // what it is about
  std::uint32_t stamp{};  // so that an outdated event is known as one
};

class EventQueue {
 public:
  /// Requires a time of 0 or later.
  void push(const SimEvent& event);
  bool empty() const { return keys_.empty(); }
  /// The time of the next event; not for an empty queue.
  SimTime next_time() const { return {std::int64_t(keys_.front().time)}; }
  SimEvent pop();
  std::uint64_t num_popped() const { return num_popped_; }

 private:
  struct Key {
    std::uint64_t time, order;  // order: sequence, then the node at which the run begins
    // As one number of 128 bits: no branch to mispredict.
    bool operator<(const Key& other) const { return packed() < other.packed(); }
    __uint128_t packed() const { return (__uint128_t(time) << 64) | order; }
  };
  struct Node {
    std::uint32_t index, stamp, next;  // next: of the run, or of the free nodes
    std::uint8_t target, kind;
  };
  struct Run {
    std::uint64_t time = kNoTime;
    std::uint32_t last{};  // node
  };
  static constexpr std::uint64_t kNoTime = ~std::uint64_t(0);
  static constexpr std::uint32_t kNone = ~std::uint32_t(0);

  std::uint32_t take_node(const SimEvent& event);
  Run& recent(std::uint64_t time);
  void rise_from(std::size_t at, Key key);
  void sink(Key key);

  std::vector<Key> keys_;
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;
  std::array<Run, 64> recent_{};  // by a hash of the time; a run that lost its place here only grows no more
  std::uint64_t sequence_{}, num_popped_{};
};

}  // namespace gpuplan

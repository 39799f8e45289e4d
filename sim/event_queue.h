// Pending events in total order (time, sequence): what is pushed first comes first among equals. A 4-ary heap of packed
// 128-bit keys.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/sim_time.h"

namespace gpuplan {

enum class EventTarget : std::uint8_t { Engine, Network };

struct Event {
  SimTime time;
  EventTarget target{};
  std::uint8_t kind{};     // of the target's own making
  std::uint32_t index{};   // what it is about
  std::uint32_t stamp{};   // so that an outdated event is known as one
};

class EventQueue {
 public:
  void push(const Event& event);
  bool empty() const { return keys_.empty(); }
  /// The time of the next event; not for an empty queue.
  SimTime next_time() const { return {std::int64_t(keys_.front().time)}; }
  Event pop();
  std::uint64_t num_popped() const { return num_popped_; }

 private:
  struct Key {
    std::uint64_t time, order;  // order: sequence, then the slot of the body
    bool operator<(const Key& other) const { return time != other.time ? time < other.time : order < other.order; }
  };
  struct Body {
    std::uint32_t index, stamp;
    std::uint8_t target, kind;
  };
  void sink(Key key);

  std::vector<Key> keys_;
  std::vector<Body> bodies_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t sequence_{}, num_popped_{};
};

}  // namespace gpuplan

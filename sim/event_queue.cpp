#include "sim/event_queue.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::size_t kArity = 4;
constexpr int kSlotBits = 28;  // the low bits of `order` say where the body is
constexpr std::uint64_t kSlotMask = (std::uint64_t(1) << kSlotBits) - 1;

}  // namespace

void EventQueue::push(const Event& event) {
  std::uint32_t slot;
  if (free_slots_.empty()) {
    slot = std::uint32_t(bodies_.size());
    GPUPLAN_CHECK(slot <= kSlotMask, "too many pending events");
    bodies_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  bodies_[slot] = {event.index, event.stamp, std::uint8_t(event.target), event.kind};
  const Key key{std::uint64_t(event.time.ps), (sequence_++ << kSlotBits) | slot};
  std::size_t at = keys_.size();
  keys_.push_back(key);
  while (at > 0) {
    const std::size_t up = (at - 1) / kArity;
    if (!(key < keys_[up])) break;
    keys_[at] = keys_[up];
    at = up;
  }
  keys_[at] = key;
}

Event EventQueue::pop() {
  const Key top = keys_.front();
  const std::uint32_t slot = std::uint32_t(top.order & kSlotMask);
  const Body body = bodies_[slot];
  free_slots_.push_back(slot);
  ++num_popped_;
  const Key last = keys_.back();
  keys_.pop_back();
  if (!keys_.empty()) sink(last);
  return {SimTime{std::int64_t(top.time)}, EventTarget(body.target), body.kind, body.index, body.stamp};
}

/// Puts `key` in at the top, whose place is free.
void EventQueue::sink(Key key) {
  std::size_t at = 0;
  const std::size_t size = keys_.size();
  for (;;) {
    const std::size_t first = at * kArity + 1;
    if (first >= size) break;
    std::size_t least = first;
    const std::size_t end = std::min(first + kArity, size);
    for (std::size_t k = first + 1; k < end; ++k)
      if (keys_[k] < keys_[least]) least = k;
    if (!(keys_[least] < key)) break;
    keys_[at] = keys_[least];
    at = least;
  }
  keys_[at] = key;
}

}  // namespace gpuplan

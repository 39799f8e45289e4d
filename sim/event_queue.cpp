#include "sim/event_queue.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::size_t kArity = 4;
constexpr int kNodeBits = 28;  // the low bits of `order` say where the run begins
constexpr std::uint64_t kNodeMask = (std::uint64_t(1) << kNodeBits) - 1;

}  // namespace

std::uint32_t EventQueue::take_node(const SimEvent& event) {
  std::uint32_t node = free_;
  if (node != kNone) {
    free_ = nodes_[node].next;
  } else {
    node = std::uint32_t(nodes_.size());  // checked in the next line
    GPUPLAN_CHECK(node <= kNodeMask, "too many pending events");
    nodes_.emplace_back();
  }
  nodes_[node] = {event.index, event.stamp, kNone, std::uint8_t(event.target), event.kind};
  return node;
}

EventQueue::Run& EventQueue::recent(std::uint64_t time) {
  return recent_[(time * 0x9E3779B97F4A7C15u) >> 58];  // Fibonacci hashing, Knuth TAOCP 3, 6.4
}

void EventQueue::push(const SimEvent& event) {
  const std::uint32_t node = take_node(event);
  const std::uint64_t time = std::uint64_t(event.time.ps);
  Run& run = recent(time);
  if (run.time == time) {
    nodes_[run.last].next = node;
  } else {
    const Key key{time, (sequence_++ << kNodeBits) | node};
    keys_.push_back(key);
    rise_from(keys_.size() - 1, key);
  }
  run = {time, node};
}

SimEvent EventQueue::pop() {
  Key& top = keys_.front();
  const std::uint64_t time = top.time;
  const std::uint32_t at = std::uint32_t(top.order & kNodeMask);
  const Node node = nodes_[at];
  nodes_[at].next = free_;
  free_ = at;
  ++num_popped_;
  if (node.next != kNone) {  // the run goes on in the same place
    top.order = (top.order & ~kNodeMask) | node.next;
  } else {
    if (Run& run = recent(time); run.time == time && run.last == at) run.time = kNoTime;
    const Key last = keys_.back();
    keys_.pop_back();
    if (!keys_.empty()) sink(last);
  }
  return {SimTime{std::int64_t(time)}, EventTarget(node.target), node.kind, node.index, node.stamp};
}

/// Puts `key` in at `at`, whose place is free, or above.
void EventQueue::rise_from(std::size_t at, Key key) {
  while (at > 0) {
    const std::size_t up = (at - 1) / kArity;
    if (!(key < keys_[up])) break;
    keys_[at] = keys_[up];
    at = up;
  }
  keys_[at] = key;
}

/// Puts `key` in at the top, whose place is free: the place moves down to a leaf, from which `key`, which came from a
/// leaf, seldom rises far.
void EventQueue::sink(Key key) {
  std::size_t at = 0;
  const std::size_t size = keys_.size();
  const Key* const keys = keys_.data();
  for (std::size_t first = 1; first < size; first = at * kArity + 1) {
    std::size_t least = first;
    if (first + kArity <= size) {
      const std::size_t a = first + (keys[first + 1] < keys[first]),
                        b = first + 2 + (keys[first + 3] < keys[first + 2]);
      least = keys[b] < keys[a] ? b : a;
    } else {
      for (std::size_t k = first + 1; k < size; ++k) least = keys[k] < keys[least] ? k : least;
    }
    keys_[at] = keys[least];
    at = least;
  }
  rise_from(at, key);
}

}  // namespace gpuplan

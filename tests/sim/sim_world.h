// One communicator with uniform links, a queue and the engine's loop: what tests of the networks start from.
#pragma once

#include <functional>
#include <vector>

#include "sim/network.h"

namespace gpuplan {

struct TimedFinish {
  SimTime time;
  Finished finished;
};

struct SimWorld {
  /// `num_kept` ranks of the ring are simulated; each stands for size / num_kept neighbours.
  SimWorld(std::int64_t size, const LinkCost& link, std::int64_t num_kept = 0) {
    for (AxisLink& axis : comm.axes) axis = {.link = link, .ways = size};
    add(size, num_kept == 0 ? size : num_kept);
  }

  /// Another communicator over the same ranks; returns its index.
  std::uint32_t add(std::int64_t size, std::int64_t num_kept) {
    CommGroup c{.axis = Axis::DpShard, .size = size, .shape = {.size = size}};
    for (std::int64_t m = 0; m < num_kept; ++m) {
      const std::int64_t rank = m * (size / num_kept);
      c.ranks.push_back(rank);
      c.next.push_back((rank + 1) % size);
      c.next_member.push_back(std::uint32_t((m + 1) % num_kept));
    }
    communicators.push_back(c);
    return std::uint32_t(communicators.size() - 1);
  }

  /// What the engine does until nothing is pending: everything of one moment first, then the network settles. `engine`
  /// hears of events for it.
  std::vector<TimedFinish> run(Network& network, const std::function<void(SimTime)>& engine = {}) {
    std::vector<TimedFinish> out;
    std::vector<Finished> finished;
    network.settle(now);
    while (!queue.empty()) {
      const SimEvent event = queue.pop();
      now = event.time;
      finished.clear();
      if (event.target == EventTarget::Engine)
        engine(now);
      else
        network.handle(event, finished);
      for (const Finished& f : finished) out.push_back({now, f});
      if (queue.empty() || queue.next_time() > now) network.settle(now);
    }
    return out;
  }

  /// A link of the axis' rate from every rank to its next, used by nobody else.
  NetworkLinks own_links() const {
    const auto one = [](std::int64_t from) { return Route{{.link = std::uint32_t(from)}}; };
    return {.capacities = std::vector<BytesPerSec>(std::size_t(communicators[0].size), comm.axes[1].link.bandwidth),
            .ring_route = [one](std::int64_t from, std::int64_t, const CommGroup&) { return one(from); },
            .route = [one](std::int64_t from, std::int64_t) { return one(from); },
            .copy_route = [one](std::int64_t rank, HostCopy) { return one(rank); }};
  }

  CommModel comm;
  std::vector<CommGroup> communicators;
  EventQueue queue;
  SimTime now;
};

}  // namespace gpuplan

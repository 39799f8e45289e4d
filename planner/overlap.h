// When communication runs on a rank, and how much longer compute takes beside it: a running collective takes SMs and
// memory bandwidth, so that compute goes 1 + sigma slower while it lasts. The simulator applies the same rule event by
// event.
#pragma once

#include <vector>

namespace gpuplan {

/// Union of the times in which anything is communicated. Times in seconds.
class CommunicationSpans {
 public:
  void clear();
  void add(double begin, double end);
  /// When `work` seconds of compute end that begin at `start`. Starts never decrease: what ended before is forgotten.
  double finish(double start, double work, double slowdown);
  /// Moves what ended at `from` or later.
  void shift(double from, double by);

 private:
  struct Span {
    double begin{}, end{};
  };
  std::vector<Span> spans_;  // disjoint, in order; those before first_ are over
  std::size_t first_ = 0;
};

}  // namespace gpuplan

// The search of `gpuplan plan`: every plan of a space, or a reason why it is none. Three rejections are made without
// looking at a plan, and all are exact: a dearer offer of the same machine is never better; a plan that does not fit
// does not fit with a larger micro batch either, nor with any batch when what is there between steps does not fit; and
// a plan that leaves a quarter of the memory free gains nothing by offload.
#pragma once

#include <atomic>
#include <functional>

#include "search/ranker.h"

namespace gpuplan {

struct SearchOptions {
  unsigned num_threads = 0;                 // 0: all cores
  const std::atomic<bool>* stop = nullptr;  // when true, the search ends with what it has
  std::function<void(double)> progress;     // share of the space that is done; called on the caller's thread
};

struct Found {
  Ranking ranking;          // in the order of the space, whatever the number of threads
  double seconds{};         // on the clock
  bool is_complete = true;  // false: it was stopped
};

Found search(const Space& space, const SearchOptions& options = {});

/// The same by estimating every plan by itself, with every offer, as `estimate` does. For tests and benchmarks.
Ranking search_by_brute_force(const Space& space);

}  // namespace gpuplan

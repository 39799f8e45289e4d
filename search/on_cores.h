// Work on several threads that ends only when all of them have, and passes on the first exception.
#pragma once

#include <functional>

namespace gpuplan {

/// Threads that `wanted` means: 0 is as many as there are cores, never more than `most`, at least 1.
std::size_t num_threads_for(unsigned wanted, std::size_t most);

/// Calls work(thread) on so many threads, thread 0 being the caller's. What one throws is thrown here when all have
/// ended; `fail` is called first, so that the others can stop early.
void on_cores(
    std::size_t num_threads, const std::function<void(std::size_t)>& work, const std::function<void()>& fail = [] {});

}  // namespace gpuplan

#include "search/on_cores.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "base/processor.h"

namespace gpuplan {

std::size_t num_threads_for(unsigned wanted, std::size_t most) {
  const auto cores = std::size_t(num_usable_cores());
  return std::clamp<std::size_t>(wanted > 0 ? wanted : cores, 1, std::max<std::size_t>(1, most));
}

void on_cores(std::size_t num_threads, const std::function<void(std::size_t)>& work,
              const std::function<void()>& fail) {
  std::vector<std::exception_ptr> problems(num_threads);
  const auto guarded = [&](std::size_t thread) {
    try {
      work(thread);
    } catch (...) {
      problems[thread] = std::current_exception();
      fail();
    }
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < num_threads; ++t) others.emplace_back(guarded, t);
  guarded(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
}

}  // namespace gpuplan

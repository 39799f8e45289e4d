#include "run/step_graph.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {

void StepGraph::run(std::span<Stream* const> streams, const std::function<void()>& enqueue) {
  if (state_ == State::ToRecord) record(streams, enqueue);
  if (state_ == State::Recorded) return device_.launch(*graph_, *streams.front());
  enqueue();
  if (state_ == State::New) state_ = State::ToRecord;
}

void StepGraph::record(std::span<Stream* const> streams, const std::function<void()>& enqueue) {
  try {
    graph_ = device_.capture(streams, enqueue);
  } catch (const EnvError& error) { obstacle_ = error.what(); }
  const auto all = groups_.gather(std::array{graph_ ? 1.0 : 0.0});
  const auto failed = std::ranges::find(all, std::array{0.0});
  if (failed == all.end()) {
    state_ = State::Recorded;
    return;
  }
  state_ = State::GivenUp;
  graph_.reset();
  if (obstacle_.empty()) obstacle_ = fmt::format("rank {} could not record it", failed - all.begin());
}

std::string StepGraph::describe() const {
  if (state_ == State::Recorded)
    return "from the second step on, what comes before the gradient's norm was launched as one CUDA graph; not in the "
           "last, which is timed task "
           "by task";
  if (state_ == State::GivenUp) return "no CUDA graph, kernels were launched one by one: " + obstacle_;
  return "";
}

}  // namespace gpuplan

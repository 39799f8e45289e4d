// Graphs of recorded work, launched any number of times: each lane has a thread of its own, so that what was recorded
// beside each other runs beside each other, and only what it goes after holds a node back.
//
//   GPUPLAN_FAKE_CUDA_GRAPH_LOG   a file that gets a line with the number of nodes at each launch
#include <cstdlib>
#include <fstream>
#include <utility>

#include "cuda_device/fake/runtime/capture.h"

namespace gpuplan::fake {

struct Instance {
  explicit Instance(std::shared_ptr<const Recorded> from) : recorded(std::move(from)) {
    for (std::size_t i = 0; i < recorded->num_lanes; ++i) lanes.push_back(Worker::start());
  }
  ~Instance() {
    for (const auto& lane : lanes) lane->close();
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  std::shared_ptr<const Recorded> recorded;
  std::vector<std::shared_ptr<Worker>> lanes;
  std::shared_ptr<Moment> last;  // the end of its latest launch; null before the first
};

namespace {

/// One launch: what each node does this time, and when it has.
struct Run {
  std::shared_ptr<Instance> instance;  // lives as long as it runs, whoever destroys it
  std::vector<Task> tasks;
  std::vector<Moment> moments;

  void run_node(std::size_t i) {
    for (const std::size_t other : instance->recorded->nodes[i].after) moments[other].wait();
    tasks[i]();
    tasks[i] = nullptr;
    moments[i].come();
  }
};

std::shared_ptr<Run> new_run(const std::shared_ptr<Instance>& instance) {
  const auto& nodes = instance->recorded->nodes;
  auto run = std::make_shared<Run>(Run{instance, {}, std::vector<Moment>(nodes.size())});
  for (const Node& node : nodes) run->tasks.push_back(node.at_launch());
  return run;
}

void log_launch(const Recorded& recorded) {
  if (const char* const file = std::getenv("GPUPLAN_FAKE_CUDA_GRAPH_LOG"))
    std::ofstream(file, std::ios::app) << std::to_string(recorded.nodes.size()) + "\n" << std::flush;
}

}  // namespace
}  // namespace gpuplan::fake

struct CUgraphExec_st {
  std::shared_ptr<gpuplan::fake::Instance> instance;
};

using namespace gpuplan::fake;

extern "C" {

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  *out = nullptr;
  if (const auto status = entered()) return said(status);
  if (const auto status = refused_while_capturing()) return said(status);
  *out = new CUgraphExec_st{std::make_shared<Instance>(graph->recorded)};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  return said(refused_of_captured(resolved(stream)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return said(entered());
}

/// What is under way of it goes on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return said(entered());
}

/// In the stream's order, and after the launch before.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (const auto status = entered()) return said(status);
  const CUstream_st on = resolved(stream);
  if (const auto status = refused_of_captured(on)) return said(status);
  const auto run = new_run(graph->instance);
  log_launch(*graph->instance->recorded);
  const auto end = std::make_shared<Moment>();
  on.worker->enqueue([run, end, before = std::exchange(graph->instance->last, end)] {
    if (before) before->wait();
    const auto& nodes = run->instance->recorded->nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      run->instance->lanes[nodes[i].lane]->enqueue([run, i] { run->run_node(i); });
    for (Moment& moment : run->moments) moment.wait();
    end->come();
  });
  return said(on.gpu->lost);
}

}  // extern "C"

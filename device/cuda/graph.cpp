#include "device/cuda/graph.h"

#include <utility>

namespace gpuplan::cuda {
namespace {

/// Kernels keep the priority of the stream that they were recorded on. What memory of the GPU the graph takes, it takes
/// now.
GraphExecOwner instantiate(cudaGraph_t recorded, cudaStream_t stream) {
  cudaGraphExec_t instance = nullptr;
  cuda_check(cudaGraphInstantiateWithFlags(&instance, recorded, cudaGraphInstantiateFlagUseNodePriority),
             "making a graph of what was recorded");
  GraphExecOwner graph(instance);
  cuda_check(cudaGraphUpload(instance, stream), "bringing a graph to the GPU");
  return graph;
}

}  // namespace

Capture::Capture(CudaStream& origin) : origin_(origin) {
  cuda_check(cudaStreamBeginCapture(origin.native(), cudaStreamCaptureModeThreadLocal), "beginning to record a graph");
}

/// Ends the capture, after which streams are usable, however it ends; a refused call has been told before.
Capture::~Capture() {
  if (!is_open_) return;
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(origin_.native(), &recorded));
  const GraphOwner unused(recorded);
  cudaGetLastError();
}

GraphOwner Capture::end() {
  is_open_ = false;
  cudaGraph_t recorded = nullptr;
  const cudaError_t status = cudaStreamEndCapture(origin_.native(), &recorded);
  GraphOwner graph(recorded);
  cuda_check(status, "recording a graph");
  return graph;
}

struct CudaGraph::Work final : CapturedWork {
  Work(cudaGraph_t recorded, cudaStream_t stream) : graph(instantiate(recorded, stream)) {}
  void release() noexcept override { graph.reset(); }
  GraphExecOwner graph;
};

CudaGraph::CudaGraph(GraphOwner recorded, CudaStream& origin)
    : work_(std::make_shared<Work>(recorded.get(), origin.native())),
      state_(origin.state()) {
  state_->release_first(work_);
}

void CudaGraph::launch(CudaStream& stream) {
  if (!work_->graph) throw EnvError("a communicator that the graph has collectives of has ended");
  if (stream.state() != state_) stream.state()->watch_as(*state_);
  cuda_check(cudaGraphLaunch(work_->graph.get(), stream.native()), "launching a graph");
}

}  // namespace gpuplan::cuda

// The functions of NCCL that enqueue: what is wrong with their arguments is said at once, the rest happens on the
// stream's thread.
#include <map>
#include <utility>
#include <vector>

#include "cuda_device/fake/nccl/collectives.h"
#include "cuda_device/fake/runtime/capture.h"

using namespace gpuplan::fake;

namespace {

struct Enqueued {
  std::shared_ptr<Comm> comm;
  CUstream_st stream;
  Operation operation;
};
struct Group {
  int depth = 0;
  std::vector<Enqueued> operations;
};
thread_local Group t_group;

bool is_transfer(const Operation& o) { return o.kind == OperationKind::Send || o.kind == OperationKind::Receive; }

/// Bytes of the two buffers of an operation.
std::pair<std::size_t, std::size_t> buffer_bytes(const Operation& o, int size) {
  const std::size_t one = o.count * element_bytes(o.type), all = one * std::size_t(size);
  if (o.kind == OperationKind::AllGather) return {one, all};
  if (o.kind == OperationKind::ReduceScatter) return {all, one};
  return {o.from ? one : 0, o.to ? one : 0};
}

ncclResult_t check_arguments(const Comm& comm, const CUstream_st& stream, const Operation& o) {
  if (stream.device != comm.device())
    return refused(ncclUnhandledCudaError, "the stream is of another GPU than the communicator");
  if (o.peer < 0 || o.peer >= comm.size())
    return refused(ncclInvalidArgument, "no such rank: " + std::to_string(o.peer));
  if (element_bytes(o.type) == 0) return refused(ncclInvalidArgument, "a data type that the fake does not know");
  const bool is_reduction = o.kind == OperationKind::AllReduce || o.kind == OperationKind::ReduceScatter;
  if (is_reduction && !is_reducible(o.type, o.reduction)) return refused(ncclInvalidArgument, "no such reduction");
  const auto [from_bytes, to_bytes] = buffer_bytes(o, comm.size());
  if (!is_on_device(o.from, std::int64_t(from_bytes), comm.device()) ||
      !is_on_device(o.to, std::int64_t(to_bytes), comm.device()))
    return refused(ncclInvalidArgument, "a buffer is not memory of the communicator's GPU, or is too short");
  return ncclSuccess;
}

/// Each launch has its place among the communicator's operations.
cudaError_t launch(const std::shared_ptr<Comm>& comm, const CUstream_st& stream, std::function<void()> run) {
  const auto graph = is_captured(stream) ? comm->graph_reference() : nullptr;
  return enqueue_at_launch(stream, [comm, graph, gpu = stream.gpu, run = std::move(run)]() -> Task {
    return [comm, graph, gpu, run, ticket = comm->take_ticket()] {
      comm->run(
          ticket, gpu->lost == cudaSuccess ? run : [] {});
    };
  });
}

/// Collectives one by one, and all transfers of a communicator together.
ncclResult_t launch_group(const std::vector<Enqueued>& operations) {
  std::map<std::shared_ptr<Comm>, std::vector<Operation>> transfers;
  std::map<std::shared_ptr<Comm>, CUstream_st> streams;
  cudaError_t status = cudaSuccess;
  const auto keep_first = [&](cudaError_t now) { status = status == cudaSuccess ? now : status; };
  for (const auto& [comm, stream, operation] : operations) {
    if (is_transfer(operation)) {
      transfers[comm].push_back(operation);
      streams[comm] = stream;
    } else {
      keep_first(launch(comm, stream, [c = comm.get(), o = operation] { run_collective(*c, o); }));
    }
  }
  for (const auto& [comm, some] : transfers)
    keep_first(launch(comm, streams[comm], [c = comm.get(), list = some] { run_transfers(*c, list); }));
  return status == cudaSuccess ? ncclSuccess : refused(ncclUnhandledCudaError, cudaGetErrorString(status));
}

ncclResult_t enqueue_operation(ncclComm_t comm, cudaStream_t stream, Operation operation) {
  if (!comm) return refused(ncclInvalidArgument, "no communicator");
  if (entered() != cudaSuccess) return refused(ncclUnhandledCudaError, "CUDA failed");
  const CUstream_st on = resolved(stream);
  if (const auto result = check_arguments(*comm->ranks, on, operation); result != ncclSuccess) return result;
  if (const auto error = comm->ranks->asynchronous_error(); error != ncclSuccess) return error;
  operation.is_captured = is_captured(on);
  t_group.operations.push_back({comm->ranks, on, operation});
  return t_group.depth == 0 ? launch_group(std::exchange(t_group.operations, {})) : ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  ++t_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (t_group.depth == 0) return refused(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  return --t_group.depth == 0 ? launch_group(std::exchange(t_group.operations, {})) : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue_operation(
      comm, stream,
      {.kind = OperationKind::AllReduce, .from = from, .to = to, .count = count, .type = type, .reduction = reduction});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue_operation(comm, stream,
                           {.kind = OperationKind::AllGather, .from = from, .to = to, .count = count, .type = type});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return enqueue_operation(comm, stream,
                           {.kind = OperationKind::ReduceScatter,
                            .from = from,
                            .to = to,
                            .count = count,
                            .type = type,
                            .reduction = reduction});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue_operation(
      comm, stream,
      {.kind = OperationKind::Broadcast, .from = from, .to = to, .count = count, .type = type, .peer = root});
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue_operation(comm, stream,
                           {.kind = OperationKind::Send, .from = from, .count = count, .type = type, .peer = peer});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue_operation(comm, stream,
                           {.kind = OperationKind::Receive, .to = to, .count = count, .type = type, .peer = peer});
}

}  // extern "C"

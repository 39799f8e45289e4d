// What the operations of the fake NCCL do, on the thread of a stream: data go through the slots and channels of the
// shared memory.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda_device/fake/nccl/comm.h"

namespace gpuplan::fake {

enum class OperationKind { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };

struct Operation {
  OperationKind kind{};
  const void* from = nullptr;  // null for Receive
  void* to = nullptr;          // null for Send
  std::size_t count = 0;       // as NCCL counts: all elements for AllReduce and Broadcast, else of one rank
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;              // or root
  bool is_captured = false;  // in a graph: on all ranks or on none
};

bool is_reducible(ncclDataType_t type, ncclRedOp_t reduction);
std::size_t element_bytes(ncclDataType_t type);  // 0: not known here

void run_collective(Comm& comm, const Operation& operation);
/// Sends and receives of one group: they go on together.
void run_transfers(Comm& comm, const std::vector<Operation>& operations);

}  // namespace gpuplan::fake

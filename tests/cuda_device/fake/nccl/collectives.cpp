#include "cuda_device/fake/nccl/collectives.h"

#include <algorithm>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gpuplan::fake {
namespace {

template <class T>
using Wide = std::conditional_t<sizeof(T) <= 4, float, double>;

/// In rank order, and rounded once.
template <class T>
void reduce(Comm& comm, T* to, std::size_t count, ncclRedOp_t reduction) {
  std::vector<Wide<T>> results(count);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const T* const part = reinterpret_cast<const T*>(comm.segment().slot(rank));
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = Wide<T>(part[i]);
      results[i] = rank == 0 ? x : reduction == ncclSum ? results[i] + x : std::max(results[i], x);
    }
  }
  std::transform(results.begin(), results.end(), to, [](Wide<T> x) { return T(x); });
}

void reduce(Comm& comm, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction) {
  if (type == ncclFloat32) reduce(comm, static_cast<float*>(to), count, reduction);
  if (type == ncclFloat64) reduce(comm, static_cast<double*>(to), count, reduction);
  if (type == ncclBfloat16) reduce(comm, static_cast<__nv_bfloat16*>(to), count, reduction);
  if (type == ncclFloat16) reduce(comm, static_cast<__half*>(to), count, reduction);
}

/// Piece by piece: everybody who has something shows it, then `take(begin, size)` reads of all slots what it wants.
template <class Take>
void show_in_pieces(Comm& comm, const char* mine, std::size_t bytes, Take take) {
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    const std::size_t size = std::min(kSlotBytes, bytes - begin);
    if (mine) std::memcpy(comm.segment().slot(comm.rank()), mine + begin, size);
    comm.step();
    take(begin, size);
    comm.step();
  }
}

void all_reduce(Comm& comm, const Operation& o) {
  const auto width = element_bytes(o.type);
  show_in_pieces(comm, static_cast<const char*>(o.from), o.count * width, [&](std::size_t begin, std::size_t size) {
    reduce(comm, static_cast<char*>(o.to) + begin, size / width, o.type, o.reduction);
  });
}

void all_gather(Comm& comm, const Operation& o) {
  const auto bytes = o.count * element_bytes(o.type);
  show_in_pieces(comm, static_cast<const char*>(o.from), bytes, [&](std::size_t begin, std::size_t size) {
    for (int rank = 0; rank < comm.size(); ++rank)
      std::memcpy(static_cast<char*>(o.to) + std::size_t(rank) * bytes + begin, comm.segment().slot(rank), size);
  });
}

void reduce_scatter(Comm& comm, const Operation& o) {
  const auto width = element_bytes(o.type), bytes = o.count * width;
  for (int part = 0; part < comm.size(); ++part)
    show_in_pieces(comm, static_cast<const char*>(o.from) + std::size_t(part) * bytes, bytes,
                   [&](std::size_t begin, std::size_t size) {
                     if (part == comm.rank())
                       reduce(comm, static_cast<char*>(o.to) + begin, size / width, o.type, o.reduction);
                   });
}

void broadcast(Comm& comm, const Operation& o) {
  const bool is_root = comm.rank() == o.peer;
  show_in_pieces(comm, is_root ? static_cast<const char*>(o.from) : nullptr, o.count * element_bytes(o.type),
                 [&](std::size_t begin, std::size_t size) {
                   std::memcpy(static_cast<char*>(o.to) + begin, comm.segment().slot(o.peer), size);
                 });
}

/// One side of a message. A sender is done when all has been read.
struct Transfer {
  Operation operation;
  Channel* channel = nullptr;
  std::size_t bytes = 0, moved = 0;
  bool is_done = false;
};

bool send_some(Transfer& transfer) {
  Channel& channel = *transfer.channel;
  if (channel.written != channel.read) return false;
  if (transfer.moved == transfer.bytes) return transfer.is_done = true;
  const std::size_t size = std::min(kChannelBytes, transfer.bytes - transfer.moved);
  channel.total_bytes = transfer.bytes;
  channel.is_captured = transfer.operation.is_captured;
  std::memcpy(channel.data, static_cast<const char*>(transfer.operation.from) + transfer.moved, size);
  transfer.moved += size;
  ++channel.written;
  return true;
}

bool receive_some(Comm& comm, Transfer& transfer) {
  Channel& channel = *transfer.channel;
  if (transfer.moved == transfer.bytes) return transfer.is_done = true;
  if (channel.written == channel.read) return false;
  if (channel.total_bytes != transfer.bytes) {
    comm.fail(ncclInvalidUsage, "a rank receives another number of bytes than was sent");
    throw Interrupted{};
  }
  if (channel.is_captured != transfer.operation.is_captured) {
    comm.fail(ncclInvalidUsage, "a message of a graph meets one that is not");
    throw Interrupted{};
  }
  const std::size_t size = std::min(kChannelBytes, transfer.bytes - transfer.moved);
  std::memcpy(static_cast<char*>(transfer.operation.to) + transfer.moved, channel.data, size);
  transfer.moved += size;
  ++channel.read;
  return true;
}

/// The first that is not done of each channel goes on: messages between two ranks keep their order.
bool move_some(Comm& comm, std::vector<Transfer>& transfers) {
  bool has_moved = false;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    const bool is_send = transfer.operation.kind == OperationKind::Send;
    const auto is_earlier = [&](const Transfer& other) {
      return !other.is_done && other.channel == transfer.channel && other.operation.kind == transfer.operation.kind;
    };
    if (transfer.is_done || std::any_of(transfers.begin(), transfers.begin() + std::ptrdiff_t(i), is_earlier)) continue;
    has_moved |= is_send ? send_some(transfer) : receive_some(comm, transfer);
  }
  return has_moved;
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclFloat32: return 4;
    case ncclFloat64: return 8;
    default: return 0;
  }
}

bool is_reducible(ncclDataType_t type, ncclRedOp_t reduction) {
  const bool is_float = type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32 || type == ncclFloat64;
  return is_float && (reduction == ncclSum || reduction == ncclMax);
}

void run_collective(Comm& comm, const Operation& o) {
  comm.agree({.kind = int(o.kind),
              .type = int(o.type),
              .operation = int(o.reduction),
              .root = o.peer,
              .is_captured = o.is_captured,
              .count = o.count});
  switch (o.kind) {
    case OperationKind::AllReduce: return all_reduce(comm, o);
    case OperationKind::AllGather: return all_gather(comm, o);
    case OperationKind::ReduceScatter: return reduce_scatter(comm, o);
    case OperationKind::Broadcast: return broadcast(comm, o);
    case OperationKind::Send:
    case OperationKind::Receive: return run_transfers(comm, {o});
  }
}

void run_transfers(Comm& comm, const std::vector<Operation>& operations) {
  std::vector<Transfer> transfers;
  for (const Operation& o : operations) {
    const bool is_send = o.kind == OperationKind::Send;
    Channel& channel =
        is_send ? comm.segment().channel(comm.rank(), o.peer) : comm.segment().channel(o.peer, comm.rank());
    transfers.push_back({o, &channel, o.count * element_bytes(o.type)});
  }
  const auto is_done = [](const Transfer& transfer) { return transfer.is_done; };
  while (!std::all_of(transfers.begin(), transfers.end(), is_done))
    comm.wait([&] { return move_some(comm, transfers); });
}

}  // namespace gpuplan::fake

// Collectives among ranks, one object per rank: MPI between processes on CPUs (device/mpi), NCCL on GPUs (device/nccl).
// Calls are enqueued on a stream of the rank's device; every rank of the group must make the same calls in the same
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"
#include "device/device.h"

namespace gpuplan {

/// Throws EnvError with the library's own words from any call. Must outlive what it has enqueued.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string library() const = 0;  // "Open MPI 4.1.4", "NCCL 2.28.3"

  // Sums. `count` is of the whole tensor for all-reduce and broadcast, of one rank's part for the others. F32, BF16 and
  // F16.
  virtual void all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) = 0;
  /// The largest of each of `count` fp32 numbers, in place.
  virtual void all_reduce_max(float* data, std::int64_t count, Stream& stream) = 0;
  virtual void all_gather(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype,
                          Stream& stream) = 0;
  virtual void reduce_scatter(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype,
                              Stream& stream) = 0;
  virtual void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& stream) = 0;
  virtual void send(const void* data, std::int64_t count, Dtype dtype, int to, Stream& stream) = 0;
  virtual void receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& stream) = 0;
  /// Sends and receives between the two are one operation and go on together: in a ring, where everybody sends first,
  /// all would wait for ever. What is received may be used after end_group alone. All are on one stream; groups do not
  /// nest.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  // On the host, at once, for set-up and for keeping ranks in step. Not while collectives are under way.
  virtual void barrier() = 0;
  virtual void broadcast_host(std::span<std::byte> data, int root) = 0;
  virtual double max_host(double value) = 0;
  /// Every rank's `own`, as many bytes of each, by rank. Called once or twice a step: it takes what one small
  /// collective takes.
  virtual void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) = 0;

  /// Ranks of the same colour, in rank order; nullptr for a negative colour. Every rank of this group calls it.
  virtual std::unique_ptr<Communicator> split(int colour) = 0;

  /// This rank has failed: ends what it has under way, so that nothing of it waits for ever for ranks that wait for it.
  /// No other call may follow.
  virtual void abort() noexcept {}
};

}  // namespace gpuplan

// The Communicator of GPU ranks.
#pragma once

#include <chrono>
#include <memory>

#include "device/communicator.h"
#include "device/cuda/native_stream.h"
#include "device/nccl/watched_comm.h"

namespace gpuplan::nccl {

/// A stream of `device` as CUDA knows it; a device of another library is a misuse.
std::unique_ptr<NativeStream> native_stream_of(Device& device);

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Device& device, std::unique_ptr<NativeStream> control, ncclComm_t comm);
  ~NcclCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return "NCCL " + version_text(); }

  void all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override;
  void all_reduce_max(float* data, std::int64_t count, Stream& stream) override;
  void all_gather(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype, Stream& stream) override;
  void reduce_scatter(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype,
                      Stream& stream) override;
  void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& stream) override;
  void send(const void* data, std::int64_t count, Dtype dtype, int to, Stream& stream) override;
  void receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& stream) override;
  void begin_group() override;
  void end_group() override;

  void barrier() override;
  void broadcast_host(std::span<std::byte> data, int root) override;
  double max_host(double value) override;
  void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) override;

  std::unique_ptr<Communicator> split(int colour) override;
  void abort() noexcept override { comm_->abort(); }

 private:
  /// The stream as CUDA knows it, of this thread's GPU, watched from now on.
  cudaStream_t on(Stream& stream);
  void check(ncclResult_t result, std::string_view doing) const { comm_->check_call(result, doing); }
  /// Device memory of at least `size`, for what goes between hosts.
  void* scratch(std::size_t size);
  /// Waits until the control stream is empty; gives up after a while, since a rank that died quietly is noticed by
  /// nobody.
  void finish(std::string_view doing);

  Device& device_;
  std::unique_ptr<NativeStream> control_;
  std::shared_ptr<WatchedComm> comm_;
  Buffer scratch_;
  int rank_{}, size_{};
};

}  // namespace gpuplan::nccl

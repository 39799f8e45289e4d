#include "device/nccl/nccl_communicator.h"

#include <thread>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/cuda/check.h"

namespace gpuplan::nccl {
namespace {

using cuda::cuda_check;

/// Time that ranks wait for each other on the host: one may be writing a large model meanwhile. This ends a run whose
/// peer is gone, where nobody else does.
constexpr std::chrono::minutes kPatience{30};

ncclDataType_t summed_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return ncclFloat32;
    case Dtype::BF16: return ncclBfloat16;
    case Dtype::F16: return ncclFloat16;
    default: throw BugError(fmt::format("collectives sum fp32, bf16 and fp16, not {}", to_string(dtype)));
  }
}

/// Type of data that is only moved.
constexpr ncclDataType_t kMoved = ncclUint8;
std::size_t num_bytes(std::int64_t count, Dtype dtype) { return std::size_t(bytes_of(count, dtype).count); }

}  // namespace

std::unique_ptr<NativeStream> native_stream_of(Device& device) {
  std::unique_ptr<Stream> stream = device.create_stream();
  auto* const native = dynamic_cast<NativeStream*>(stream.get());
  GPUPLAN_CHECK(native, "NCCL joins devices of libgpuplan_cuda.so");
  static_cast<void>(stream.release());
  return std::unique_ptr<NativeStream>(native);
}

NcclCommunicator::NcclCommunicator(Device& device, std::unique_ptr<NativeStream> control, ncclComm_t comm)
    : device_(device),
      control_(std::move(control)),
      comm_(std::make_shared<WatchedComm>(comm)) {
  check(ncclCommUserRank(comm, &rank_), "asking for the rank");
  check(ncclCommCount(comm, &size_), "asking for the number of ranks");
}

NcclCommunicator::~NcclCommunicator() { cudaSetDevice(control_->device_index()); }

cudaStream_t NcclCommunicator::on(Stream& stream) {
  auto& native = dynamic_cast<NativeStream&>(stream);
  cuda_check(cudaSetDevice(native.device_index()), "selecting the GPU");
  native.watch(comm_);
  return native.native();
}

// --- on streams -----------------------------------------------------------------------------------------------------

void NcclCommunicator::all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) {
  check(ncclAllReduce(send, receive, std::size_t(count), summed_type(dtype), ncclSum, comm_->get(), on(stream)),
        "all-reduce");
}

void NcclCommunicator::all_reduce_max(float* data, std::int64_t count, Stream& stream) {
  check(ncclAllReduce(data, data, std::size_t(count), ncclFloat32, ncclMax, comm_->get(), on(stream)), "all-reduce");
}

void NcclCommunicator::all_gather(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype,
                                  Stream& stream) {
  check(ncclAllGather(send, receive, num_bytes(count_per_rank, dtype), kMoved, comm_->get(), on(stream)), "all-gather");
}

void NcclCommunicator::reduce_scatter(const void* send, void* receive, std::int64_t count_per_rank, Dtype dtype,
                                      Stream& stream) {
  check(ncclReduceScatter(send, receive, std::size_t(count_per_rank), summed_type(dtype), ncclSum, comm_->get(),
                          on(stream)),
        "reduce-scatter");
}

void NcclCommunicator::broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& stream) {
  check(ncclBroadcast(data, data, num_bytes(count, dtype), kMoved, root, comm_->get(), on(stream)), "broadcast");
}

void NcclCommunicator::send(const void* data, std::int64_t count, Dtype dtype, int to, Stream& stream) {
  check(ncclSend(data, num_bytes(count, dtype), kMoved, to, comm_->get(), on(stream)), "send");
}

void NcclCommunicator::receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& stream) {
  check(ncclRecv(data, num_bytes(count, dtype), kMoved, from, comm_->get(), on(stream)), "receive");
}

void NcclCommunicator::begin_group() { check(ncclGroupStart(), "beginning a group"); }
void NcclCommunicator::end_group() { check(ncclGroupEnd(), "ending a group"); }

// --- between hosts --------------------------------------------------------------------------------------------------

void* NcclCommunicator::scratch(std::size_t size) {
  if (std::size_t(scratch_.size().count) < size) scratch_ = device_.allocate(Bytes{std::int64_t(size)});
  return scratch_.data();
}

void NcclCommunicator::finish(std::string_view doing) {
  constexpr std::chrono::milliseconds kMostlyEnough{2};  // then the core is given to others
  const auto begin = std::chrono::steady_clock::now();
  cudaError_t status = cudaErrorNotReady;
  while (cuda::is_under_way(status = cudaStreamQuery(control_->native()))) {
    comm_->check();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kPatience) {
      comm_->abort();
      throw EnvError(fmt::format("{} of {} ranks: no answer for {} minutes; a rank has died or hangs", doing, size_,
                                 kPatience.count()));
    }
    if (waited < kMostlyEnough)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  comm_->check();
  cuda_check(status, doing);
}

void NcclCommunicator::barrier() { max_host(0); }

void NcclCommunicator::broadcast_host(std::span<std::byte> data, int root) {
  if (data.empty()) return;
  const cudaStream_t stream = on(*control_);
  void* const memory = scratch(data.size());
  cuda_check(cudaMemcpyAsync(memory, data.data(), data.size(), cudaMemcpyHostToDevice, stream),
             "copying to the device");
  check(ncclBroadcast(memory, memory, data.size(), kMoved, root, comm_->get(), stream), "broadcast");
  finish("broadcast");  // first, since the copy below would wait without an end
  cuda_check(cudaMemcpyAsync(data.data(), memory, data.size(), cudaMemcpyDeviceToHost, stream), "copying to the host");
  finish("broadcast");
}

double NcclCommunicator::max_host(double value) {
  const cudaStream_t stream = on(*control_);
  void* const memory = scratch(sizeof value);
  cuda_check(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream), "copying to the device");
  check(ncclAllReduce(memory, memory, 1, ncclFloat64, ncclMax, comm_->get(), stream), "all-reduce");
  finish("barrier");
  cuda_check(cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream), "copying to the host");
  finish("barrier");
  return value;
}

void NcclCommunicator::all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) {
  if (own.empty()) return;
  const cudaStream_t stream = on(*control_);
  auto* const memory = static_cast<std::byte*>(scratch(all.size()));
  std::byte* const part = memory + std::size_t(rank_) * own.size();  // in place
  cuda_check(cudaMemcpyAsync(part, own.data(), own.size(), cudaMemcpyHostToDevice, stream), "copying to the device");
  check(ncclAllGather(part, memory, own.size(), kMoved, comm_->get(), stream), "all-gather");
  finish("all-gather");
  cuda_check(cudaMemcpyAsync(all.data(), memory, all.size(), cudaMemcpyDeviceToHost, stream), "copying to the host");
  finish("all-gather");
}

std::unique_ptr<Communicator> NcclCommunicator::split(int colour) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
  cuda_check(cudaSetDevice(control_->device_index()), "selecting the GPU");
  ncclComm_t part = nullptr;
  check(ncclCommSplit(comm_->get(), colour < 0 ? NCCL_SPLIT_NOCOLOR : colour, rank_, &part, nullptr),
        "splitting a group");
  if (!part) return nullptr;
  return std::make_unique<NcclCommunicator>(device_, native_stream_of(device_), part);
#else
  static_cast<void>(colour);
  throw EnvError("NCCL " + version_text() + " cannot split a group of ranks: 2.18 or later is needed");
#endif
}

}  // namespace gpuplan::nccl

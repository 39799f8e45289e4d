// This is what libgpuplan_cuda.so exports.
#include "device/cuda/cuda_device.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "device/backend.h"
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"

namespace gpuplan::cuda {
namespace {

CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }
CudaEvent& cuda_event(Event& event) { return static_cast<CudaEvent&>(event); }

#define GPUPLAN_KERNEL_NAME(Name) #Name,
constexpr std::array kKernelNames{GPUPLAN_KERNELS(GPUPLAN_KERNEL_NAME)};
#undef GPUPLAN_KERNEL_NAME

class NoScratch final : public LaunchStream {
 public:
  using LaunchStream::LaunchStream;
  float* scratch() override { return nullptr; }
};

}  // namespace

void CudaDevice::select() const { cuda_check(cudaSetDevice(gpu_.index), "selecting the GPU"); }

cudaStream_t CudaDevice::on(Stream& stream) const {
  select();
  return cuda_stream(stream).native();
}

void* CudaDevice::workspace_of(Stream& stream) const {
  static_assert(kScratchSize <= kWorkspace, "the workspace of a product has room for sums");
  return cuda_stream(stream).workspace(gemm_workspace(gpu_.capability));
}

// --- opening and facts ----------------------------------------------------------------------------------------------

CudaDevice::CudaDevice(int index) : gpu_(identify_gpu(index)), opened_(opened_gpu(index)) {
  cost_ = opened_->open(gpu_, [this] { warm_up(); });
}

/// One small product and one kernel: what they load stays loaded.
void CudaDevice::warm_up() {
  select();
  NoScratch on(nullptr);
  if (const cudaError_t status = cuda::launch(kernels::Empty{}, on); status == cudaErrorNoKernelImageForDevice)
    throw EnvError(fmt::format("this build has no kernels for {} ({}), only for {}", gpu_.name,
                               architecture_name(gpu_.capability), GPUPLAN_CUDA_ARCHITECTURES));
  else
    cuda_check(status, "starting a kernel");
  products_ = std::make_unique<GemmRunner>(gpu_.capability);
  const auto stream = create_stream();
  const auto memory = allocate(Bytes{3 * 64 * 64 * 4});
  float* const first = memory.as<float>();
  products_->run({.m = 64, .n = 64, .k = 64}, first, first + 64 * 64, first + 2 * 64 * 64, cuda_stream(*stream));
  stream->synchronise();
}

DeviceFacts CudaDevice::facts() const {
  select();
  DeviceFacts facts{.kind = DeviceKind::Cuda,
                    .name = gpu_.name,
                    .architecture = architecture_name(gpu_.capability),
                    .memory = gpu_.memory,
                    .memory_free = free_memory(),
                    .num_cores = gpu_.num_multiprocessors,
                    .gemm_types = gemm_types(gpu_.capability),
                    .versions = library_versions()};
  if (!cost_.is_exact)
    facts.warnings.push_back("NVML was not found: the memory of the CUDA context includes what other processes use");
  return facts;
}

// --- memory ---------------------------------------------------------------------------------------------------------

void CudaDevice::throw_out_of_memory(Bytes asked) const {
  cudaGetLastError();
  const Bytes free = free_memory(), held = opened_->buffers.now();
  throw EnvError(fmt::format("out of memory on GPU {} ({}): {} asked, {} of {} free; this process holds {} in buffers",
                             gpu_.index, gpu_.name, format_bytes(asked), format_bytes(free), format_bytes(gpu_.memory),
                             format_bytes(held)));
}

Buffer CudaDevice::allocate(Bytes size) {
  select();
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, std::size_t(size.count));
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(size);
  cuda_check(status, "allocating memory");
  opened_->buffers.add(size);
  return {memory, size, std::shared_ptr<void>(memory, [gpu = opened_, size](void* data) {
            cudaFree(data);
            gpu->buffers.remove(size);
          })};
}

Buffer CudaDevice::allocate_host(Bytes size, HostMemory kind) {
  select();
  void* memory = nullptr;
  if (kind == HostMemory::Pinned) {
    const cudaError_t status = cudaHostAlloc(&memory, std::size_t(size.count), cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw EnvError(fmt::format("out of memory: {} of pinned host memory asked", format_bytes(size)));
    }
    cuda_check(status, "allocating pinned host memory");
    return {memory, size, std::shared_ptr<void>(memory, [](void* data) { cudaFreeHost(data); })};
  }
  const auto rounded = std::size_t(ceil_div(size.count, kAlignment) * kAlignment);
  memory = std::aligned_alloc(kAlignment, rounded);
  if (!memory && size.count > 0)
    throw EnvError(fmt::format("out of memory: {} of host memory asked", format_bytes(size)));
  return {memory, size, std::shared_ptr<void>(memory, &std::free)};
}

// --- streams and events ---------------------------------------------------------------------------------------------

std::unique_ptr<Stream> CudaDevice::create_stream() { return create_stream_for(StreamUse::Compute); }
std::unique_ptr<Stream> CudaDevice::create_stream_for(StreamUse use) {
  return std::make_unique<CudaStream>(gpu_.index, opened_, use);
}
void CudaDevice::prepare(Stream& stream) {
  select();
  static_cast<void>(workspace_of(stream));
}

std::unique_ptr<Event> CudaDevice::create_event() { return std::make_unique<CudaEvent>(gpu_.index); }

void CudaDevice::record(Event& event, Stream& stream) {
  select();
  cuda_event(event).record(cuda_stream(stream));
}

void CudaDevice::wait(Stream& stream, Event& event) {
  cuda_check(cudaStreamWaitEvent(on(stream), cuda_event(event).native(), 0), "waiting for an event");
  if (const auto& other = cuda_event(event).state()) cuda_stream(stream).state()->watch_as(*other);
}

Seconds CudaDevice::elapsed(Event& begin, Event& end) {
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, cuda_event(begin).native(), cuda_event(end).native()),
             "reading the time between two events");
  return {double(milliseconds) * 1e-3};
}

// --- graphs ---------------------------------------------------------------------------------------------------------

std::unique_ptr<Graph> CudaDevice::capture(std::span<Stream* const> streams, const std::function<void()>& enqueue) {
  GPUPLAN_CHECK(!streams.empty(), "a capture is of streams");
  CudaStream& origin = cuda_stream(*streams.front());
  std::vector<std::unique_ptr<Event>> events;
  const auto order = [&](Stream& first, Stream& then) {
    events.push_back(create_event());
    record(*events.back(), first);
    wait(then, *events.back());
  };
  select();
  Capture capture(origin);
  for (Stream* const other : streams.subspan(1)) order(origin, *other);
  enqueue();
  for (Stream* const other : streams.subspan(1)) order(*other, origin);
  return std::make_unique<CudaGraph>(capture.end(), origin);
}

void CudaDevice::launch(Graph& graph, Stream& stream) {
  select();
  static_cast<CudaGraph&>(graph).launch(cuda_stream(stream));
}

// --- work -----------------------------------------------------------------------------------------------------------

void CudaDevice::copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& stream) {
  const cudaStream_t native = on(stream);
  if (kind == CopyKind::DeviceToDevice)
    connect_peers(to, from);
  else
    cuda_stream(stream).before_copy(kind == CopyKind::HostToDevice ? from : to);
  const cudaMemcpyKind direction = kind == CopyKind::HostToDevice   ? cudaMemcpyHostToDevice
                                   : kind == CopyKind::DeviceToHost ? cudaMemcpyDeviceToHost
                                                                    : cudaMemcpyDefault;  // perhaps of two GPUs
  cuda_check(cudaMemcpyAsync(to, from, std::size_t(size.count), direction, native), "copying");
}

void CudaDevice::gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Stream& stream) {
  select();
  products_->run(problem, a, b, c, cuda_stream(stream));
}

bool CudaDevice::try_gemm_with_bias(const GemmProblem& problem, const void* a, const void* b, void* c, const void* bias,
                                    Dtype bias_dtype, Stream& stream) {
  select();
  return products_->try_run(problem, a, b, c, {Epilogue::Bias, bias, bias_dtype}, cuda_stream(stream));
}

bool CudaDevice::try_gemm_with_bias_gradient(const GemmProblem& problem, const void* a, const void* b, void* c,
                                             void* gradient, Dtype gradient_dtype, Stream& stream) {
  select();
  return products_->try_run(problem, a, b, c, {Epilogue::BiasGradient, gradient, gradient_dtype}, cuda_stream(stream));
}

void CudaDevice::run(const KernelCall& kernel, Stream& stream) {
  /// Sums in two stages share the workspace that products of the stream have.
  class OnStream final : public LaunchStream {
   public:
    OnStream(const CudaDevice& device, Stream& stream)
        : LaunchStream(device.on(stream)),
          device_(device),
          stream_(stream) {}
    float* scratch() override { return static_cast<float*>(device_.workspace_of(stream_)); }

   private:
    const CudaDevice& device_;
    Stream& stream_;
  };
  if (const auto* const attention = std::get_if<kernels::Attention>(&kernel))
    if (const auto obstacle = attention_obstacle(attention->shape.dtype, attention->shape.head_size, gpu_.capability);
        !obstacle.empty())
      throw EnvError(obstacle);
  OnStream on(*this, stream);
  const cudaError_t status = std::visit([&](const auto& k) { return cuda::launch(k, on); }, kernel);
  if (status != cudaSuccess) throw_cuda_error(status, std::string("the kernel ") + kKernelNames[kernel.index()]);
}

namespace {

class CudaBackend final : public DeviceBackend {
 public:
  int num_devices() const override { return count_gpus(); }
  std::unique_ptr<Device> open(const DeviceOptions& options) override {
    return std::make_unique<CudaDevice>(options.index);
  }
};

}  // namespace
}  // namespace gpuplan::cuda

extern "C" __attribute__((visibility("default"))) gpuplan::DeviceBackend* gpuplan_device_backend(int abi) {
  static gpuplan::cuda::CudaBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}

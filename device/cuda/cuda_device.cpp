#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "device/adamw_step.h"
#include "device/cuda/attention_shape.h"
#include "device/cuda/graph.h"
#include "device/cuda/kernels.h"
#include "device/cuda/training_launch.h"
#include "device/eager_attention.h"

namespace gpuplan::cuda {
namespace {

CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }
CudaEvent& cuda_event(Event& event) { return static_cast<CudaEvent&>(event); }

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
  if (const cudaError_t status = launch_empty(nullptr); status == cudaErrorNoKernelImageForDevice)
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

void CudaDevice::attention(const AttentionProblem& p, const void* q, const void* k, const void* v, void* out,
                           void* scores, Stream& stream) {
  GPUPLAN_CHECK(p.kv_heads > 0 && p.heads % p.kv_heads == 0, "each key head serves equally many query heads");
  if (p.kernel == AttentionMethod::Eager) return eager_attention(p, q, k, v, out, scores, stream);
  if (const auto obstacle = flash_obstacle(p, gpu_.capability); !obstacle.empty()) throw EnvError(obstacle);
  GPUPLAN_CHECK(std::min(common_alignment(q, k, out), common_alignment(v, v, v)) >= 16,
                "flash attention moves 16 bytes at once");
  const FlashShape shape{.batch = p.batch,
                         .heads = p.heads,
                         .kv_heads = p.kv_heads,
                         .queries = p.queries,
                         .keys = p.keys,
                         .head_size = int(p.head_size),
                         .is_causal = p.is_causal};
  cuda_check(launch_flash(shape, p.dtype, q, k, v, out, on(stream)), "flash attention");
}

void CudaDevice::eager_attention(const AttentionProblem& p, const void* q, const void* k, const void* v, void* out,
                                 void* scores, Stream& stream) {
  const auto [score_product, value_product] = eager_products(p);
  gemm(score_product, q, k, scores, stream);
  cuda_check(launch_softmax(scores, p.batch * p.heads, p.queries, p.keys, p.is_causal, p.dtype, on(stream)), "softmax");
  gemm(value_product, scores, v, out, stream);
}

void CudaDevice::empty_kernel(Stream& stream) { cuda_check(launch_empty(on(stream)), "an empty kernel"); }

void CudaDevice::fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                              Stream& stream) {
  cuda_check(launch_fill_uniform(to, count, dtype, low, high, seed, on(stream)), "filling with random numbers");
}

void CudaDevice::cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count,
                      Stream& stream) {
  cuda_check(launch_cast(to, to_dtype, from, from_dtype, count, on(stream)), "a cast");
}

void CudaDevice::rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden,
                          float epsilon, Dtype dtype, Stream& stream) {
  cuda_check(launch_rms_norm(y, x, dtype, weight, dtype, rows, hidden, epsilon, on(stream)), "RMS norm");
}

void CudaDevice::swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, Stream& stream) {
  cuda_check(launch_swiglu(out, gate, up, count, dtype, on(stream)), "SwiGLU");
}

void CudaDevice::cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows,
                               std::int64_t vocab, const float* scale, Dtype dtype, Stream& stream) {
  cuda_check(launch_cross_entropy(logits, labels, losses, rows, vocab, scale, dtype, on(stream)), "cross-entropy");
}

void CudaDevice::adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v,
                       std::int64_t count, const AdamW& with, Stream& stream) {
  cuda_check(launch_adamw(weight, gradient, gradient_dtype, m, v, count, adamw_step(with), on(stream)),
             "an AdamW step");
}

void CudaDevice::nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax,
                                std::int64_t count, Stream& stream) {
  cuda_check(launch_nf4_dequantise(out, dtype, codes, absmax, count, on(stream)), "dequantising NF4");
}

}  // namespace gpuplan::cuda

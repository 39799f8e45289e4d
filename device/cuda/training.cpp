#include "device/cuda/training.h"

#include "device/adamw_step.h"
#include "device/cuda/check.h"
#include "device/cuda/kernels.h"
#include "device/cuda/sequence_attention.h"
#include "device/cuda/training_launch.h"

namespace gpuplan::cuda {
namespace {

/// The dtype of numbers that are all of one.
template <class... Rest>
Dtype common_dtype(ConstNumbers first, Rest... rest) {
  GPUPLAN_CHECK(((ConstNumbers(rest).dtype == first.dtype) && ...), "a training kernel of a GPU got mixed dtypes");
  return first.dtype;
}

void check(const SequenceAttention& shape) {
  GPUPLAN_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "key heads do not divide the query heads");
}

}  // namespace

void CudaTraining::zero(void* data, Bytes size, Stream& stream) {
  const cudaStream_t native = streams_.select(stream);
  if (size.count > 0) cuda_check(cudaMemsetAsync(data, 0, std::size_t(size.count), native), "zeroing");
}

void CudaTraining::add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, Stream& stream) {
  cuda_check(launch_add(y, a, b, count, streams_.select(stream)), "an addition");
}

void CudaTraining::add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, Stream& stream) {
  cuda_check(launch_add_scaled(y, x, factor, count, streams_.select(stream)), "a scaled addition");
}

void CudaTraining::embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden,
                         Stream& stream) {
  cuda_check(launch_embed(y, table, ids, rows, hidden, streams_.select(stream)), "an embedding");
}

void CudaTraining::embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                                  std::int64_t hidden, Stream& stream) {
  cuda_check(launch_embed_backward(gradient, dy, ids, rows, hidden, streams_.select(stream)),
             "the gradient of an embedding");
}

void CudaTraining::add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, Stream& stream) {
  cuda_check(launch_add_bias(y, bias, rows, width, streams_.select(stream)), "a bias");
}

void CudaTraining::bias_backward(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width,
                                 Stream& stream) {
  const cudaStream_t native = streams_.select(stream);
  cuda_check(launch_bias_backward(gradient, dy, rows, width, scratch(stream), native), "the gradient of a bias");
}

void CudaTraining::rms_norm_forward(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows,
                                    std::int64_t hidden, float epsilon, Stream& stream) {
  const Dtype dtype = common_dtype(y, x);
  cuda_check(
      launch_rms_norm(y.data, x.data, dtype, weight.data, weight.dtype, rows, hidden, epsilon, streams_.select(stream)),
      "RMS norm");
}

void CudaTraining::rms_norm_backward(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy,
                                     ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                                     float epsilon, Stream& stream) {
  const Dtype dtype = common_dtype(dx, dy, x);
  const cudaStream_t native = streams_.select(stream);
  float* const sums = weight_gradient.data ? scratch(stream) : nullptr;
  cuda_check(launch_rms_norm_backward(dtype, dx.data, residual, weight_gradient, dy.data, x.data, weight, rows, hidden,
                                      epsilon, sums, native),
             "the gradient of RMS norm");
}

void CudaTraining::rotate(Numbers y, ConstNumbers x, const RotaryTurn& rotation, Stream& stream) {
  cuda_check(launch_rotate(common_dtype(y, x), y.data, x.data, rotation, streams_.select(stream)), "a rotation");
}

void CudaTraining::attention_forward(const SequenceAttention& shape, const void* q, const void* k, const void* v,
                                     void* out, float* lse, Stream& stream) {
  check(shape);
  cuda_check(launch_sequence_attention(shape, q, k, v, out, lse, streams_.select(stream)), "attention");
}

void CudaTraining::attention_backward(const SequenceAttention& shape, const void* dout, const void* q, const void* k,
                                      const void* v, const void* out, const float* lse, void* dq, void* dk, void* dv,
                                      float* scratch, Stream& stream) {
  check(shape);
  cuda_check(
      launch_sequence_attention_backward(shape, dout, q, k, v, out, lse, dq, dk, dv, scratch, streams_.select(stream)),
      "the gradient of attention");
}

void CudaTraining::swiglu_forward(Numbers out, ConstNumbers gate, ConstNumbers up, std::int64_t count, Stream& stream) {
  const Dtype dtype = common_dtype(out, gate, up);
  cuda_check(launch_swiglu(out.data, gate.data, up.data, count, dtype, streams_.select(stream)), "SwiGLU");
}

void CudaTraining::swiglu_backward(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                                   std::int64_t count, Stream& stream) {
  const Dtype dtype = common_dtype(dgate, dup, dout, gate, up);
  cuda_check(launch_swiglu_backward(dtype, dgate.data, dup.data, dout.data, gate.data, up.data, count,
                                    streams_.select(stream)),
             "the gradient of SwiGLU");
}

void CudaTraining::add_squares(double* sum, ConstNumbers x, std::int64_t count, Stream& stream) {
  const cudaStream_t native = streams_.select(stream);
  cuda_check(launch_add_squares(sum, x, count, scratch(stream), native), "a sum of squares");
}

void CudaTraining::add_sum(double* sum, const float* x, std::int64_t count, Stream& stream) {
  const cudaStream_t native = streams_.select(stream);
  cuda_check(launch_add_sum(sum, x, count, scratch(stream), native), "a sum");
}

void CudaTraining::adamw_step(const AdamWRange& range, const AdamW& with, float gradient_scale, Stream& stream) {
  cuda_check(launch_adamw_step(range, gpuplan::adamw_step(with), gradient_scale, streams_.select(stream)),
             "an AdamW step");
}

void CudaTraining::adamw8_step(const AdamW8Range& range, const AdamW& with, float gradient_scale, Stream& stream) {
  cuda_check(launch_adamw8_step(range, gpuplan::adamw_step(with), gradient_scale, streams_.select(stream)),
             "an AdamW step of 8 bits");
}

void CudaTraining::nf4_expand(Numbers out, const std::uint8_t* codes, const std::uint8_t* absmax_codes,
                              const float* absmax_scales, float absmax_offset, std::int64_t count, Stream& stream) {
  const cudaStream_t native = streams_.select(stream);
  cuda_check(absmax_codes ? launch_nf4_expand(out.data, out.dtype, codes, absmax_codes, absmax_scales, absmax_offset,
                                              count, native)
                          : launch_nf4_dequantise(out.data, out.dtype, codes, absmax_scales, count, native),
             "expanding NF4");
}

}  // namespace gpuplan::cuda

// The training kernels of the device under test, on tensors of the bench.
#pragma once

#include "cuda_device/kernels/bench.h"

namespace gpuplan::test {

inline constexpr Dtype kTrained[] = {Dtype::F32, Dtype::BF16};

/// What rounding a result once may cost, relative to it: half the last place, and a little of fp32 arithmetic before.
inline double one_rounding(Dtype dtype) { return dtype == Dtype::BF16 ? 0x1.02p-8 : 2e-6; }

inline Numbers all_of(const Tensor& tensor) { return {tensor.data(), tensor.dtype}; }

class TrainingBench : public Bench {
 public:
  Tensor copy_of(const Tensor& from) {
    const Tensor to = empty(from.count, from.dtype, from.shift);
    device.copy(to.data(), from.data(), bytes_of(from.count, from.dtype), CopyKind::DeviceToDevice, *stream);
    return to;
  }
  /// With the bytes around the elements, which no kernel touches.
  std::vector<std::uint8_t> bits(const Tensor& tensor) {
    check_guard(tensor);
    std::vector<std::uint8_t> bytes(std::size_t(tensor.buffer.size().count));
    device.copy(bytes.data(), tensor.buffer.data(), tensor.buffer.size(), CopyKind::DeviceToHost, *stream);
    stream->synchronise();
    return bytes;
  }
  /// fp32 as they are, without a kernel.
  Tensor upload_floats(const std::vector<float>& numbers) {
    return upload_bytes(numbers.data(), std::int64_t(numbers.size()), Dtype::F32);
  }
  Tensor upload_ids(const std::vector<std::int32_t>& ids) {
    return upload_bytes(ids.data(), std::int64_t(ids.size()), Dtype::I32);
  }
  /// One double in device memory, and what it is now.
  Tensor upload_double(double x) { return upload_bytes(&x, 1, Dtype::F64); }
  double download_double(const Tensor& tensor) {
    check_guard(tensor);
    double x = 0;
    device.copy(&x, tensor.data(), Bytes{8}, CopyKind::DeviceToHost, *stream);
    stream->synchronise();
    return x;
  }
};

inline const std::int32_t* ids_in(const Tensor& tensor) { return static_cast<const std::int32_t*>(tensor.data()); }
inline float* floats_in(const Tensor& tensor) { return static_cast<float*>(tensor.data()); }
inline std::uint8_t* bytes_in(const Tensor& tensor) { return static_cast<std::uint8_t*>(tensor.data()); }

inline Doubles sum_of(const Doubles& a, const Doubles& b, double factor = 1) {
  Doubles sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * b[i];
  return sum;
}

/// The derivative of f at x by central differences: the step costs 1e-10 by f's third derivative and 1e-11 by rounding.
template <class F>
double derivative(F f, double x) {
  constexpr double kStep = 1e-5;
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}

}  // namespace gpuplan::test

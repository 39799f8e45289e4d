// Numbers on their way to the device under test and back.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cuda_device/kernels/device_under_test.h"
#include "cuda_device/naive.h"

namespace gpuplan::test {

/// Half the distance of neighbouring numbers near 1, and some room for sums in another order.
inline double tolerance_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return 2e-5;
    case Dtype::F16: return 2e-3;
    case Dtype::BF16: return 1.2e-2;
    default: return 0.08;
  }
}

inline constexpr Dtype kFloats[] = {Dtype::F32, Dtype::BF16, Dtype::F16};

/// What no kernel may touch, behind the elements of every tensor.
inline constexpr Bytes kGuard{8192};
inline constexpr std::uint8_t kUntouched = 0xA5;

/// Elements on the device, `shift` elements behind an aligned address: shifted ones take the kernels' unaligned way.
struct Tensor {
  Buffer buffer;
  Dtype dtype{};
  std::int64_t count{}, shift{};
  void* data() const { return buffer.as<char>() + shift * size_of(dtype); }
};

class Bench {
 public:
  Device& device = device_under_test();
  std::unique_ptr<Stream> stream = device.create_stream();

  void run(const KernelCall& kernel) { device.run(kernel, *stream); }
  Tensor empty(std::int64_t count, Dtype dtype, std::int64_t shift = 0) {
    const Bytes size = bytes_of(count + shift, dtype) + kGuard;
    const std::vector<std::uint8_t> pattern(std::size_t(size.count), kUntouched);
    Tensor tensor{device.allocate(size), dtype, count, shift};
    device.copy(tensor.buffer.data(), pattern.data(), size, CopyKind::HostToDevice, *stream);
    stream->synchronise();
    return tensor;
  }
  /// Rounded by the device.
  Tensor upload(const Doubles& numbers, Dtype dtype, std::int64_t shift = 0) {
    const std::vector<float> plain(numbers.begin(), numbers.end());
    const auto count = std::int64_t(numbers.size());
    Tensor from = empty(count, Dtype::F32), to = empty(count, dtype, shift);
    device.copy(from.data(), plain.data(), bytes_of(count, Dtype::F32), CopyKind::HostToDevice, *stream);
    device.run(kernels::Cast{{to.data(), dtype}, {from.data(), Dtype::F32}, count}, *stream);
    stream->synchronise();
    return to;
  }
  Doubles download(const Tensor& tensor) {
    check_guard(tensor);
    Tensor plain = empty(tensor.count, Dtype::F32);
    std::vector<float> numbers(static_cast<std::size_t>(tensor.count));
    device.run(kernels::Cast{{plain.data(), Dtype::F32}, {tensor.data(), tensor.dtype}, tensor.count}, *stream);
    device.copy(numbers.data(), plain.data(), bytes_of(tensor.count, Dtype::F32), CopyKind::DeviceToHost, *stream);
    stream->synchronise();
    return {numbers.begin(), numbers.end()};
  }
  Tensor upload_bytes(const void* from, std::int64_t count, Dtype dtype) {
    Tensor to = empty(count, dtype);
    device.copy(to.data(), from, bytes_of(count, dtype), CopyKind::HostToDevice, *stream);
    stream->synchronise();
    return to;
  }
  /// Nothing before the elements or behind them was written.
  void check_guard(const Tensor& tensor) {
    std::vector<std::uint8_t> bytes(std::size_t(tensor.buffer.size().count));
    device.copy(bytes.data(), tensor.buffer.data(), tensor.buffer.size(), CopyKind::DeviceToHost, *stream);
    stream->synchronise();
    const auto begin = bytes.begin() + tensor.shift * size_of(tensor.dtype), end = bytes.end() - kGuard.count;
    const auto is_untouched = [](std::uint8_t byte) { return byte == kUntouched; };
    CHECK(std::all_of(bytes.begin(), begin, is_untouched));
    CHECK(std::all_of(end, bytes.end(), is_untouched));
  }
  /// Random numbers in [low, high).
  Tensor random(std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed, std::int64_t shift = 0) {
    Tensor to = empty(count, dtype, shift);
    device.run(kernels::FillUniform{{to.data(), dtype}, count, low, high, seed}, *stream);
    return to;
  }
};

/// Each number within `tolerance` of what is expected, relative to it or to `scale`, whichever is larger.
inline void check_close(const Doubles& measured, const Doubles& expected, double tolerance, double scale) {
  REQUIRE(measured.size() == expected.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double error = std::abs(measured[i] - expected[i]),
                 allowed = tolerance * std::max(scale, std::abs(expected[i]));
    if (error <= allowed) continue;  // also false for NaN
    CAPTURE(i);
    REQUIRE(measured[i] == doctest::Approx(expected[i]).epsilon(tolerance));
    FAIL("not within " << allowed);
  }
}

}  // namespace gpuplan::test

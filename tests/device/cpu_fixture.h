// The CPU device as the tests use it: arrays of any dtype seen as doubles, and one call for "run this and wait".
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.h"
#include "device/backend.h"
#include "device/narrow_floats.h"

namespace gpuplan::test {

/// Decorates test cases of the CPU device: they are skipped in a build without oneDNN.
inline doctest::skip needs_cpu() {
  const auto folders = device_library_dirs();
  const bool is_built = std::any_of(folders.begin(), folders.end(), [](const std::filesystem::path& folder) {
    return std::filesystem::exists(folder / "libgpuplan_cpu.so");
  });
  return doctest::skip(!is_built);
}
/// For test cases that need it.
inline DeviceBackend& cpu_backend() { return device_backend(DeviceKind::Cpu); }

inline float read(const void* data, std::size_t i, Dtype dtype) {
  const auto* const bytes = static_cast<const std::uint8_t*>(data) + i * std::size_t(size_of(dtype));
  std::uint16_t half = 0;
  if (size_of(dtype) == 2) std::memcpy(&half, bytes, 2);
  if (dtype == Dtype::BF16) return bf16_to_float(half);
  if (dtype == Dtype::F16) return f16_to_float(half);
  if (dtype == Dtype::F8E4M3) return f8e4m3_to_float(*bytes);
  float value = 0;
  std::memcpy(&value, bytes, 4);
  return value;
}

/// A relative step of the dtype: what one rounding may cost.
inline double rounding(Dtype dtype) {
  return dtype == Dtype::BF16 ? 0x1p-8 : dtype == Dtype::F16 ? 0x1p-11 : dtype == Dtype::F8E4M3 ? 0x1p-4 : 0x1p-23;
}

class Cpu {
 public:
  explicit Cpu(int num_threads = 2)
      : device(cpu_backend().open({.num_threads = num_threads})),
        stream(device->create_stream()) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;

  void run(const KernelCall& kernel) const { device->run(kernel, *stream); }
  Buffer zeros(std::int64_t count, Dtype dtype) const {
    Buffer buffer = device->allocate(bytes_of(count, dtype));
    if (count) std::memset(buffer.data(), 0, std::size_t(buffer.size().count));
    return buffer;
  }
  Buffer random(std::int64_t count, Dtype dtype, std::uint64_t seed, float low = -1, float high = 1) {
    Buffer buffer = device->allocate(bytes_of(count, dtype));
    device->run(kernels::FillUniform{{buffer.data(), dtype}, count, low, high, seed}, *stream);
    stream->synchronise();
    return buffer;
  }
};

inline std::vector<double> doubles(const Buffer& buffer, Dtype dtype) {
  std::vector<double> values(std::size_t(buffer.size().count / size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(read(buffer.data(), i, dtype));
  return values;
}

/// The largest |a - b| / (scale + |b|); NaN counts as infinite.
inline double worst_error(const std::vector<double>& a, const std::vector<double>& b, double scale) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double error = std::abs(a[i] - b[i]) / (scale + std::abs(b[i]));
    worst = error <= worst ? worst : std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

}  // namespace gpuplan::test

// Device memory as the host sees it, for checking results: numbers of every operand dtype as double.
#pragma once

#include <cstddef>
#include <vector>

#include "base/dtype.h"
#include "device/device.h"

namespace gpuplan {

/// One number of `dtype` (F32, BF16, F16, F8E4M3) at `data`.
double number_at(const std::byte* data, Dtype dtype);

/// The largest relative error of rounding to `dtype`.
double rounding_error(Dtype dtype);

/// Copies between host and a device and waits.
class HostView {
 public:
  HostView(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  std::vector<std::byte> bytes(const void* from, Bytes size) const;
  /// `count` numbers from element `first` of `tensor`.
  std::vector<double> numbers(const void* tensor, Dtype dtype, std::int64_t first, std::int64_t count) const;
  void write(void* to, const void* from, Bytes size) const;

 private:
  Device& device_;
  Stream& stream_;
};

}  // namespace gpuplan

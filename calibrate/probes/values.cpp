#include "calibrate/probes/values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

template <class T>
T raw_at(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

/// Sign, exponent and mantissa of a small IEEE-like format; infinities and NaNs are NaN, which fails every check.
double small_float(unsigned bits, int exponent_bits, int mantissa_bits, unsigned not_a_number_from) {
  const unsigned magnitude = bits & ((1U << (exponent_bits + mantissa_bits)) - 1);
  if (magnitude >= not_a_number_from) return std::nan("");
  const int exponent = narrow<int>(magnitude >> mantissa_bits), bias = (1 << (exponent_bits - 1)) - 1;
  const double mantissa =
      double(magnitude & ((1U << mantissa_bits) - 1)) + (exponent ? double(1U << mantissa_bits) : 0);
  const double value = std::ldexp(mantissa, (exponent ? exponent : 1) - bias - mantissa_bits);
  return bits >> (exponent_bits + mantissa_bits) ? -value : value;
}

}  // namespace

double number_at(const std::byte* data, Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return raw_at<float>(data);
    case Dtype::BF16: return std::bit_cast<float>(std::uint32_t(raw_at<std::uint16_t>(data)) << 16);
    case Dtype::F16: return small_float(raw_at<std::uint16_t>(data), 5, 10, 0x7c00);
    case Dtype::F8E4M3: return small_float(raw_at<std::uint8_t>(data), 4, 3, 0x7f);  // no infinities
    default: throw BugError("no operand is of " + std::string(to_string(dtype)));
  }
}

double rounding_error(Dtype dtype) {
  switch (dtype) {
    case Dtype::BF16: return 0x1p-8;
    case Dtype::F16: return 0x1p-11;
    case Dtype::F8E4M3: return 0x1p-4;
    default: return 0x1p-24;
  }
}

std::vector<std::byte> HostView::bytes(const void* from, Bytes size) const {
  std::vector<std::byte> host(std::size_t(size.count));
  device_.copy(host.data(), from, size, CopyKind::DeviceToHost, stream_);
  stream_.synchronise();
  return host;
}

std::vector<double> HostView::numbers(const void* tensor, Dtype dtype, std::int64_t first, std::int64_t count) const {
  const auto raw = bytes(static_cast<const std::byte*>(tensor) + bytes_of(first, dtype).count, bytes_of(count, dtype));
  std::vector<double> values(std::size_t(count), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = number_at(raw.data() + i * std::size_t(size_of(dtype)), dtype);
  return values;
}

void HostView::write(void* to, const void* from, Bytes size) const {
  device_.copy(to, from, size, CopyKind::HostToDevice, stream_);
  stream_.synchronise();
}

}  // namespace gpuplan

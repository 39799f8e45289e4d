#include "calibrate/probes/rotation.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {
namespace {

using namespace literals;

constexpr std::uint64_t kSeed = 20261121;
/// The largest result of a calibration's kernels. A pool that grows to it in the course of a session makes the same
/// small kernel write to a cache at first and to memory later.
constexpr Bytes kLeastResults = 128_MiB;

}  // namespace

Bytes aligned(Bytes size) { return {ceil_div(size.count, kAlignment) * kAlignment}; }

void* Rotation::next(Bytes size) {
  GPUPLAN_CHECK(size <= buffer_.size(), "window larger than its rotation");
  if (cursor_ + size > buffer_.size()) cursor_ = {};
  void* const window = buffer_.as<std::byte>() + cursor_.count;
  cursor_ += aligned(size);
  return window;
}

Bytes rotation_size(DeviceKind kind) { return kind == DeviceKind::Cuda ? 256_MiB : 64_MiB; }

Rotation filled_rotation(Device& device, Dtype dtype, Bytes size, float low, float high, Stream& stream) {
  Rotation rotation(device, std::max(rotation_size(device.facts().kind), aligned(size)));
  device.run(
      kernels::FillUniform{{rotation.data(), dtype}, rotation.capacity().count / size_of(dtype), low, high, kSeed},
      stream);
  return rotation;
}

OperandPools::OperandPools(Device& device)
    : device_(device),
      kind_(device.facts().kind),
      has_one_core_(kind_ == DeviceKind::Cpu && device.facts().num_cores == 1) {}

Rotation& OperandPools::random(Dtype dtype, Bytes largest, Stream& stream) {
  return grown(random_[dtype], dtype, largest, stream);
}

/// Filled as well: pages that nobody has touched cost the first call several times its work (Linux maps and clears them
/// then).
Rotation& OperandPools::results(Bytes largest, Stream& stream) {
  return grown(results_, Dtype::F32, std::max(largest, kLeastResults), stream);
}

Rotation& OperandPools::grown(Rotation& pool, Dtype dtype, Bytes largest, Stream& stream) {
  if (pool.capacity() >= std::max(largest, rotation_size(kind_))) return pool;
  pool = {};  // before the larger one is asked for
  return pool = filled_rotation(device_, dtype, largest, -1, 1, stream);
}

/// Behind room for three quarters of what hand_over() writes.
std::byte* OperandPools::place_in(Rotation& pool, Dtype dtype, Stream& stream) {
  const Bytes before{kMostHandedOver.count * 3 / 4};
  return static_cast<std::byte*>(grown(pool, dtype, before + rotation_size(kind_), stream).data()) + before.count;
}

void* OperandPools::fresh(Dtype dtype, Bytes size, Stream& stream) {
  return keeps_fresh(size) ? place_in(fresh_[dtype], dtype, stream) : random(dtype, size, stream).next(size);
}

void* OperandPools::fresh_results(Bytes size, Stream& stream) {
  return keeps_fresh(size) ? place_in(fresh_results_, Dtype::F32, stream) : results(size, stream).next(size);
}

/// Written twice as much as is meant, by all threads and a quarter further: where kernels cut what they read evenly,
/// two threads then find half of theirs at the other one, as they do after a product of theirs (docs/calibration.md),
/// and more threads find all of it elsewhere.
std::function<void()> OperandPools::hand_over(void* place, Bytes size, Stream& stream) {
  if (has_one_core_ || !keeps_fresh(size) || size > kMostHandedOver) return {};
  const std::int64_t count = size.count / size_of(Dtype::F32), ahead = count / 4;
  return [&device = device_, begin = static_cast<float*>(place), count, ahead, &stream] {
    for (float* const at : {begin + ahead - count, begin + ahead})
      device.run(kernels::AddScaled{{at, Dtype::F32}, {at, Dtype::F32}, 0, count}, stream);
  };
}

}  // namespace gpuplan

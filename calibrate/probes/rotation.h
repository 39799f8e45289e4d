// Buffers whose windows take turns, so that a call finds its operands in memory and not in a cache.
#pragma once

#include <map>

#include "device/device.h"

namespace gpuplan {

/// Windows of one buffer, one after the other and round again. Read-only windows may overlap those of other calls: operands of
/// one call share a window. Outputs that must last need one rotation each.
class Rotation {
 public:
  Rotation() = default;
  Rotation(Device& device, Bytes capacity) : buffer_(device.allocate(capacity)) {}
  /// Requires: size <= the capacity.
  void* next(Bytes size);
  template <class T>
  T* next_as(Bytes size) {
    return static_cast<T*>(next(size));
  }
  void* data() const { return buffer_.data(); }
  Bytes capacity() const { return buffer_.size(); }

 private:
  Buffer buffer_;
  Bytes cursor_;
};

/// Rounded up, so that what follows is aligned as well.
Bytes aligned(Bytes size);

/// How many bytes must pass before a window returns, to be out of cache by then.
/// GPU: 256 MiB, twice the largest L2 (126 MB of a B200, NVIDIA Blackwell tuning guide). CPU: 64 MiB, beyond the L2 and one
/// core's usual share of L3 (2-4 MiB) of every server CPU we know. Not beyond all of L3: virtual machines claim that of the whole
/// host (480 MiB for 2 cores), and to fill it for every probe would take longer than measuring does.
Bytes rotation_size(DeviceKind kind);

/// Operands that probes share, so that not each one spends its time on allocating and filling: random numbers in [-1, 1) of each
/// dtype, which are only read, and room for results.
class OperandPools {
 public:
  explicit OperandPools(Device& device) : device_(device), kind_(device.facts().kind) {}
  /// They hold at least `largest` bytes in one window. A pool that must grow is replaced: nothing that uses it may be under way.
  Rotation& random(Dtype dtype, Bytes largest, Stream& stream);
  Rotation& results(Bytes largest, Stream& stream);

 private:
  Device& device_;
  DeviceKind kind_;
  std::map<Dtype, Rotation> random_;
  Rotation results_;
};

/// A rotation of at least one window of `size`, filled uniformly in [low, high).
Rotation filled_rotation(Device& device, Dtype dtype, Bytes size, float low, float high, Stream& stream);

}  // namespace gpuplan

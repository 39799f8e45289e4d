// Buffers whose windows take turns, so that a call finds its operands in memory and not in a cache.
#pragma once

#include <functional>
#include <map>

#include "device/device.h"

namespace gpuplan {

/// Windows of one buffer, one after the other and round again. Read-only windows may overlap those of other calls:
/// operands of one call share a window. Outputs that must last need one rotation each.
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

/// Bytes that must pass before a window returns, to be out of cache by then. GPU: 256 MiB, twice the largest L2 (126 MB
/// of a B200, NVIDIA Blackwell tuning guide). CPU: 64 MiB, beyond the L2 and one core's usual share of L3 (2-4 MiB) of
/// every server CPU we know. Not beyond all of L3: virtual machines claim that of the whole host (480 MiB for 2 cores),
/// and to fill it for every probe would take longer than measuring does.
Bytes rotation_size(DeviceKind kind);

/// Operands that probes share, so that not each one spends its time on allocating and filling: random numbers in [-1,
/// 1) of each dtype, which are only read, and room for results.
class OperandPools {
 public:
  explicit OperandPools(Device& device);
  /// They hold at least `largest` bytes in one window. A pool that must grow is replaced: nothing that uses it may be
  /// under way.
  Rotation& random(Dtype dtype, Bytes largest, Stream& stream);
  Rotation& results(Bytes largest, Stream& stream);

  /// Says whether fresh() and fresh_results() of this size have a place of their own.
  bool keeps_fresh(Bytes size) const { return kind_ == DeviceKind::Cpu && size <= rotation_size(kind_); }
  /// Random numbers that a step's op before has just written: always the same place, so in a cache as far as they fit.
  /// Where they are too large, and on GPUs (whose SMs share a cache; nobody has measured yet what they find there), the
  /// next window of random().
  void* fresh(Dtype dtype, Bytes size, Stream& stream);
  /// Memory for a step that writes to what it has just read or written: the same for results().
  void* fresh_results(Bytes size, Stream& stream);
  /// Enqueues what makes `size` bytes at a place of fresh() or fresh_results() come from other cores, as in a step,
  /// whose ops cut their rows each in its own way: other threads write them, values unchanged. Empty where a rank has
  /// one core, and for what no cache holds.
  std::function<void()> hand_over(void* place, Bytes size, Stream& stream);

 private:
  static constexpr Bytes kMostHandedOver{16 << 20};  // more would not be in another core's caches
  Rotation& grown(Rotation& pool, Dtype dtype, Bytes largest, Stream& stream);
  std::byte* place_in(Rotation& pool, Dtype dtype, Stream& stream);

  Device& device_;
  DeviceKind kind_;
  bool has_one_core_;
  std::map<Dtype, Rotation> random_, fresh_;
  Rotation results_, fresh_results_;
};

/// A rotation of at least one window of `size`, filled uniformly in [low, high).
Rotation filled_rotation(Device& device, Dtype dtype, Bytes size, float low, float high, Stream& stream);

}  // namespace gpuplan

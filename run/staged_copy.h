// Between files and device memory, in pieces through a little pinned memory: the host never looks at device memory
// itself, and needs no more of its own however large an array is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "device/device.h"

namespace gpuplan {

class StagedCopy {
 public:
  /// Both outlive this. What is enqueued on `stream` before a copy is done before it.
  StagedCopy(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// `fill` writes the bytes from `begin` on of what goes to `to`. Pieces begin at multiples of 16 MiB. Returns when
  /// all is there.
  void to_device(void* to, std::int64_t size,
                 const std::function<void(std::int64_t begin, std::span<std::byte> piece)>& fill);
  void to_device(void* to, std::span<const std::byte> bytes);
  /// `take` gets the bytes of `from` in order.
  void to_host(const void* from, std::int64_t size,
               const std::function<void(std::int64_t begin, std::span<const std::byte> piece)>& take);

 private:
  std::span<std::byte> staging(std::int64_t size);
  Device& device_;
  Stream& stream_;
  Buffer staging_;
};

}  // namespace gpuplan

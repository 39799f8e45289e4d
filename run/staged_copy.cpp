#include "run/staged_copy.h"

#include <algorithm>
#include <cstring>

namespace gpuplan {
namespace {

constexpr std::int64_t kPiece = 16 << 20;  // bytes: large enough for full speed of PCIe

}  // namespace

std::span<std::byte> StagedCopy::staging(std::int64_t size) {
  if (staging_.size().count < size) staging_ = device_.allocate_host(Bytes{size}, HostMemory::Pinned);
  return {staging_.as<std::byte>(), std::size_t(size)};
}

void StagedCopy::to_device(void* to, std::int64_t size,
                           const std::function<void(std::int64_t, std::span<std::byte>)>& fill) {
  for (std::int64_t begin = 0; begin < size; begin += kPiece) {
    const std::span<std::byte> piece = staging(std::min(kPiece, size - begin));
    fill(begin, piece);
    device_.copy(static_cast<std::byte*>(to) + begin, piece.data(), Bytes{std::ssize(piece)}, CopyKind::HostToDevice,
                 stream_);
    stream_.synchronise();
  }
}

void StagedCopy::to_device(void* to, std::span<const std::byte> bytes) {
  to_device(to, std::ssize(bytes), [&](std::int64_t begin, std::span<std::byte> piece) {
    std::memcpy(piece.data(), bytes.data() + begin, piece.size());
  });
}

void StagedCopy::to_host(const void* from, std::int64_t size,
                         const std::function<void(std::int64_t, std::span<const std::byte>)>& take) {
  for (std::int64_t begin = 0; begin < size; begin += kPiece) {
    const std::span<std::byte> piece = staging(std::min(kPiece, size - begin));
    device_.copy(piece.data(), static_cast<const std::byte*>(from) + begin, Bytes{std::ssize(piece)},
                 CopyKind::DeviceToHost, stream_);
    stream_.synchronise();
    take(begin, piece);
  }
}

}  // namespace gpuplan

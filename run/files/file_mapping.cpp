#include "run/files/file_mapping.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace gpuplan {
namespace {

// A touched page brings its neighbours: at least 64 KiB (fault-around), at most what one entry of a page directory
// maps.
constexpr std::uintptr_t kAround = std::uintptr_t(2) << 20;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw InputError(file.string(), "cannot be read: " + why);
}

}  // namespace

FileMapping::FileMapping(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(file, std::strerror(errno));
  const std::shared_ptr<void> closer(nullptr, [descriptor](void*) { close(descriptor); });
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail(file, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(file, "it is not a regular file");
  const auto size = std::size_t(status.st_size);
  if (size == 0) return;  // nothing to map
  void* const start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (start == MAP_FAILED) fail(file, std::strerror(errno));
  keeper_ = std::shared_ptr<void>(start, [size](void* at) { munmap(at, size); });
  bytes_ = {static_cast<const std::byte*>(start), size};
}

void FileMapping::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto start = std::uintptr_t(bytes_.data());
  const std::uintptr_t begin = std::uintptr_t(part.data()) & ~(kAround - 1);
  const std::uintptr_t end = (std::uintptr_t(part.data()) + part.size() + kAround - 1) & ~(kAround - 1);
  const std::uintptr_t from = std::max(begin, start), to = std::min(end, start + bytes_.size());
  madvise(const_cast<std::byte*>(bytes_.data()) + (from - start), to - from, MADV_DONTNEED);  // advice: may fail
}

}  // namespace gpuplan

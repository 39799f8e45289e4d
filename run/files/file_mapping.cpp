#include "run/files/file_mapping.h"

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

void forget_pages(std::span<const std::byte> mapped) {
  static const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const auto begin = std::uintptr_t(mapped.data()) & ~(page - 1), end = std::uintptr_t(mapped.data()) + mapped.size();
  if (!mapped.empty()) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // advice: may fail
}

}  // namespace gpuplan

// Memory of a kernel's threads while it runs: tiles and partial sums that fit their caches.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace gpuplan {
namespace {

class Workspace {
 public:
  explicit Workspace(std::int64_t floats)
      : data_(static_cast<float*>(std::aligned_alloc(256, (std::size_t(floats) * sizeof(float) + 255) / 256 * 256))) {
    if (!data_ && floats > 0) throw std::bad_alloc();
  }
  ~Workspace() { std::free(data_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  float* data() const { return data_; }

 private:
  float* data_;
};

}  // namespace
}  // namespace gpuplan

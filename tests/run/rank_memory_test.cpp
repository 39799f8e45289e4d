#include "run/rank_memory.h"

#include <doctest/doctest.h>

#include "device/cpu_fixture.h"
#include "run/counting_device.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// A GPU as far as memory is asked for.
class SomeGpu final : public DeviceWrapper {
 public:
  using DeviceWrapper::DeviceWrapper;
  Bytes free{100}, own{10};
  DeviceFacts facts() const override { return {.kind = DeviceKind::Cuda, .memory = Bytes{128}, .memory_free = free}; }
  Bytes overhead() const override { return own; }
};

}  // namespace

TEST_CASE("process memory: on a GPU the context, and what went from free memory since it was opened" * needs_cpu()) {
  SomeGpu gpu(cpu_backend().open({.num_threads = 1}));
  ProcessMemory process;
  process.opened(gpu);
  CHECK(process.now(gpu, {}) == Bytes{10});
  gpu.free = Bytes{30}, gpu.own = Bytes{15};  // 60 in buffers, 5 of workspaces, 5 of NCCL
  CHECK(process.now(gpu, Bytes{60}) == Bytes{80});
  gpu.free = Bytes{90};  // another process has ended meanwhile
  CHECK(process.now(gpu, Bytes{60}) == Bytes{75});
}

TEST_CASE("process memory: on a CPU by how much the highest resident memory grew" * needs_cpu()) {
  const auto cpu = cpu_backend().open({.num_threads = 1});
  constexpr std::int64_t kLarge = 256 << 20;
  ProcessMemory process;
  process.opened(*cpu);
  const Bytes before = process.now(*cpu, {});
  {
    // more than this process ever held before
    const std::vector<char> large(std::size_t(peak_resident_bytes().count + kLarge), 1);
    CHECK(large.back() == 1);
  }
  CHECK(process.now(*cpu, {}) >= before + Bytes{kLarge});
}

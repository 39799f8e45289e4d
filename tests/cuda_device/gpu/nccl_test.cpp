#include "cuda_device/kernels/bench.h"
#include "device/backend.h"

#include <cstring>
#include <filesystem>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

bool has_nccl() {
  const bool is_built = std::filesystem::exists(device_library_dirs().front() / "libgpuplan_nccl.so");
  if (!is_built) MESSAGE("skipped: libgpuplan_nccl.so is not built");
  return is_built;
}

constexpr std::int64_t kCount = 1000;

}  // namespace

TEST_CASE("a group of one rank gets back what it put in, from every collective") {
  if (!has_nccl()) return;
  Bench bench;
  CollectiveBackend& backend = collective_backend(DeviceKind::Cuda);
  const auto ranks = backend.join(bench.device, {.rank = 0, .size = 1, .id = backend.make_id()});
  CHECK(ranks->size() == 1);
  CHECK(ranks->library().starts_with("NCCL 2."));
  for (const Dtype dtype : kFloats) {
    const Tensor from = bench.random(kCount, dtype, -1, 1, 1);
    const Doubles expected = bench.download(from);
    const auto check = [&](auto collective) {
      const Tensor to = bench.upload(Doubles(kCount), dtype);
      collective(to.data());
      CHECK(bench.download(to) == expected);
    };
    check([&](void* to) { ranks->all_reduce(from.data(), to, kCount, dtype, *bench.stream); });
    check([&](void* to) { ranks->all_gather(from.data(), to, kCount, dtype, *bench.stream); });
    check([&](void* to) { ranks->reduce_scatter(from.data(), to, kCount, dtype, *bench.stream); });
    check([&](void* to) {
      ranks->begin_group();
      ranks->send(from.data(), kCount, dtype, 0, *bench.stream);
      ranks->receive(to, kCount, dtype, 0, *bench.stream);
      ranks->end_group();
    });
    ranks->broadcast(from.data(), kCount, dtype, 0, *bench.stream);
    CHECK(bench.download(from) == expected);
  }
}

TEST_CASE("a group of one rank keeps step with itself, and splits") {
  if (!has_nccl()) return;
  Bench bench;
  const auto ranks = collective_backend(DeviceKind::Cuda).join(bench.device, {});
  ranks->barrier();
  CHECK(ranks->max_host(-2.5) == -2.5);
  char word[] = "calibrate";
  ranks->broadcast_host(std::as_writable_bytes(std::span(word)), 0);
  CHECK(std::strcmp(word, "calibrate") == 0);
  char gathered[sizeof word] = {};
  ranks->all_gather_host(std::as_bytes(std::span(word)), std::as_writable_bytes(std::span(gathered)));
  CHECK(std::strcmp(gathered, "calibrate") == 0);
  CHECK(ranks->split(-1) == nullptr);
  const auto part = ranks->split(3);
  REQUIRE(part);
  CHECK(part->max_host(1.5) == 1.5);
}

#include "ecosystem/out_of_memory.h"

#include <doctest/doctest.h>

#include "ecosystem/config_reader.h"

namespace gpuplan {
namespace {

constexpr const char* kNew =
    "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.15 GiB of "
    "which 1.06 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated "
    "memory "
    "75.53 GiB is allocated by PyTorch, and 1.80 GiB is reserved by PyTorch but unallocated.";
constexpr const char* kOld =
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 22.08 GiB already "
    "allocated; 11.94 MiB free; 22.30 GiB reserved in total by PyTorch)";

Bytes gib(double amount) { return {std::int64_t(amount * 0x1p30)}; }
Bytes mib(double amount) { return {std::int64_t(amount * 0x1p20)}; }
bool is_near(Bytes a, Bytes b) { return a.count - b.count <= 2 && b.count - a.count <= 2; }

}  // namespace

TEST_CASE("an out-of-memory message of PyTorch 2 is read") {
  const auto m = find_out_of_memory(kNew);
  REQUIRE(m);
  CHECK(is_near(m->asked, gib(2)));
  REQUIRE(m->capacity);
  CHECK(is_near(*m->capacity, gib(79.15)));
  REQUIRE(m->free);
  CHECK(is_near(*m->free, gib(1.06)));
  REQUIRE(m->in_use);
  CHECK(is_near(*m->in_use, gib(78.08)));
  REQUIRE(m->allocated);
  CHECK(is_near(*m->allocated, gib(75.53)));
  CHECK(is_near(m->needed(), gib(80.08)));
}

TEST_CASE("an out-of-memory message of PyTorch 1 is read") {
  const auto m = find_out_of_memory(kOld);
  REQUIRE(m);
  CHECK(is_near(m->asked, mib(20)));
  REQUIRE(m->capacity);
  CHECK(is_near(*m->capacity, gib(23.69)));
  REQUIRE(m->free);
  CHECK(is_near(*m->free, mib(11.94)));
  REQUIRE(m->allocated);
  CHECK(is_near(*m->allocated, gib(22.08)));
  CHECK_FALSE(m->in_use);
}

TEST_CASE("the last message of a log counts; without one there is none; a broken one is none") {
  CHECK(is_near(find_out_of_memory(std::string(kNew) + "\n" + kOld)->asked, mib(20)));
  CHECK_FALSE(find_out_of_memory("all is well"));
  CHECK_FALSE(find_out_of_memory("Tried to allocate "));
  CHECK_FALSE(find_out_of_memory("Tried to allocate many GiB."));
}

TEST_CASE("a log among the files is told apart from a configuration") {
  const ConfigReading r = read_configs({{"oom.txt", kNew}}, {});
  REQUIRE(r.out_of_memory);
  CHECK_FALSE(r.has_trainer);
  const double needed = double(r.out_of_memory->needed().count);
  const auto says = [&](double predicted_share, const std::optional<AccuracyRange>& range, std::string_view words) {
    const Bytes predicted{std::int64_t(needed * predicted_share)};
    return compare_with(*r.out_of_memory, predicted, range, "ddp").find(words) != std::string::npos;
  };
  AccuracyRange range;  // measured runs take 0.9 to 1.25 times what is predicted for them
  range.low = 0.9, range.high = 1.25;
  CHECK(says(1 / 0.91, range, "explains it"));
  CHECK(says(1 / 1.24, range, "explains it"));
  CHECK(says(1 / 0.89, range, "on its way"));
  CHECK(says(1 / 1.26, range, "other settings"));
  CHECK(says(1.02, {}, "on its way"));  // without measured runs nothing is near
}

}  // namespace gpuplan

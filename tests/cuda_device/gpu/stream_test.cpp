#include "base/error.h"
#include "base/unit_text.h"
#include "cuda_device/kernels/bench.h"

#include <atomic>
#include <stdexcept>

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("facts name the GPU, its memory and the libraries") {
  const DeviceFacts facts = device_under_test().facts();
  CHECK(facts.kind == DeviceKind::Cuda);
  CHECK(facts.architecture.starts_with("sm_"));
  CHECK(facts.memory_free <= facts.memory);
  CHECK(facts.num_cores > 0);
  CHECK(facts.versions.size() >= 3);
}

TEST_CASE("opening took memory, and the first product of a stream takes a workspace more") {
  Bench bench;
  const Bytes before = bench.device.overhead();
  CHECK(before > Bytes{50 << 20});
  const Tensor a = bench.random(64 * 64, Dtype::F32, 0, 1, 1), c = bench.empty(64 * 64, Dtype::F32);
  bench.device.gemm({.m = 64, .n = 64, .k = 64}, a.data(), a.data(), c.data(), *bench.stream);
  CHECK(bench.device.overhead() >= before + Bytes{8 << 20});
}

TEST_CASE("too large an allocation says what was asked and what is free, and harms nothing") {
  Device& device = device_under_test();
  std::string error;
  try {
    device.allocate(Bytes{std::int64_t(1) << 50});
  } catch (const EnvError& e) { error = e.what(); }
  CHECK(error.find(format_bytes({std::int64_t(1) << 50}) + " asked") != std::string::npos);
  CHECK(error.find(" free") != std::string::npos);
  CHECK(device.allocate(Bytes{1000}).data() != nullptr);
}

TEST_CASE("buffers of every kind are aligned to 256 bytes") {
  Device& device = device_under_test();
  const Buffer buffers[] = {device.allocate(Bytes{1000}), device.allocate_host(Bytes{1000}, HostMemory::Pageable),
                            device.allocate_host(Bytes{1000}, HostMemory::Pinned)};
  for (const Buffer& buffer : buffers) CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
}

TEST_CASE("copies go to the device, across it and back") {
  Bench bench;
  for (const HostMemory kind : {HostMemory::Pageable, HostMemory::Pinned}) {
    const Bytes size{1 << 20};
    const Buffer from = bench.device.allocate_host(size, kind), to = bench.device.allocate_host(size, kind);
    const Buffer first = bench.device.allocate(size), second = bench.device.allocate(size);
    for (std::int64_t i = 0; i < size.count; ++i) from.as<std::uint8_t>()[i] = std::uint8_t(i * 31 % 251);
    bench.device.copy(first.data(), from.data(), size, CopyKind::HostToDevice, *bench.stream);
    bench.device.copy(second.data(), first.data(), size, CopyKind::DeviceToDevice, *bench.stream);
    bench.device.copy(to.data(), second.data(), size, CopyKind::DeviceToHost, *bench.stream);
    bench.stream->synchronise();
    CHECK(std::equal(from.as<std::uint8_t>(), from.as<std::uint8_t>() + size.count, to.as<std::uint8_t>()));
  }
}

TEST_CASE("events tell the time between them, and later work can wait for them") {
  Bench bench;
  const auto begin = bench.device.create_event(), end = bench.device.create_event();
  const auto other = bench.device.create_stream();
  const Tensor data = bench.empty(1 << 24, Dtype::F32);
  std::atomic<bool> is_filled = false, was_filled = false;
  bench.device.record(*begin, *bench.stream);
  bench.run(kernels::FillUniform{{data.data(), Dtype::F32}, data.count, 0, 1, 1});
  bench.stream->run_on_host([&] { is_filled = true; });
  bench.device.record(*end, *bench.stream);
  bench.device.wait(*other, *end);
  other->run_on_host([&] { was_filled = is_filled.load(); });
  other->synchronise();
  end->synchronise();
  CHECK(was_filled);
  CHECK(bench.device.elapsed(*begin, *end).value > 0);
}

TEST_CASE("a task on the host that throws is told by the next wait for the stream, once") {
  Bench bench;
  bench.stream->run_on_host([] { throw std::runtime_error("disk full"); });
  CHECK_THROWS_WITH_AS(bench.stream->synchronise(), "a task on the stream failed: disk full", EnvError);
  CHECK_NOTHROW(bench.stream->synchronise());
}

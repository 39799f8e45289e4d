// Work that is recorded once and launched as a whole.
#include "base/error.h"
#include "cuda_device/kernels/bench.h"

#include <array>
#include <stdexcept>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kCount = 1000;

/// y = 2 (x + x) in bf16 and fp32 on two streams, from pinned memory and back.
struct Doubling {
  Bench bench;
  std::unique_ptr<Stream> other = bench.device.create_stream();
  std::unique_ptr<Event> first = bench.device.create_event(), last = bench.device.create_event();
  Buffer from = bench.device.allocate_host(bytes_of(kCount, Dtype::F32), HostMemory::Pinned);
  Buffer to = bench.device.allocate_host(bytes_of(kCount, Dtype::F32), HostMemory::Pinned);
  Tensor x = bench.empty(kCount, Dtype::F32), half = bench.empty(kCount, Dtype::BF16),
         sum = bench.empty(kCount, Dtype::F32);
  Tensor y = bench.empty(kCount, Dtype::F32);
  std::array<Stream*, 2> streams{bench.stream.get(), other.get()};

  /// The other stream adds what the first one has brought, and the first one takes it back.
  void enqueue() {
    Device& device = bench.device;
    device.copy(x.data(), from.data(), from.size(), CopyKind::HostToDevice, *streams[0]);
    device.record(*first, *streams[0]);
    device.wait(*other, *first);
    device.run(kernels::Add{{sum.data(), Dtype::F32}, {x.data(), Dtype::F32}, {x.data(), Dtype::F32}, kCount}, *other);
    device.record(*last, *other);
    device.run(kernels::Cast{{half.data(), Dtype::BF16}, {x.data(), Dtype::F32}, kCount}, *streams[0]);
    device.wait(*streams[0], *last);
    device.run(kernels::Cast{{y.data(), Dtype::F32}, {half.data(), Dtype::BF16}, kCount}, *streams[0]);
    device.run(kernels::AddScaled{{y.data(), Dtype::F32}, {sum.data(), Dtype::F32}, 1, kCount}, *streams[0]);
    device.copy(to.data(), y.data(), to.size(), CopyKind::DeviceToHost, *streams[0]);
  }
  void fill(float value) const {
    for (std::int64_t i = 0; i < kCount; ++i) from.as<float>()[i] = value + float(i % 2), to.as<float>()[i] = -1;
  }
  /// Whole numbers below 256, which bf16 has exactly.
  void check_tripled(float value) const {
    for (std::int64_t i = 0; i < kCount; ++i) REQUIRE(to.as<float>()[i] == 3 * (value + float(i % 2)));
  }
  void check_untouched() const {
    for (std::int64_t i = 0; i < kCount; ++i) REQUIRE(to.as<float>()[i] == -1);
  }
};

}  // namespace

TEST_CASE("what was recorded of two streams runs at each launch, on what its memory holds then") {
  Doubling work;
  Device& device = work.bench.device;
  REQUIRE(device.can_capture());
  work.enqueue();  // kernels are loaded
  for (Stream* const stream : work.streams) stream->synchronise();
  work.fill(5);
  const auto graph = device.capture(work.streams, [&] { work.enqueue(); });
  for (Stream* const stream : work.streams) stream->synchronise();
  work.check_untouched();
  for (const float value : {5.0F, 7.0F, 40.0F}) {
    work.fill(value);
    device.launch(*graph, *work.streams[0]);
    work.streams[0]->synchronise();
    work.check_tripled(value);
  }
  const auto third = device.create_stream();
  work.fill(9);
  device.launch(*graph, *third);
  device.launch(*graph, *work.streams[0]);
  for (Stream* const stream : {third.get(), work.streams[0]}) stream->synchronise();
  work.check_tripled(9);
  work.fill(11);
  work.enqueue();  // and without it
  work.streams[0]->synchronise();
  work.check_tripled(11);
}

TEST_CASE("a capture that fails says why, runs nothing and leaves the streams as they were") {
  Doubling work;
  Device& device = work.bench.device;
  work.enqueue();
  for (Stream* const stream : work.streams) stream->synchronise();
  using Wrong = std::function<void()>;
  for (const Wrong& wrong :
       {Wrong([&] { device.allocate(Bytes{1 << 20}); }), Wrong([&] { work.other->synchronise(); }),
        Wrong([&] { work.streams[0]->synchronise(); }), Wrong([&] { work.other->run_on_host([] {}); }),
        Wrong([&] { throw EnvError("something else"); })}) {
    work.fill(3);
    CHECK_THROWS_AS(device.capture(work.streams,
                                   [&] {
                                     work.enqueue();
                                     wrong();
                                   }),
                    EnvError);
    for (Stream* const stream : work.streams) stream->synchronise();
    work.check_untouched();
    work.enqueue();
    work.streams[0]->synchronise();
    work.check_tripled(3);
  }
  const auto graph = device.capture(work.streams, [&] { work.enqueue(); });
  work.fill(4);
  device.launch(*graph, *work.streams[0]);
  work.streams[0]->synchronise();
  work.check_tripled(4);
}

TEST_CASE("a wait for what was enqueued before the capture is refused") {
  Doubling work;
  Device& device = work.bench.device;
  const auto before = device.create_event();
  device.record(*before, *work.other);
  CHECK_THROWS_AS(device.capture(work.streams, [&] { device.wait(*work.streams[0], *before); }), EnvError);
  CHECK_NOTHROW(device.wait(*work.streams[0], *before));
}

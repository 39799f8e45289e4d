// Streams are beside each other and events put them in order: a slow stream, what is wrong without waiting for it and
// right with it.
#include "base/error.h"
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"

#include <chrono>
#include <future>
#include <thread>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Holds a stream until it is let go, or the end of the scope.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.run_on_host([opened = opened_.get_future().share()] { opened.wait(); });
  }
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(is_open_, true)) opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool is_open_ = false;
};

/// 1 is written on a slow stream; what another stream copies of it, with or without a wait.
float copied_of_slow_stream(bool waits) {
  Device& device = device_under_test();
  const auto slow = device.create_stream(), other = device.create_stream();
  const auto event = device.create_event();
  const Buffer data = device.allocate(Bytes{4}), from = device.allocate_host(Bytes{4}, HostMemory::Pinned);
  const Buffer to = device.allocate_host(Bytes{4}, HostMemory::Pinned);
  *from.as<float>() = -1;
  device.copy(data.data(), from.data(), Bytes{4}, CopyKind::HostToDevice, *slow);
  slow->synchronise();
  *from.as<float>() = 1;
  Gate gate(*slow);
  device.copy(data.data(), from.data(), Bytes{4}, CopyKind::HostToDevice, *slow);
  device.record(*event, *slow);
  if (waits) device.wait(*other, *event);
  device.copy(to.data(), data.data(), Bytes{4}, CopyKind::DeviceToHost, *other);
  if (!waits) other->synchronise();
  gate.open();
  other->synchronise();
  slow->synchronise();
  return *to.as<float>();
}

}  // namespace

TEST_CASE("a stream that waits for a slow one sees what it wrote; one that does not, does not") {
  CHECK(copied_of_slow_stream(true) == 1);
  CHECK(copied_of_slow_stream(false) == -1);
}

TEST_CASE("a wait is for the record before it, not for later ones") {
  Device& device = device_under_test();
  const auto slow = device.create_stream(), other = device.create_stream();
  const auto event = device.create_event();
  device.record(*event, *slow);
  device.wait(*other, *event);
  const Gate gate(*slow);
  device.record(*event, *slow);
  CHECK_NOTHROW(other->synchronise());  // would not return
}

TEST_CASE("pageable memory may be used again after a copy, pinned memory only when the stream has come to it") {
  Bench bench;
  Device& device = bench.device;
  const Buffer pinned = device.allocate_host(Bytes{4}, HostMemory::Pinned);
  const Tensor of_pageable = bench.empty(1, Dtype::F32), of_pinned = bench.empty(1, Dtype::F32);
  float pageable = 1;
  *pinned.as<float>() = 1;
  Gate gate(*bench.stream);
  device.copy(of_pageable.data(), &pageable, Bytes{4}, CopyKind::HostToDevice, *bench.stream);
  device.copy(of_pinned.data(), pinned.data(), Bytes{4}, CopyKind::HostToDevice, *bench.stream);
  pageable = *pinned.as<float>() = 2;
  gate.open();
  CHECK(bench.download(of_pageable) == Doubles{1});
  CHECK(bench.download(of_pinned) == Doubles{2});
}

TEST_CASE("the time between two events is that of the work between them") {
  Bench bench;
  const auto begin = bench.device.create_event(), end = bench.device.create_event();
  const auto before = std::chrono::steady_clock::now();
  bench.device.record(*begin, *bench.stream);
  bench.stream->run_on_host([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  bench.device.record(*end, *bench.stream);
  end->synchronise();
  const std::chrono::duration<double> around = std::chrono::steady_clock::now() - before;
  CHECK(bench.device.elapsed(*begin, *end).value >= 0.020);
  CHECK(bench.device.elapsed(*begin, *end).value <= around.count());
  const auto never = bench.device.create_event();
  CHECK_THROWS_AS(bench.device.elapsed(*begin, *never), EnvError);
  const Gate gate(*bench.stream);
  bench.device.record(*end, *bench.stream);
  CHECK_THROWS_AS(bench.device.elapsed(*begin, *end), EnvError);  // not ready
}

TEST_CASE("work on a stream of another GPU is refused") {
  const Played machine(2);
  const auto first = device_backend(DeviceKind::Cuda).open({.index = 0}),
             second = device_backend(DeviceKind::Cuda).open({.index = 1});
  const auto stream = first->create_stream();
  const auto event = second->create_event();
  CHECK_THROWS_AS(second->run(kernels::Empty{}, *stream), EnvError);
  CHECK_THROWS_AS(second->record(*event, *stream), BugError);
  CHECK_NOTHROW(first->run(kernels::Empty{}, *stream));
}

TEST_CASE("one thread drives two GPUs in turn, call by call") {
  const Played machine(2);
  std::vector<std::unique_ptr<Device>> devices;
  for (const int gpu : {0, 1}) devices.push_back(device_backend(DeviceKind::Cuda).open({.index = gpu}));
  std::vector<Bench> benches;
  for (const auto& device : devices) benches.push_back({.device = *device, .stream = device->create_stream()});
  std::vector<Tensor> data;
  for (Bench& bench : benches) data.push_back(bench.random(3 * 256, Dtype::F32, 1, 1, 0));
  for (int i = 0; i < 2; ++i)
    for (std::size_t gpu : {0, 1}) {
      Device& device = *devices[gpu];
      Stream& stream = *benches[gpu].stream;
      float* const x = static_cast<float*>(data[gpu].data());
      device.gemm({.m = 16, .n = 16, .k = 16, .alpha = 1.0F / 16}, x, x + 256, x + 512, stream);
      const auto event = device.create_event();
      device.record(*event, stream);
      device.run(kernels::Cast{{x, Dtype::F32}, {x, Dtype::F32}, 1}, stream);
      CHECK(device.facts().memory_free < device.facts().memory);
    }
  for (std::size_t gpu : {0, 1}) CHECK(benches[gpu].download(data[gpu]) == Doubles(3 * 256, 1));
}

TEST_CASE("copies go from one GPU to another, in the order that events give") {
  const Played machine(2);
  const auto first = device_backend(DeviceKind::Cuda).open({.index = 0}),
             second = device_backend(DeviceKind::Cuda).open({.index = 1});
  Bench here{.device = *first, .stream = first->create_stream()},
      there{.device = *second, .stream = second->create_stream()};
  const Tensor from = here.upload({1, 2, 3}, Dtype::F32), to = there.empty(3, Dtype::F32);
  const auto is_written = first->create_event();
  Gate gate(*here.stream);
  first->run(kernels::FillUniform{{from.data(), Dtype::F32}, 3, 5, 5, 0}, *here.stream);
  first->record(*is_written, *here.stream);
  second->wait(*there.stream, *is_written);
  second->copy(to.data(), from.data(), Bytes{12}, CopyKind::DeviceToDevice, *there.stream);
  gate.open();
  CHECK(there.download(to) == Doubles{5, 5, 5});
}

TEST_CASE("two streams multiply at once, each in its own workspace") {
  Bench bench;
  const auto other = bench.device.create_stream();
  const GemmProblem problem{.m = 64, .n = 48, .k = 96, .layout = GemmLayout::WeightGradient};
  const Tensor a = bench.random(64 * 96, Dtype::F32, -1, 1, 1), b = bench.random(48 * 96, Dtype::F32, -1, 1, 2);
  const Tensor first = bench.empty(64 * 48, Dtype::F32), second = bench.empty(64 * 48, Dtype::F32);
  bench.stream->synchronise();
  for (int i = 0; i < 100; ++i) {
    bench.device.gemm(problem, a.data(), b.data(), first.data(), *bench.stream);
    bench.device.gemm(problem, a.data(), b.data(), second.data(), *other);
  }
  other->synchronise();
  const Doubles product = bench.download(first);
  CHECK(product ==
        bench.download(second));  // neither is NaN, as the fake makes products whose workspace another one wrote to
  check_close(product, naive_product(problem, bench.download(a), bench.download(b)), 1e-4, std::sqrt(96.0));
}

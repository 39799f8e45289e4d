// Streams, events and errors of the CPU device.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/unit_text.h"
#include "cpu_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;
using namespace gpuplan::literals;

namespace {

void sleep_ms(int count) { std::this_thread::sleep_for(std::chrono::milliseconds(count)); }

}  // namespace

TEST_CASE("tasks of a stream run in order, and enqueueing does not wait for them" * needs_cpu()) {
  Cpu cpu;
  std::vector<int> order;
  std::atomic<bool> may_start{false};
  cpu.stream->run_on_host([&] {
    while (!may_start) sleep_ms(1);
  });
  for (int i = 0; i < 100; ++i) cpu.stream->run_on_host([&order, i] { order.push_back(i); });
  CHECK(order.empty());
  may_start = true;
  cpu.stream->synchronise();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[std::size_t(i)] == i);
}

TEST_CASE("two streams run beside each other: each waits for the other's first task" * needs_cpu()) {
  Cpu cpu;
  const auto other = cpu.device->create_stream();
  std::atomic<bool> first{false}, second{false};
  cpu.stream->run_on_host([&] {
    first = true;
    while (!second) sleep_ms(1);
  });
  other->run_on_host([&] {
    second = true;
    while (!first) sleep_ms(1);
  });
  cpu.stream->synchronise();
  other->synchronise();
  CHECK((first && second));
}

TEST_CASE("a stream waits for an event of another, for the record that was made before the wait" * needs_cpu()) {
  Cpu cpu;
  const auto other = cpu.device->create_stream();
  const auto event = cpu.device->create_event();
  std::atomic<int> stage{0};
  int seen = -1;
  cpu.stream->run_on_host([&] {
    sleep_ms(20);
    stage = 1;
  });
  cpu.device->record(*event, *cpu.stream);
  cpu.device->wait(*other, *event);
  other->run_on_host([&] { seen = stage; });
  other->synchronise();
  CHECK(seen == 1);
  cpu.stream->synchronise();
}

TEST_CASE("elapsed time between events is that of the work between them" * needs_cpu()) {
  Cpu cpu;
  const auto before = std::chrono::steady_clock::now();
  const auto begin = cpu.device->create_event(), end = cpu.device->create_event();
  cpu.device->record(*begin, *cpu.stream);
  cpu.stream->run_on_host([] { sleep_ms(30); });
  cpu.device->record(*end, *cpu.stream);
  end->synchronise();
  const std::chrono::duration<double> around = std::chrono::steady_clock::now() - before;
  CHECK(cpu.device->elapsed(*begin, *end) >= 30.0_ms);
  CHECK(cpu.device->elapsed(*begin, *end).value <= around.count());
  const auto never = cpu.device->create_event();
  CHECK_THROWS_AS(cpu.device->elapsed(*begin, *never), BugError);
}

TEST_CASE("a failing task is told once, as EnvError; what stands behind it is not run, and later work is" *
          needs_cpu()) {
  Cpu cpu;
  bool ran_behind = false, ran_later = false;
  const auto event = cpu.device->create_event();
  cpu.stream->run_on_host([] { throw std::runtime_error("the disk is on fire"); });
  cpu.stream->run_on_host([&] { ran_behind = true; });
  cpu.device->record(*event, *cpu.stream);
  CHECK_THROWS_AS(event->synchronise(), EnvError);
  CHECK_THROWS_WITH_AS(cpu.stream->synchronise(), "work on the CPU device failed: the disk is on fire", EnvError);
  CHECK(!ran_behind);
  cpu.stream->run_on_host([&] { ran_later = true; });
  CHECK_NOTHROW(cpu.stream->synchronise());
  CHECK(ran_later);
}

TEST_CASE("a stream that goes away finishes its work first" * needs_cpu()) {
  Cpu cpu;
  int done = 0;
  {
    const auto stream = cpu.device->create_stream();
    for (int i = 0; i < 10; ++i)
      stream->run_on_host([&] {
        sleep_ms(1);
        ++done;
      });
  }
  CHECK(done == 10);
}

TEST_CASE("memory is aligned to 256 bytes, and too much of it is refused with what was asked and what is free" *
          needs_cpu()) {
  Cpu cpu;
  for (const std::int64_t size : {0, 1, 255, 4097, 5 << 20}) {
    const Buffer buffer = cpu.device->allocate({size}), host = cpu.device->allocate_host({size}, HostMemory::Pinned);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
    CHECK(buffer.size() == Bytes{size});
    if (size) static_cast<char*>(buffer.data())[size - 1] = static_cast<char*>(host.data())[size - 1] = 1;
  }
  try {
    const Buffer huge = cpu.device->allocate({std::int64_t(1) << 50});
    FAIL("a PiB was given");
  } catch (const EnvError& error) {
    CHECK_MESSAGE(std::string(error.what())
                      .starts_with("out of memory: " + format_bytes({std::int64_t(1) << 50}) + " asked of the host, "),
                  error.what());
    CHECK(std::string(error.what()).find(" free") != std::string::npos);
  }
}

TEST_CASE("the device says what it is" * needs_cpu()) {
  CHECK(cpu_backend().num_devices() == 1);
  const DeviceFacts facts = cpu_backend().open({.num_threads = 1})->facts();
  CHECK(facts.kind == DeviceKind::Cpu);
  CHECK(!facts.name.empty());
  CHECK(!facts.architecture.empty());
  CHECK(facts.memory >= facts.memory_free);
  CHECK(facts.memory_free > 0_B);
  CHECK(facts.num_cores == 1);
  CHECK(facts.gemm_types.front() == GemmType::F32);
  CHECK(facts.versions.front().first == "oneDNN");
  CHECK(cpu_backend().open({})->facts().num_cores >= 1);
}

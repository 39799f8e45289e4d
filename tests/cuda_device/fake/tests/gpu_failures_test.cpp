// What a GPU or its driver does wrong, in the words that a person gets.
#include "base/error.h"
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"
#include "run/files/error_text.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::unique_ptr<Device> open_gpu(int index) { return device_backend(DeviceKind::Cuda).open({.index = index}); }

/// A GPU that opening leaves exactly 100 MiB of: the context takes 400, and warming up 8 for a moment.
const fake::Gpu kSmall{.name = "Small GPU", .memory = std::int64_t(500) << 20};

}  // namespace

TEST_CASE("out of memory names the GPU, what was asked, what is free, and what this process holds") {
  const Played machine({.gpus = {{}, kSmall}});
  const auto device = open_gpu(1);
  const Buffer held = device->allocate(Bytes{std::int64_t(60) << 20});
  CHECK(error_text<EnvError>([&] { device->allocate(Bytes{std::int64_t(50) << 20}); }) ==
        "out of memory on GPU 1 (Small GPU): 50.0 MiB asked, 40.0 MiB of 500 MiB free; this process holds 60.0 MiB in "
        "buffers");
  CHECK(device->allocate(Bytes{std::int64_t(40) << 20}).data() != nullptr);  // and what fits is given
}

TEST_CASE("an allocation that fails now does not fail what comes after it") {
  const Played machine({.fail_allocation = 3});  // two are warming up: an operand buffer and the workspace
  const auto device = open_gpu(0);
  CHECK(error_text<EnvError>([&] {
          device->allocate(Bytes{1});
        }).starts_with("out of memory on GPU 0 (NVIDIA A100-SXM4-80GB): 1 B asked, "));
  const auto stream = device->create_stream();
  CHECK_NOTHROW(device->run(kernels::Empty{}, *stream));
  CHECK(device->allocate(Bytes{1}).data() != nullptr);
}

TEST_CASE("no memory for the workspace of a stream is an error of the product") {
  const Played machine({.gpus = {kSmall}});
  const auto device = open_gpu(0);
  const auto stream = device->create_stream();
  const Buffer most = device->allocate(Bytes{std::int64_t(99) << 20});
  float* const data = most.as<float>();
  CHECK(error_text<EnvError>([&] {
          device->gemm({.m = 16, .n = 16, .k = 16}, data, data + 256, data + 512, *stream);
        }) == "CUDA: allocating the workspace of a stream (8.00 MiB): out of memory (cudaErrorMemoryAllocation)");
}

TEST_CASE("without a driver, and with one that is too old, counting and opening say so") {
  {
    const Played machine({.driver = fake::Driver::Absent});
    constexpr const char* kNone =
        "no NVIDIA driver on this machine: install it, or take the CPU (run --gpus 2xcpu, calibrate --device cpu)";
    CHECK(error_text<EnvError>([] { device_backend(DeviceKind::Cuda).num_devices(); }) == kNone);
    CHECK(error_text<EnvError>([] { open_gpu(0); }) == kNone);
  }
  const Played machine({.driver = fake::Driver::TooOld});
  const std::string error = error_text<EnvError>([] { open_gpu(0); });
  CHECK(error.starts_with("the NVIDIA driver is for CUDA 11.4, and this build needs "));
  CHECK(error.ends_with(": update the driver"));
}

TEST_CASE("a machine without GPUs has none, and one that is not there is named") {
  const Played machine(0);
  CHECK(device_backend(DeviceKind::Cuda).num_devices() == 0);
  CHECK(error_text<EnvError>([] { open_gpu(0); }) == "no GPU 0: the driver shows 0 to this process");
  const Played two(2);
  CHECK(error_text<EnvError>([] { open_gpu(2); }) == "no GPU 2: the driver shows 2 to this process");
  CHECK(error_text<EnvError>([] { open_gpu(-1); }) == "no GPU -1: the driver shows 2 to this process");
}

TEST_CASE("a build without kernels for the GPU says for which it has some") {
  const Played machine({.gpus = fake::parse_gpus("1 NVIDIA H100, 9.0, 81920"), .has_kernels = false});
  CHECK(error_text<EnvError>([] { open_gpu(0); }) ==
        "this build has no kernels for NVIDIA H100 (sm_90), only for 80-real");
}

TEST_CASE("a lost GPU is an error of every later call, and everything can still be put down") {
  const Played machine({.gpus = std::vector<fake::Gpu>(2), .lose_gpu_at_launch = 3});  // one warms up each GPU
  const auto device = open_gpu(0), other = open_gpu(1);
  const auto stream = device->create_stream();
  const auto event = device->create_event();
  const Buffer buffer = device->allocate(Bytes{64});
  const auto lose = [&] {  // the launch says so itself where the kernel has already failed
    device->run(kernels::Empty{}, *stream);
    stream->synchronise();
  };
  CHECK_THROWS_AS(lose(), EnvError);
  char host[64] = {};
  const std::vector<std::function<void()>> calls{
      [&] { stream->synchronise(); },
      [&] { device->allocate(Bytes{1}); },
      [&] { device->allocate_host(Bytes{1}, HostMemory::Pinned); },
      [&] { device->create_stream(); },
      [&] { device->create_event(); },
      [&] { device->record(*event, *stream); },
      [&] { device->wait(*stream, *event); },
      [&] { event->synchronise(); },
      [&] { device->copy(buffer.data(), host, Bytes{64}, CopyKind::HostToDevice, *stream); },
      [&] { device->copy(host, buffer.data(), Bytes{64}, CopyKind::DeviceToHost, *stream); },
      [&] { device->run(kernels::Empty{}, *stream); },
      [&] { device->gemm({.m = 1, .n = 1, .k = 1}, buffer.data(), buffer.data(), buffer.data(), *stream); },
      [&] { stream->run_on_host([] {}); },
      [&] { device->facts(); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    CHECK(error_text<EnvError>(calls[i]).find("unspecified launch failure (cudaErrorLaunchFailure)") !=
          std::string::npos);
  }
  const auto whole = other->create_stream();  // the other GPU is well
  other->run(kernels::Empty{}, *whole);
  CHECK_NOTHROW(whole->synchronise());
}

TEST_CASE("opening costs what NVML saw memory in use grow by, and without NVML there is a warning") {
  const auto file =
      std::filesystem::temp_directory_path() / ("gpuplan_fake_nvml_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << R"({"gpus": [{"bus_id": "00000000:01:00.0", "memory_mib": 81920, "used_mib": 1000},
                                      {"bus_id": "00000000:02:00.0", "memory_mib": 81920, "used_mib": 1000},
                                      {"bus_id": "00000000:03:00.0", "memory_mib": 81920, "used_mib": 1000},
                                      {"bus_id": "00000000:04:00.0", "memory_mib": 81920, "used_mib": 1000},
                                      {"bus_id": "00000000:05:00.0", "memory_mib": 81920, "used_mib": 1000}]})";
  const Played machine(6);
  {
    const Setting nvml("GPUPLAN_FAKE_NVML_MACHINE", file.string());
    const auto device = open_gpu(4);
    CHECK(device->overhead() ==
          Bytes{std::int64_t(400) << 20});  // the fake's context; the other 1000 MiB are somebody else's
    CHECK(device->facts().warnings.empty());
  }
  std::filesystem::remove(file);
  const auto device = open_gpu(5);
  REQUIRE(device->facts().warnings.size() == 1);
  CHECK(device->facts().warnings[0].starts_with("NVML was not found"));
}

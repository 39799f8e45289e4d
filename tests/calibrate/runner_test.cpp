// Every family on a fake device: the truth is found, and nothing counts that is wrong, failed or lost.
#include <functional>
#include <thread>

#include <doctest/doctest.h>
#include <unistd.h>

#include "calibrate/probes/workload.h"
#include "calibrate/session.h"
#include "device/backend.h"
#include "fake_device.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::literals;
using namespace gpuplan::test;

namespace {

struct Run {
  Sample sample;
  bool is_lost = false;
};

const SamplingRule kFew{
    .relative_interval = 0.5, .num_warmups = 1, .least_runs = 6, .most_runs = 12, .least_batch = 1.0_us};

Run run_alone(const Probe& probe, FakeTruth truth = {}) {
  FakeDevice device(truth);
  ProbeBench bench{.device = device, .peers = {&device}, .rule = kFew};
  Run run;
  run.sample = run_probe(probe, bench, run.is_lost);
  return run;
}

/// The samples of all ranks.
std::vector<Run> run_ranks(
    Probe probe, int num_ranks, const std::function<FakeTruth(int rank)>& truth = [](int) { return FakeTruth{}; }) {
  probe.num_ranks = num_ranks;
  const auto group = std::make_shared<FakeGroup>(num_ranks);
  std::vector<Run> runs(static_cast<std::size_t>(num_ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      FakeDevice device(truth(rank), std::uint64_t(rank) + 1);
      FakeCommunicator ranks(group, rank, device);
      ProbeBench bench{.device = device, .ranks = &ranks, .peers = {&device}, .rule = kFew};
      Run& run = runs[std::size_t(rank)];
      run.sample = run_probe(probe, bench, run.is_lost);
    });
  threads.clear();
  return runs;
}

Probe product(GemmLayout layout, GemmType type = GemmType::F32, std::int64_t batch = 1) {
  return {.type = type, .layout = layout, .shape{24, 10, 40, batch}};
}

Probe kernel(MemoryKernel which, Dtype dtype) {
  return {.family = ProbeFamily::Memory, .kernel = which, .dtype = dtype, .rows = 5, .width = 128};
}

Probe collective(CollectiveKind kind, int group_ranks, RankScope scope = RankScope::All) {
  return {
      .family = ProbeFamily::Collective, .collective = kind, .scope = scope, .group_ranks = group_ranks, .bytes{6000}};
}

std::vector<Probe> local_probes() {
  std::vector<Probe> probes;
  for (const GemmLayout layout : kGemmLayouts)
    for (const GemmType type : {GemmType::F32, GemmType::BF16})
      for (const std::int64_t batch : {1, 3}) probes.push_back(product(layout, type, batch));
  for (const AttentionWork which : {AttentionWork::Flash, AttentionWork::Eager})
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16})
      probes.push_back({.family = ProbeFamily::Attention,
                        .shape{.m = 32, .n = 32, .k = 16, .batch = 2},
                        .attention = which,
                        .dtype = dtype});
  for (const MemoryKernel which : kMemoryKernels)
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) probes.push_back(kernel(which, dtype));
  return probes;
}

}  // namespace

TEST_CASE("right results count, in every layout, format and kernel") {
  const int every = num_rounds(3, 3, 1);
  int count = 1;  // others than below
  for (const Probe& probe : local_probes()) {
    if (count++ % every != 0) continue;
    const Run run = run_alone(probe);
    CHECK_MESSAGE(run.sample.is_ok(), probe.key(), ": ", run.sample.failure);
    CHECK(run.sample.median > 0);
    CHECK_FALSE(run.is_lost);
  }
}

TEST_CASE("wrong results never count") {
  const int every = num_rounds(3, 3, 1);  // not 2 nor 4: types, batches and kinds of attention in turn
  int count = 0;
  for (const Probe& probe : local_probes()) {
    if (count++ % every != 0) continue;
    const Run run = run_alone(probe, {.is_wrong = true});
    CHECK_MESSAGE(run.sample.failure.starts_with("wrong result: "), probe.key(), ": ", run.sample.failure);
    CHECK_FALSE(run.is_lost);
  }
}

TEST_CASE("times are the device's") {
  // 2 us + 2 x 24 x 10 x 40 / 1e11 = 2.192 us
  CHECK(run_alone(product(GemmLayout::Forward)).sample.median == doctest::Approx(2.192e-6));
  // 2 us + 2 x 640 x 4 / 1e10 = 2.512 us
  CHECK(run_alone(kernel(MemoryKernel::Copy, Dtype::F32)).sample.median == doctest::Approx(2.512e-6));
  // 2 us + 1 MiB / 5 GB/s = 211.7 us
  const Probe copy{.family = ProbeFamily::Copy, .path = CopyPath::PinnedToDevice, .bytes = 1_MiB};
  CHECK(run_alone(copy).sample.median == doctest::Approx(2e-6 + 1048576 / 5e9));
  const Probe dispatch{.family = ProbeFamily::Dispatch};
  CHECK(run_alone(dispatch).sample.median == doctest::Approx(2e-6));
  CHECK(run_alone({.family = ProbeFamily::Dispatch, .dispatch = DispatchKind::HostEnqueue}).sample.is_ok());
}

TEST_CASE("noise and outliers leave the median within 2 % of the truth") {
  FakeDevice device({.noise = 0.05, .outliers = 0.05});
  ProbeBench bench{.device = device, .rule{.relative_interval = 0.005, .most_runs = 400, .least_batch = 2.0_us}};
  bool is_lost = false;
  const Sample sample = run_probe(kernel(MemoryKernel::Copy, Dtype::F32), bench, is_lost);
  REQUIRE(sample.is_ok());
  CHECK(sample.median == doctest::Approx(2.512e-6).epsilon(0.02));
  CHECK(sample.num_outliers > 0);
}

TEST_CASE("every copy between host and device is checked, and no call waits for what comes later") {
  alarm(300);  // s; a probe that waits for itself ends the program
  for (const CopyPath path :
       {CopyPath::HostToDevice, CopyPath::DeviceToHost, CopyPath::PinnedToDevice, CopyPath::DeviceToPinned})
    CHECK(run_alone({.family = ProbeFamily::Copy, .path = path, .bytes = 64_KiB}).sample.is_ok());
  alarm(0);
}

TEST_CASE("a copy to a device that this process has not fails with a reason") {
  const Run run = run_alone({.family = ProbeFamily::Copy, .path = CopyPath::Peer, .peer = 1, .bytes = 64_KiB});
  CHECK(run.sample.failure == "this process has no device 1");
}

TEST_CASE("copies between devices are checked and timed") {
  FakeDevice first, second;
  ProbeBench bench{.device = first, .peers = {&first, &second}, .rule = kFew};
  bool is_lost = false;
  const Probe probe{.family = ProbeFamily::Copy, .path = CopyPath::Peer, .peer = 1, .bytes = 64_KiB};
  CHECK(run_probe(probe, bench, is_lost).is_ok());
  first.truth.is_wrong = true;
  CHECK(run_probe(probe, bench, is_lost).failure == "wrong result: the copy differs");
}

TEST_CASE("out of memory fails one probe, and the next has all the memory again") {
  FakeDevice device({.memory = 250_MiB});  // pools take 64, 76 and 76 MiB
  ProbeBench bench{.device = device, .rule = kFew};
  bool is_lost = false;
  const Sample failed = run_probe({.family = ProbeFamily::Copy, .bytes = 1_GiB}, bench, is_lost);
  CHECK(failed.failure.starts_with("out of memory: 1073741824 bytes"));
  CHECK_FALSE(is_lost);
  CHECK(run_probe(product(GemmLayout::Forward), bench, is_lost).is_ok());
  CHECK_FALSE(run_probe({.family = ProbeFamily::Copy, .bytes = 20_MiB}, bench, is_lost).is_ok());
  CHECK(device.allocated == Bytes{});
  CHECK(run_probe({.family = ProbeFamily::Copy, .bytes = 20_MiB}, bench, is_lost).is_ok());
}

TEST_CASE("a lost device is told") {
  const Run run = run_alone(product(GemmLayout::Forward), {.is_lost = true});
  CHECK(run.sample.failure == "the device fell off the bus");
  CHECK(run.is_lost);
}

TEST_CASE("overheads are readings in bytes") {
  const Sample context = run_alone({.family = ProbeFamily::Overhead, .overhead = OverheadKind::Context}).sample;
  CHECK(context.is_ok());
  CHECK(context.median == 1000);
  CHECK(run_alone({.family = ProbeFamily::Overhead, .overhead = OverheadKind::Allocator}).sample.median == 0);
  const Probe products{.family = ProbeFamily::Overhead, .overhead = OverheadKind::BlasWorkspace};
  CHECK(run_alone(products, {.has_results = false, .blas_workspace = 32_MiB}).sample.median == 32 << 20);
  const Probe communicator{.family = ProbeFamily::Overhead, .overhead = OverheadKind::Communicator};
  for (const Run& run : run_ranks(communicator, 2, [](int) { return FakeTruth{.communicator = 200_MiB}; }))
    CHECK(run.sample.median == 200 << 20);
}

TEST_CASE("the operands of a call never overlap, however large") {
  FakeDevice device({.has_results = false});
  ProbeBench bench{.device = device, .rule = kFew};
  const auto stream = device.create_stream();
  for (const GemmShape shape :
       {GemmShape{96, 96, 96}, GemmShape{10000, 9000, 1024}, GemmShape{96, 96, 96}, GemmShape{10000, 9000, 1024}}) {
    const Probe probe{.shape = shape};
    const Workload workload = gemm_workload(probe, bench, *stream);
    for (int call = 0; call < 4; ++call) {
      workload.call();
      const auto a = std::uintptr_t(device.last_a), b = std::uintptr_t(device.last_b);
      CHECK((a + std::uintptr_t(probe.product().a_bytes().count) <= b ||
             b + std::uintptr_t(probe.product().b_bytes().count) <= a));
      CHECK(b % kAlignment == a % kAlignment);
    }
    stream->synchronise();
  }
}

TEST_CASE("collectives of any number of ranks are checked and timed") {
  for (const CollectiveKind kind : kCollectiveKinds)
    for (const int num_ranks : {2, 3, 4}) {
      if (kind == CollectiveKind::SendRecv && num_ranks != 2) continue;  // the fake's messages are between two
      for (const Run& run : run_ranks(collective(kind, num_ranks), num_ranks)) {
        CHECK_MESSAGE(run.sample.is_ok(), to_string(kind), " of ", num_ranks, ": ", run.sample.failure);
        // 10 us + 6000 B / 2 GB/s = 13 us
        CHECK(run.sample.median == doctest::Approx(13e-6).epsilon(0.01));
      }
    }
}

TEST_CASE("the sync latency is timed on the stream that hands over and gets back") {
  for (const int num_ranks : {2, 4})
    for (const Run& run :
         run_ranks({.family = ProbeFamily::Dispatch, .dispatch = DispatchKind::SyncLatency}, num_ranks)) {
      CHECK_MESSAGE(run.sample.is_ok(), run.sample.failure);
      // 10 us + 1000 B / 2 GB/s = 10.5 us
      CHECK(run.sample.median == doctest::Approx(10.5e-6).epsilon(0.01));
    }
  CHECK(run_alone({.family = ProbeFamily::Dispatch, .dispatch = DispatchKind::SyncLatency}).sample.failure ==
        "collectives need several ranks");
}

TEST_CASE("pairs work at once, in groups of their own") {
  for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::SendRecv})
    for (const Run& run : run_ranks(collective(kind, 2, RankScope::Pair), 4))
      CHECK_MESSAGE(run.sample.is_ok(), run.sample.failure);
}

TEST_CASE("a wrong sum is found, wherever it is, and every rank knows") {
  for (const CollectiveKind kind : kCollectiveKinds) {
    const auto runs = run_ranks(collective(kind, 2), 2, [](int rank) { return FakeTruth{.is_wrong = rank == 1}; });
    for (const Run& run : runs)
      CHECK_MESSAGE(run.sample.failure.starts_with("rank 1: wrong result: "), to_string(kind), ": ",
                    run.sample.failure);
  }
}

TEST_CASE("the slowest rank's time counts on every rank") {
  for (const Run& run :
       run_ranks(product(GemmLayout::Forward), 3, [](int rank) { return FakeTruth{.launch = 1e-6 * (rank + 1)}; }))
    CHECK(run.sample.median == doctest::Approx(3.192e-6));
}

TEST_CASE("a rank that runs out of memory fails the probe on all, with its reason") {
  for (const Run& run : run_ranks(product(GemmLayout::Forward), 3,
                                  [](int rank) { return FakeTruth{.memory = rank == 1 ? 1_MiB : 1024_GiB}; })) {
    CHECK(run.sample.failure.starts_with("rank 1: out of memory"));
    CHECK_FALSE(run.is_lost);
  }
}

TEST_CASE("a rank that loses its device ends the use of all") {
  for (const Run& run :
       run_ranks(product(GemmLayout::Forward), 2, [](int rank) { return FakeTruth{.is_lost = rank == 1}; })) {
    CHECK(run.sample.failure == "rank 1: the device fell off the bus");
    CHECK(run.is_lost);
  }
}

TEST_CASE("collectives without ranks fail with a reason") {
  CHECK(run_alone(collective(CollectiveKind::AllReduce, 2)).sample.failure == "collectives need several ranks");
}

TEST_CASE("a product beside a collective is compared with the product alone") {
  const Probe probe{.family = ProbeFamily::Overlap, .shape{64, 64, 64}, .bytes{4000}};
  for (const Run& run : run_ranks(probe, 2)) {
    CHECK_MESSAGE(run.sample.is_ok(), run.sample.failure);
    CHECK(run.sample.overlapped == doctest::Approx(1.5).epsilon(0.02));
  }
}

TEST_CASE("gradients of attention are checked before they count, on the CPU's own kernels") {
  const auto device = device_backend(DeviceKind::Cpu).open({.num_threads = 1});
  ProbeBench bench{.device = *device, .peers = {device.get()}, .rule = kFew};
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
    const Probe probe{.family = ProbeFamily::Attention,
                      .shape{.m = 40, .n = 40, .k = 16, .batch = 3},
                      .attention = AttentionWork::Backward,
                      .dtype = dtype};
    bool is_lost = false;
    const Sample sample = run_probe(probe, bench, is_lost);
    CHECK_MESSAGE(sample.is_ok(), sample.failure);
    const auto stream = device->create_stream();
    const Workload workload = attention_backward_workload(probe, bench, *stream);
    workload.call();
    stream->synchronise();
    CHECK_NOTHROW(workload.check());
    const Rotation& results = bench.pools->results({}, *stream);
    device->run(kernels::FillUniform{{results.data(), Dtype::F32}, results.capacity().count / 4, 2, 3, 0}, *stream);
    stream->synchronise();
    CHECK_THROWS_AS(workload.check(), WrongResult);
  }
}

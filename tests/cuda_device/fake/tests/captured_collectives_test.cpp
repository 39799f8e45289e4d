// Collectives in graphs: launched as often as one likes, in turn with others, and no reason to wait for ever when a
// rank is gone.
#include "base/error.h"
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"
#include "run/files/error_text.h"

#include <array>
#include <csignal>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Two communicators on two streams, as a sharded step has them: x is summed by one, copied, and the copy summed by the
/// other.
struct TwoSums {
  TwoSums(Device& device, Communicator& world, Doubles values)
      : bench{.device = device, .stream = device.create_stream()},
        ranks(world),
        x(bench.upload(values, Dtype::F32)),
        y(bench.empty(x.count, Dtype::F32)) {}

  void enqueue() {
    Device& device = bench.device;
    float* const sums = static_cast<float*>(x.data());
    ranks.all_reduce(sums, sums, x.count, Dtype::F32, *bench.stream);
    device.record(*event, *bench.stream);
    device.wait(*other, *event);
    device.copy(y.data(), sums, bytes_of(x.count, Dtype::F32), CopyKind::DeviceToDevice, *other);
    part->all_reduce(y.data(), y.data(), x.count, Dtype::F32, *other);
  }
  std::unique_ptr<Graph> capture() {
    return bench.device.capture(streams, [this] { enqueue(); });
  }
  void wait() {
    for (Stream* const stream : streams) stream->synchronise();
  }

  Bench bench;
  Communicator& ranks;
  std::unique_ptr<Communicator> part = ranks.split(0);
  std::unique_ptr<Stream> other = bench.device.create_stream();
  std::unique_ptr<Event> event = bench.device.create_event();
  Tensor x, y;
  std::array<Stream*, 2> streams{bench.stream.get(), other.get()};
};

bool tells_of_gone_rank(const std::string& error) {
  return error.starts_with("NCCL ") &&
         error.find("remote process exited or there was a network error (rank ") != std::string::npos;
}

}  // namespace

TEST_CASE("captured collectives sum at each launch, and others may come in between") {
  const Played machine(3);
  const auto errors = in_threads({0, 1, 2}, [](Device& device, Communicator& ranks) {
    TwoSums sums(device, ranks, {1, double(ranks.rank())});  // over the ranks: 3 and 3; then each sum times 3
    sums.enqueue();
    sums.wait();
    CHECK(sums.bench.download(sums.y) == Doubles{9, 9});
    const auto graph = sums.capture();
    sums.wait();
    CHECK(sums.bench.download(sums.x) == Doubles{3, 3});
    device.launch(*graph, *sums.bench.stream);
    sums.wait();
    CHECK(sums.bench.download(sums.y) == Doubles{27, 27});
    CHECK(ranks.max_host(ranks.rank()) == 2);
    sums.enqueue();
    sums.wait();
    CHECK(sums.bench.download(sums.y) == Doubles{81, 81});
    device.launch(*graph, *sums.bench.stream);
    sums.wait();
    CHECK(sums.bench.download(sums.y) == Doubles{243, 243});
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("a collective of a graph and one outside do not fit together") {
  const Played machine(2);
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    TwoSums sums(device, ranks, {1});
    const auto graph = ranks.rank() == 0 ? sums.capture() : nullptr;
    if (graph)
      device.launch(*graph, *sums.bench.stream);
    else
      sums.enqueue();
    sums.wait();
  });
  const auto tells = [](const std::string& error) {
    return error.find("a collective failed: invalid usage") != std::string::npos;
  };
  CHECK((tells(errors[0]) || tells(errors[1])));
  for (const auto& error : errors) CHECK((tells(error) || tells_of_gone_rank(error)));
}

TEST_CASE("a communicator ends while a graph has its collectives, which then cannot be launched any more") {
  const Played machine(2);
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    TwoSums sums(device, ranks, {1});
    const auto graph = sums.capture();
    device.launch(*graph, *sums.bench.stream);
    sums.wait();
    sums.part.reset();
    CHECK_THROWS_WITH_AS(device.launch(*graph, *sums.bench.stream),
                         "a communicator that the graph has collectives of has ended", EnvError);
    CHECK(ranks.max_host(1) == 1);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a capture that fails after a collective leaves the communicators as they were") {
  const Played machine({.gpus = std::vector<fake::Gpu>(2), .break_capture_at = 2, .break_capture_on = 0});  // the copy
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    TwoSums sums(device, ranks, {1});
    const std::string error = error_text<EnvError>([&] { sums.capture(); });
    CHECK(error ==
          (ranks.rank() == 0
               ? "CUDA: copying: operation not permitted when stream is capturing (cudaErrorStreamCaptureUnsupported)"
               : ""));
    sums.enqueue();
    sums.wait();
    CHECK(sums.bench.download(sums.y) == Doubles{4});
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("rank of its own: rank 1 dies before the others launch their graphs" * doctest::skip()) {
  as_own_rank([](Device& device, Communicator& ranks) {
    TwoSums sums(device, ranks, {1, 2, 3});
    const auto graph = sums.capture();
    device.launch(*graph, *sums.bench.stream);
    sums.wait();
    if (ranks.rank() == 1) {
      ranks.barrier();
      std::raise(SIGKILL);
    }
    const std::string error = error_text<EnvError>([&] {
      ranks.barrier();  // rank 1 may be gone before the others know that it came
      device.launch(*graph, *sums.bench.stream);
      sums.wait();
    });
    INFO(error);
    CHECK(tells_of_gone_rank(error));
    ranks.abort();
    sums.part->abort();
    CHECK_THROWS_AS(device.launch(*graph, *sums.bench.stream), EnvError);
  });
}

TEST_CASE("a rank that dies ends the waiting for a graph, which both communicators of it survive") {
  const auto ranks = in_processes(3, 3, "rank of its own: rank 1 dies before the others launch their graphs");
  for (const int rank : {0, 2}) {
    INFO("rank ", rank, ": ", ranks[std::size_t(rank)].output);
    CHECK(ranks[std::size_t(rank)].exit_code == 0);
  }
  CHECK(ranks[1].exit_code == -1);
}

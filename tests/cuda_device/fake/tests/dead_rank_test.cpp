// Ranks whose peer dies in the middle: however they wait, they are told.
#include "base/error.h"
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"
#include "run/files/error_text.h"

#include <chrono>
#include <csignal>
#include <map>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// The ways in which a rank can wait for a collective that never ends.
using Wait = std::function<void(Bench&, Communicator&, const Tensor&)>;
const std::map<std::string, Wait> kWaits{
    {"stream", [](Bench& bench, Communicator&, const Tensor&) { bench.stream->synchronise(); }},
    {"event",
     [](Bench& bench, Communicator&, const Tensor&) {
       const auto event = bench.device.create_event();
       bench.device.record(*event, *bench.stream);
       event->synchronise();
     }},
    {"other stream",
     [](Bench& bench, Communicator&, const Tensor&) {
       const auto event = bench.device.create_event();
       const auto other = bench.device.create_stream();
       bench.device.record(*event, *bench.stream);
       bench.device.wait(*other, *event);
       other->synchronise();
     }},
    {"third stream",
     [](Bench& bench, Communicator&, const Tensor&) {
       const auto event = bench.device.create_event(), last = bench.device.create_event();
       const auto other = bench.device.create_stream(), third = bench.device.create_stream();
       bench.device.record(*event, *bench.stream);
       bench.device.wait(*other, *event);
       bench.device.record(*last, *other);
       bench.device.wait(*third, *last);
       third->synchronise();
     }},
    {"copy", [](Bench& bench, Communicator&, const Tensor& sums) { bench.download(sums); }},
    {"barrier", [](Bench&, Communicator& ranks, const Tensor&) { ranks.barrier(); }},
    {"split", [](Bench&, Communicator& ranks, const Tensor&) { ranks.split(0); }},
};

/// Rank 1, or one that had aborted since rank 1 was gone.
bool tells_of_gone_rank(const std::string& error) {
  return error.starts_with("NCCL ") &&
         error.find("remote process exited or there was a network error (rank ") != std::string::npos;
}

}  // namespace

TEST_CASE("rank of its own: rank 1 dies" * doctest::skip()) {
  as_own_rank([](Device& device, Communicator& ranks) {
    Bench bench{.device = device, .stream = device.create_stream()};
    const Tensor data = bench.upload({1, 2, 3}, Dtype::F32);
    if (ranks.rank() == 1) {
      ranks.barrier();
      std::raise(SIGKILL);
    }
    const Wait& wait = kWaits.at(std::getenv("GPUPLAN_TEST_WAIT"));
    const std::string error = error_text<EnvError>([&] {
      ranks.barrier();  // rank 1 may be gone before the others know that it came
      ranks.all_reduce(data.data(), data.data(), 3, Dtype::F32, *bench.stream);
      wait(bench, ranks, data);
    });
    INFO(error);
    CHECK(tells_of_gone_rank(error));
    CHECK(error_text<EnvError>([&] {
            ranks.all_reduce(data.data(), data.data(), 3, Dtype::F32, *bench.stream);
            bench.stream->synchronise();
          }) != "");
  });
}

TEST_CASE("a rank that dies ends the waiting of all others, however they wait") {
  for (const auto& wait : kWaits) {
    const std::string& name = wait.first;
    const Setting way("GPUPLAN_TEST_WAIT", name);
    const auto ranks = in_processes(4, 4, "rank of its own: rank 1 dies");
    for (const int rank : {0, 2, 3}) {
      INFO(name, ", rank ", rank, ": ", ranks[std::size_t(rank)].output);
      CHECK(ranks[std::size_t(rank)].exit_code == 0);
    }
    CHECK(ranks[1].exit_code == -1);
  }
}

/// The others are inside the third operation already; GPUPLAN_FAKE_NCCL_DIE kills on the stream's thread.
TEST_CASE("rank of its own: rank 1 dies in the middle of an operation" * doctest::skip()) {
  as_own_rank([](Device& device, Communicator& ranks) {
    Bench bench{.device = device, .stream = device.create_stream()};
    const Tensor data = bench.upload({1, 2, 3}, Dtype::F32);
    const std::string error = error_text<EnvError>([&] {
      for (int step = 0; step < 10; ++step) {
        ranks.all_reduce(data.data(), data.data(), 3, Dtype::F32, *bench.stream);
        bench.stream->synchronise();
      }
    });
    CHECK(tells_of_gone_rank(error));
    CHECK(error_text<EnvError>([&] { ranks.barrier(); }) ==
          "the NCCL communicator was aborted after a failure: " + error);
  });
}

TEST_CASE("a rank that dies in an operation ends the others', and their communicators say so from then on") {
  const Setting death("GPUPLAN_FAKE_NCCL_DIE", "1:3");
  const auto ranks = in_processes(2, 2, "rank of its own: rank 1 dies in the middle of an operation");
  INFO(ranks[0].output);
  CHECK(ranks[0].exit_code == 0);
  CHECK(ranks[1].exit_code == -1);
}

TEST_CASE("a rank that fails while its collective waits for the others ends, and so do they") {
  const Played machine(2);
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    Bench bench{.device = device, .stream = device.create_stream()};
    const Tensor data = bench.upload({1}, Dtype::F32);
    ranks.barrier();
    if (ranks.rank() == 0) throw EnvError("disk full");
    ranks.all_reduce(data.data(), data.data(), 1, Dtype::F32, *bench.stream);
    bench.stream->synchronise();
  });
  CHECK(errors[0] == "disk full");
  CHECK(errors[1].find("rank 0 closed its connection") != std::string::npos);
}

TEST_CASE("ranks that do not make the same call are told") {
  const Played machine(2);
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    Bench bench{.device = device, .stream = device.create_stream()};
    const Tensor data = bench.empty(100, Dtype::F32);
    ranks.all_reduce(data.data(), data.data(), ranks.rank() == 0 ? 100 : 99, Dtype::F32, *bench.stream);
    bench.stream->synchronise();
  });
  const auto tells = [](const std::string& error) {
    return error.find("a collective failed: invalid usage") != std::string::npos;
  };
  CHECK((tells(errors[0]) || tells(errors[1])));  // one may see first that the other one has given up
  for (const auto& error : errors) CHECK((tells(error) || tells_of_gone_rank(error)));
}

// Ranks on their way into a group: shared GPUs, ids, versions, and GPUs of two kinds.
#include "base/error.h"
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"
#include "run/files/error_text.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

void sum_ones(Device& device, Communicator& ranks) {
  Bench bench{.device = device, .stream = device.create_stream()};
  const Tensor data = bench.upload({1}, Dtype::F32);
  ranks.all_reduce(data.data(), data.data(), 1, Dtype::F32, *bench.stream);
  CHECK(bench.download(data) == Doubles{double(ranks.size())});
}

std::string error_of_join(const Rendezvous& rendezvous) {
  const auto device = device_backend(DeviceKind::Cuda).open({.index = 0});
  return error_text<EnvError>([&] { collective_backend(DeviceKind::Cuda).join(*device, rendezvous); });
}

}  // namespace

TEST_CASE("before 2.30 NCCL takes one rank per GPU, and all ranks say so") {
  const Played machine(2);
  const Setting version("GPUPLAN_FAKE_NCCL_VERSION", "2.28");
  for (const auto& error : in_threads({0, 1, 1}, sum_ones))
    CHECK(error == "NCCL 2.28.0 refuses several ranks on one GPU (2.30 and later take them): start one rank per GPU");
}

TEST_CASE("rank of its own: sums ones" * doctest::skip()) { as_own_rank(sum_ones); }

TEST_CASE("from 2.30 on several ranks share a GPU") {
  const Setting version("GPUPLAN_FAKE_NCCL_VERSION", "2.30");
  for (const Ended& rank : in_processes(3, 1, "rank of its own: sums ones")) {
    INFO(rank.output);
    CHECK(rank.exit_code == 0);
  }
}

TEST_CASE("GPUs of two kinds compute and communicate together") {
  const Played machine({.gpus = fake::parse_gpus("1 NVIDIA A100-SXM4-80GB, 8.0, 81920; 1 Tesla T4, 7.5, 15360")});
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    const DeviceFacts facts = device.facts();
    CHECK(facts.name == (ranks.rank() == 0 ? "NVIDIA A100-SXM4-80GB" : "Tesla T4"));
    CHECK(facts.architecture == (ranks.rank() == 0 ? "sm_80" : "sm_75"));
    CHECK(facts.memory == Bytes{std::int64_t(ranks.rank() == 0 ? 81920 : 15360) << 20});
    sum_ones(device, ranks);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("an id that is not NCCL's is refused before anybody waits") {
  const Played machine(1);
  CHECK(error_of_join({.rank = 0, .size = 2, .id = "not hexadecimal"}) ==
        "the id of the group of ranks is not one that NCCL made on rank 0");
  const std::string zeros(256, '0');
  CHECK(error_of_join({.rank = 0, .size = 2, .id = zeros}).find("joining as rank 0 of 2: invalid argument") !=
        std::string::npos);
}

TEST_CASE("a rank beyond the group, and ranks that never come, are errors in NCCL's words") {
  const Played machine(1);
  const Setting patience("GPUPLAN_FAKE_NCCL_PATIENCE", "0");
  const std::string id = collective_backend(DeviceKind::Cuda).make_id();
  CHECK(error_of_join({.rank = 2, .size = 2, .id = id}).find("Invalid rank requested") != std::string::npos);
  CHECK(error_of_join({.rank = 0, .size = 2, .id = id}).find("the other ranks did not come") != std::string::npos);
}

TEST_CASE("a stream of another GPU than the communicator's is refused") {
  const Played machine(2);
  const auto errors = in_threads({0}, [](Device& device, Communicator& ranks) {
    Bench bench{.device = device, .stream = device.create_stream()};
    const Tensor data = bench.upload({1}, Dtype::F32);
    const auto other = device_backend(DeviceKind::Cuda).open({.index = 1});
    const auto foreign = other->create_stream();
    ranks.all_reduce(data.data(), data.data(), 1, Dtype::F32, *foreign);
  });
  CHECK(errors[0].find("unhandled cuda error") != std::string::npos);
}

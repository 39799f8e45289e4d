// Every collective among two and four ranks, in threads and in processes, against sums of whole numbers, which are
// exact.
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/bench.h"

#include <cstring>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// More than a piece that the fake moves at once, in any dtype.
constexpr std::int64_t kCount = 150'000;

/// Of one rank: small whole numbers, whose sums every dtype holds.
double number(int rank, std::int64_t i) { return double((i * 7 + rank * 3) % 11 - 5); }

template <class Value>
Doubles numbers(std::int64_t count, Value value) {
  Doubles all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(value(i));
  return all;
}

double sum_at(int num_ranks, std::int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += number(rank, i);
  return sum;
}

/// One rank's side of everything.
class Side {
 public:
  Side(Device& device, Communicator& ranks)
      : bench_{.device = device, .stream = device.create_stream()},
        ranks_(ranks),
        rank_(ranks.rank()),
        size_(ranks.size()) {}

  void check_all() {
    for (const Dtype dtype : kFloats) {
      check_sums(dtype);
      check_moves(dtype);
    }
    check_ring();
    check_hosts();
  }

 private:
  Tensor own(std::int64_t count, Dtype dtype) {
    return bench_.upload(numbers(count, [&](std::int64_t i) { return number(rank_, i); }), dtype);
  }

  void check_sums(Dtype dtype) {
    const Tensor mine = own(kCount, dtype), all = bench_.empty(kCount, dtype);
    ranks_.all_reduce(mine.data(), all.data(), kCount, dtype, *bench_.stream);
    CHECK(bench_.download(all) == numbers(kCount, [&](std::int64_t i) { return sum_at(size_, i); }));
    const std::int64_t part = kCount / size_;
    const Tensor one = bench_.empty(part, dtype);
    ranks_.reduce_scatter(mine.data(), one.data(), part, dtype, *bench_.stream);
    CHECK(bench_.download(one) == numbers(part, [&](std::int64_t i) { return sum_at(size_, rank_ * part + i); }));
    ranks_.all_reduce(mine.data(), mine.data(), kCount, dtype, *bench_.stream);  // in place
    CHECK(bench_.download(mine) == bench_.download(all));
  }

  void check_moves(Dtype dtype) {
    const Tensor mine = own(kCount, dtype), all = bench_.empty(kCount * size_, dtype);
    ranks_.all_gather(mine.data(), all.data(), kCount, dtype, *bench_.stream);
    CHECK(bench_.download(all) ==
          numbers(kCount * size_, [](std::int64_t i) { return number(int(i / kCount), i % kCount); }));
    const int root = size_ - 1;
    ranks_.broadcast(mine.data(), kCount, dtype, root, *bench_.stream);
    CHECK(bench_.download(mine) == numbers(kCount, [&](std::int64_t i) { return number(root, i); }));
  }

  /// Everybody sends to the next rank, first: only a group keeps that from waiting for ever. Then one pair without a
  /// group.
  void check_ring() {
    const int before = (rank_ + size_ - 1) % size_, after = (rank_ + 1) % size_;
    const Tensor mine = own(kCount, Dtype::F32), theirs = bench_.empty(kCount, Dtype::F32);
    ranks_.begin_group();
    ranks_.send(mine.data(), kCount, Dtype::F32, after, *bench_.stream);
    ranks_.receive(theirs.data(), kCount, Dtype::F32, before, *bench_.stream);
    ranks_.end_group();
    CHECK(bench_.download(theirs) == numbers(kCount, [&](std::int64_t i) { return number(before, i); }));
    if (rank_ == 0) ranks_.send(mine.data(), kCount, Dtype::F32, 1, *bench_.stream);
    if (rank_ == 1) ranks_.receive(theirs.data(), kCount, Dtype::F32, 0, *bench_.stream);
    if (rank_ == 1) CHECK(bench_.download(theirs) == numbers(kCount, [](std::int64_t i) { return number(0, i); }));
  }

  void check_hosts() {
    ranks_.barrier();
    CHECK(ranks_.max_host(number(rank_, 0)) == number(size_ == 2 ? 1 : 3, 0));  // -5, -2, 1, 4
    char word[8] = "";
    if (rank_ == 1) std::strcpy(word, "step 12");
    ranks_.broadcast_host(std::as_writable_bytes(std::span(word)), 1);
    CHECK(std::string(word) == "step 12");
  }

  Bench bench_;
  Communicator& ranks_;
  int rank_, size_;
};

void check_every_collective(Device& device, Communicator& ranks) { Side(device, ranks).check_all(); }

/// Even and odd ranks, the last one left out; then each group sums.
void check_split(Device& device, Communicator& ranks) {
  const bool is_out = ranks.rank() == ranks.size() - 1;
  const auto part = ranks.split(is_out ? -1 : ranks.rank() % 2);
  CHECK((part == nullptr) == is_out);
  if (!part) return;
  CHECK(part->rank() == ranks.rank() / 2);
  CHECK(part->size() == (ranks.rank() % 2 == 0 ? 2 : 1));
  Bench bench{.device = device, .stream = device.create_stream()};
  const Tensor mine = bench.upload({double(ranks.rank())}, Dtype::F32);
  part->all_reduce(mine.data(), mine.data(), 1, Dtype::F32, *bench.stream);
  CHECK(bench.download(mine) == Doubles{ranks.rank() % 2 == 0 ? 2.0 : 1.0});  // 0 + 2; 1 alone
  const auto again = part->split(0);
  CHECK(again->max_host(double(ranks.rank())) == (ranks.rank() % 2 == 0 ? 2.0 : 1.0));
}

std::vector<std::string> no_errors(int num_ranks) { return std::vector<std::string>(std::size_t(num_ranks)); }

}  // namespace

TEST_CASE("every collective is right among two and four ranks in threads") {
  const Played machine(4);
  for (const int num_ranks : {2, 4})
    CHECK(in_threads(one_gpu_each(num_ranks), check_every_collective) == no_errors(num_ranks));
}

TEST_CASE("rank of its own: every collective" * doctest::skip()) { as_own_rank(check_every_collective); }

TEST_CASE("every collective is right among two and four ranks in processes") {
  for (const int num_ranks : {2, 4})
    for (const Ended& rank : in_processes(num_ranks, num_ranks, "rank of its own: every collective")) {
      INFO(rank.output);
      CHECK(rank.exit_code == 0);
    }
}

TEST_CASE("ranks split by colour, and the parts again") {
  const Played machine(4);
  CHECK(in_threads(one_gpu_each(4), check_split) == no_errors(4));
}

TEST_CASE("collectives of a communicator keep their order on two streams") {
  const Played machine(2);
  const auto errors = in_threads({0, 1}, [](Device& device, Communicator& ranks) {
    Bench first{.device = device, .stream = device.create_stream()},
        second{.device = device, .stream = device.create_stream()};
    const Tensor a = first.upload({1}, Dtype::F32), b = second.upload({10}, Dtype::F32);
    for (int i = 0; i < 20; ++i) {
      ranks.all_reduce(a.data(), a.data(), 1, Dtype::F32, *first.stream);
      ranks.all_reduce(b.data(), b.data(), 1, Dtype::F32, *second.stream);
    }
    CHECK(first.download(a) == Doubles{1048576});  // 2^20
    CHECK(second.download(b) == Doubles{10485760});
  });
  CHECK(errors == no_errors(2));
}

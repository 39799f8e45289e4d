// A rank of the test of CPU collectives; collectives_test.sh starts several. Every rank checks what it got: data are
// small integers, whose sums are exact in each dtype. Prints a line and ends with 1 when something is wrong.
//   mpi_collectives              all checks
//   mpi_collectives abort message|meeting   rank 0 waits in vain and says why it stopped
//   mpi_collectives time BYTES   seconds of an all-reduce in fp32
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/backend.h"
#include "device/narrow_floats.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kCounts[] = {1, 7, 1000, 300'001};
int num_wrong = 0;

struct Ranks {
  Device& device;
  Stream& stream;
  Communicator& group;
  std::int64_t rank() const { return group.rank(); }
  std::int64_t size() const { return group.size(); }
};

/// What rank `rank` holds at `i`: at most 6, so that sums over 40 ranks are exact in bf16.
float value(std::int64_t rank, std::int64_t i) { return float((rank * 3 + i) % 7); }

void put(void* data, std::int64_t i, float x, Dtype dtype) {
  if (dtype == Dtype::F32)
    static_cast<float*>(data)[i] = x;
  else
    static_cast<std::uint16_t*>(data)[i] = dtype == Dtype::BF16 ? float_to_bf16(x) : float_to_f16(x);
}
float get(const void* data, std::int64_t i, Dtype dtype) {
  if (dtype == Dtype::F32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return dtype == Dtype::BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

template <class Expected>
void check(const char* what, const Ranks& r, const void* data, std::int64_t count, Dtype dtype, Expected expected) {
  r.stream.synchronise();
  for (std::int64_t i = 0; i < count; ++i)
    if (get(data, i, dtype) != expected(i)) {
      std::printf("rank %d of %d: %s, %s, %lld elements: [%lld] is %g, not %g\n", int(r.rank()), int(r.size()), what,
                  std::string(to_string(dtype)).c_str(), (long long)count, (long long)i, double(get(data, i, dtype)),
                  double(expected(i)));
      ++num_wrong;
      return;
    }
}

float sum_over(const Ranks& r, std::int64_t i) {
  float sum = 0;
  for (std::int64_t rank = 0; rank < r.size(); ++rank) sum += value(rank, i);
  return sum;
}

Buffer filled(const Ranks& r, std::int64_t count, Dtype dtype) {
  Buffer buffer = r.device.allocate(bytes_of(count, dtype));
  for (std::int64_t i = 0; i < count; ++i) put(buffer.data(), i, value(r.rank(), i), dtype);
  return buffer;
}

void check_sums(const Ranks& r, std::int64_t count, Dtype dtype) {
  const std::int64_t all = count * r.size(), own = count * r.rank(), bytes = size_of(dtype);
  const auto total = [&](std::int64_t i) { return sum_over(r, i); };
  const auto part = [&](std::int64_t i) { return sum_over(r, own + i); };
  const Buffer full = filled(r, all, dtype), to = r.device.allocate(bytes_of(all, dtype));
  r.group.all_reduce(full.data(), to.data(), all, dtype, r.stream);
  check("all-reduce", r, to.data(), all, dtype, total);
  r.group.reduce_scatter(full.data(), to.data(), count, dtype, r.stream);
  check("reduce-scatter", r, to.data(), count, dtype, part);
  r.group.reduce_scatter(full.data(), full.as<char>() + own * bytes, count, dtype, r.stream);
  check("reduce-scatter in place", r, full.as<char>() + own * bytes, count, dtype, part);
  const Buffer again = filled(r, all, dtype);
  r.group.all_reduce(again.data(), again.data(), all, dtype, r.stream);
  check("all-reduce in place", r, again.data(), all, dtype, total);
}

void check_moves(const Ranks& r, std::int64_t count, Dtype dtype) {
  const std::int64_t all = count * r.size(), bytes = size_of(dtype);
  const auto gathered = [&](std::int64_t i) { return value(i / count, i % count); };
  const Buffer mine = filled(r, count, dtype), to = r.device.allocate(bytes_of(all, dtype));
  r.group.all_gather(mine.data(), to.data(), count, dtype, r.stream);
  check("all-gather", r, to.data(), all, dtype, gathered);
  std::memset(to.data(), 0, std::size_t(to.size().count));
  char* const own = to.as<char>() + count * bytes * r.rank();
  std::memcpy(own, mine.data(), std::size_t(count * bytes));
  r.group.all_gather(own, to.data(), count, dtype, r.stream);
  check("all-gather in place", r, to.data(), all, dtype, gathered);
  const int last = int(r.size() - 1);
  const Buffer sent = filled(r, count, dtype);
  r.group.broadcast(sent.data(), count, dtype, last, r.stream);
  check("broadcast", r, sent.data(), count, dtype, [&](std::int64_t i) { return value(last, i); });
}

/// To the next rank, odd ranks receiving first: blocking calls of a ring would wait for each other.
void check_ring(const Ranks& r, std::int64_t count, Dtype dtype) {
  const int next = int((r.rank() + 1) % r.size()), previous = int((r.rank() + r.size() - 1) % r.size());
  if (r.size() == 1) return;
  const Buffer mine = filled(r, count, dtype), to = r.device.allocate(bytes_of(count, dtype));
  if (r.rank() % 2 == 0) r.group.send(mine.data(), count, dtype, next, r.stream);
  r.group.receive(to.data(), count, dtype, previous, r.stream);
  if (r.rank() % 2 == 1) r.group.send(mine.data(), count, dtype, next, r.stream);
  check("send and receive", r, to.data(), count, dtype, [&](std::int64_t i) { return value(previous, i); });
}

/// The same with everybody sending first, which a group allows: large messages would wait for each other. One rank
/// sends to itself.
void check_group(const Ranks& r, std::int64_t count, Dtype dtype) {
  const int next = int((r.rank() + 1) % r.size()), previous = int((r.rank() + r.size() - 1) % r.size());
  const Buffer mine = filled(r, count, dtype), to = r.device.allocate(bytes_of(count, dtype));
  r.group.begin_group();
  r.group.send(mine.data(), count, dtype, next, r.stream);
  r.group.receive(to.data(), count, dtype, previous, r.stream);
  r.group.end_group();
  check("a group of sends and receives", r, to.data(), count, dtype,
        [&](std::int64_t i) { return value(previous, i); });
}

/// Rank 0 receives two of each other rank, which send one by one: what is there moves on while it waits for the rest.
void check_many_receives(const Ranks& r, std::int64_t count, Dtype dtype) {
  const std::int64_t bytes = bytes_of(count, dtype).count;
  if (r.rank() > 0) {
    const Buffer mine = filled(r, count, dtype);
    for (int i = 0; i < 2; ++i) r.group.send(mine.data(), count, dtype, 0, r.stream);
    r.stream.synchronise();
    return;
  }
  const Buffer to = r.device.allocate({2 * bytes * r.size()});
  r.group.begin_group();
  for (std::int64_t i = 2; i < 2 * r.size(); ++i)
    r.group.receive(to.as<char>() + i * bytes, count, dtype, int(i / 2), r.stream);
  r.group.end_group();
  for (std::int64_t i = 2; i < 2 * r.size(); ++i)
    check("a group of receives", r, to.as<char>() + i * bytes, count, dtype,
          [&](std::int64_t k) { return value(i / 2, k); });
}

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++num_wrong;
}

void check_host_calls(const Ranks& r) {
  r.group.barrier();
  expect(r.group.max_host(double(r.rank())) == double(r.size() - 1), "max_host");
  int number = r.rank() == 0 ? 41 : 0;
  r.group.broadcast_host(std::as_writable_bytes(std::span(&number, 1)), 0);
  expect(number == 41, "broadcast_host");
  const std::array<double, 2> own{double(r.rank()), 0.5 * double(r.rank())};
  std::vector<std::array<double, 2>> all(std::size_t(r.size()));
  r.group.all_gather_host(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i)
    expect(all[i] == std::array<double, 2>{double(i), 0.5 * double(i)}, "all_gather_host");
}

/// Narrow sums round to nearest even: 1 + 2^-8 is half-way between two bf16 numbers, and goes to 1.
void check_rounding(const Ranks& r) {
  if (r.size() != 2) return;
  std::uint16_t x = float_to_bf16(r.rank() == 0 ? 1.0F : 0x1p-8F), sum = 0;
  r.group.all_reduce(&x, &sum, 1, Dtype::BF16, r.stream);
  r.stream.synchronise();
  expect(bf16_to_float(sum) == 1.0F, "bf16 sums round to nearest even");
}

/// The core of a rank that waits for another one is free: for its own work, or for that of the late one.
void check_waiting(const Ranks& r) {
  constexpr auto kLate = std::chrono::milliseconds(600);
  float x = 1, sum = 0;
  r.group.max_host(0);
  if (r.rank() == r.size() - 1) std::this_thread::sleep_for(kLate);
  const auto clock_begin = std::chrono::steady_clock::now();
  const std::clock_t begin = std::clock();  // processor time of all threads
  r.group.all_reduce(&x, &sum, 1, Dtype::F32, r.stream);
  r.stream.synchronise();
  expect(sum == float(r.size()), "an all-reduce that a rank is late for");
  const int last = int(r.size() - 1);
  if (r.rank() == last) {
    std::this_thread::sleep_for(kLate);
    for (int to = 0; to < last; ++to) r.group.send(&x, 1, Dtype::F32, to, r.stream);
  } else {
    r.group.receive(&sum, 1, Dtype::F32, last, r.stream);
  }
  r.stream.synchronise();
  expect(r.rank() == last || sum == 1, "a message that is late");
  // A thread that spins takes as much of a processor as time passes, on a busy machine its share of it.
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - clock_begin).count();
  expect(double(std::clock() - begin) / CLOCKS_PER_SEC < passed / 3,
         "ranks that wait for a late one leave their cores alone");
}

void check_all(const Ranks& r) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
    for (const std::int64_t count : kCounts) {
      check_sums(r, count, dtype);
      check_moves(r, count, dtype);
      check_ring(r, count, dtype);
      check_group(r, count, dtype);
      check_many_receives(r, count, dtype);
    }
  check_host_calls(r);
  check_rounding(r);
  check_waiting(r);
}

/// Groups of even and of odd ranks, and one without the last rank.
void check_split(const Ranks& r) {
  const auto half = r.group.split(int(r.rank() % 2));
  expect(half && half->size() == (r.size() + 1 - r.rank() % 2) / 2 && half->rank() == r.rank() / 2, "split by parity");
  if (half) check_sums({r.device, r.stream, *half}, 1000, Dtype::F32);
  const bool is_last = r.rank() == r.size() - 1;
  const auto rest = r.group.split(is_last ? -1 : 0);
  expect(is_last ? !rest : rest && rest->size() == r.size() - 1, "split that leaves one out");
  if (rest) check_moves({r.device, r.stream, *rest}, 7, Dtype::BF16);
}

/// The last thing: after an error MPI is not finished in order.
void check_errors(const Ranks& r) {
  float x = 0;
  r.group.send(&x, 1, Dtype::F32, int(r.size()) + 5, r.stream);
  try {
    r.stream.synchronise();
    expect(false, "a rank that does not exist is an error");
  } catch (const EnvError& error) {
    expect(std::string_view(error.what()).starts_with("MPI_Isend failed: MPI_ERR_RANK"), error.what());
  }
}

/// The last thing, too: rank 0 waits for a message, or for the others to meet, that never come, and gives up.
void check_abort(const Ranks& r, std::string_view what) {
  float x = 0;
  if (r.rank() > 0) return std::this_thread::sleep_for(std::chrono::hours(1));
  if (what == "message")
    r.group.receive(&x, 1, Dtype::F32, 1, r.stream);
  else
    r.group.all_reduce(&x, &x, 1, Dtype::F32, r.stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  r.group.abort();
  try {
    r.stream.synchronise();
  } catch (const EnvError& error) { std::printf("%s\n", error.what()); }
}

void time_all_reduce(const Ranks& r, std::int64_t bytes) {
  const std::int64_t count = bytes / 4;
  const Buffer from = filled(r, count, Dtype::F32), to = filled(r, count, Dtype::F32);
  std::vector<double> times;
  double total = 0, best = 1e9;
  for (int run = 0; run < 3 || (total < 1 && run < 1000); ++run) {
    r.group.barrier();
    const auto begin = std::chrono::steady_clock::now();
    r.group.all_reduce(from.data(), to.data(), count, Dtype::F32, r.stream);
    r.stream.synchronise();
    const double slowest =
        r.group.max_host(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    total = r.group.max_host(total + slowest), best = run > 0 && slowest < best ? slowest : best;
    times.push_back(slowest);
  }
  if (r.rank() == 0)
    std::printf("%lld bytes, %d ranks: best %.1f us, mean %.1f us\n", (long long)bytes, int(r.size()), best * 1e6,
                total / double(times.size()) * 1e6);
}

}  // namespace

int main(int argc, char** argv) try {
  const auto device = device_backend(DeviceKind::Cpu).open({.num_threads = 1});
  const auto group = collective_backend(DeviceKind::Cpu).join(*device, {});
  const auto stream = device->create_stream();
  const Ranks ranks{*device, *stream, *group};
  if (argc > 2 && std::string_view(argv[1]) == "abort") {
    check_abort(ranks, argv[2]);
    return 0;
  }
  if (argc > 2) {
    time_all_reduce(ranks, std::atoll(argv[2]));
    return 0;
  }
  check_all(ranks);
  check_split(ranks);
  group->barrier();
  if (argc > 1) check_errors(ranks);
  if (ranks.rank() == 0) std::printf("%s, %d ranks\n", group->library().c_str(), group->size());
  return num_wrong > 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}

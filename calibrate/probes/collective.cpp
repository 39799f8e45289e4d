// Collectives, timed back to back, out of place, the slowest rank counts. GPUs as nccl-tests does: not rotated. CPU
// ranks move large messages from memory to memory, as a step does with weights that nobody has read since the last one:
// a message that both ranks find in a cache takes a quarter of the time. Summed numbers are small integers, so that the
// result must be exact in every dtype.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/narrow.h"
#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

/// Numbers repeat after so many elements: a piece of 256 KiB of fp32 fills any buffer.
constexpr std::int64_t kPeriod = 65536;

/// Element `i` of what `rank` sends; at most 3, so that 85 ranks add up exactly even in bf16 (integers to 256).
int value_of(std::int64_t i, int rank) { return int(random_bits(std::uint64_t(rank), std::uint64_t(i % kPeriod)) & 3); }

/// The integer 0 … 3 in `dtype`.
void put(std::byte* to, Dtype dtype, int value) {
  constexpr std::array<std::uint32_t, 4> kFp32{0, 0x3f800000, 0x40000000, 0x40400000};
  constexpr std::array<std::uint16_t, 4> kFp16{0, 0x3c00, 0x4000, 0x4200};
  const std::uint32_t bits = dtype == Dtype::F32    ? kFp32[std::size_t(value)]
                             : dtype == Dtype::BF16 ? kFp32[std::size_t(value)] >> 16
                                                    : kFp16[std::size_t(value)];
  for (std::int64_t i = 0; i < size_of(dtype); ++i) to[i] = std::byte(bits >> (8 * i));
}

struct Exchange {
  Probe probe;
  Communicator& group;
  Device& device;
  Stream& stream;
  std::int64_t count{}, part{};            // elements of the whole tensor, of one rank's part
  Buffer send, receive;                    // windows, one after the other
  std::int64_t num_windows = 1, stride{};  // elements
  std::int64_t window = -1;                // of the call made last
  int sender = 0;                          // SendRecv: the parity of the ranks that send next

  bool has_parts() const {
    return probe.collective == CollectiveKind::AllGather || probe.collective == CollectiveKind::ReduceScatter ||
           probe.collective == CollectiveKind::AllToAll;
  }
  std::int64_t send_count() const { return probe.collective == CollectiveKind::AllGather ? part : count; }
  std::int64_t receive_count() const { return probe.collective == CollectiveKind::ReduceScatter ? part : count; }
  std::byte* in_window(const Buffer& buffer) const {
    return buffer.as<std::byte>() + std::max<std::int64_t>(window, 0) * stride * size_of(probe.dtype);
  }
};

void fill(const Exchange& exchange, const Buffer& buffer, std::int64_t count, int rank) {
  const std::int64_t size = size_of(exchange.probe.dtype), piece = std::min(count, kPeriod);
  std::vector<std::byte> pattern(std::size_t(piece * size));
  for (std::int64_t i = 0; i < piece; ++i) put(pattern.data() + i * size, exchange.probe.dtype, value_of(i, rank));
  for (std::int64_t first = 0; first < count; first += piece)
    exchange.device.copy(buffer.as<std::byte>() + first * size, pattern.data(), {std::min(piece, count - first) * size},
                         CopyKind::HostToDevice, exchange.stream);
  exchange.stream.synchronise();
}

/// One message of a pair, in turns to and fro: a rank cannot run ahead, so small messages show their latency.
void exchange_message(Exchange& exchange) {
  Communicator& group = exchange.group;
  const int rank = group.rank(), partner = rank ^ 1;
  const bool is_sender = rank % 2 == exchange.sender;
  exchange.sender ^= 1;
  if (partner >= group.size()) return;
  if (is_sender)
    group.send(exchange.in_window(exchange.send), exchange.count, exchange.probe.dtype, partner, exchange.stream);
  else
    group.receive(exchange.in_window(exchange.receive), exchange.count, exchange.probe.dtype, partner, exchange.stream);
}

/// Sends and receives of one group, as torch.distributed's all_to_all_single is under NCCL.
void send_to_all(Exchange& exchange) {
  Communicator& group = exchange.group;
  const std::int64_t bytes = exchange.part * size_of(exchange.probe.dtype);
  group.begin_group();
  for (int peer = 0; peer < group.size(); ++peer) {
    group.send(exchange.in_window(exchange.send) + peer * bytes, exchange.part, exchange.probe.dtype, peer,
               exchange.stream);
    group.receive(exchange.in_window(exchange.receive) + peer * bytes, exchange.part, exchange.probe.dtype, peer,
                  exchange.stream);
  }
  group.end_group();
}

void call_once(Exchange& exchange) {
  Communicator& group = exchange.group;
  exchange.window = (exchange.window + 1) % exchange.num_windows;
  void* const send = exchange.in_window(exchange.send);
  void* const receive = exchange.in_window(exchange.receive);
  const Dtype dtype = exchange.probe.dtype;
  switch (exchange.probe.collective) {
    case CollectiveKind::AllGather: return group.all_gather(send, receive, exchange.part, dtype, exchange.stream);
    case CollectiveKind::ReduceScatter:
      return group.reduce_scatter(send, receive, exchange.part, dtype, exchange.stream);
    case CollectiveKind::AllReduce: return group.all_reduce(send, receive, exchange.count, dtype, exchange.stream);
    case CollectiveKind::Broadcast: return group.broadcast(receive, exchange.count, dtype, 0, exchange.stream);
    case CollectiveKind::SendRecv: return exchange_message(exchange);
    case CollectiveKind::AllToAll: return send_to_all(exchange);
  }
}

/// Element `i` of what this rank must have received; after one call.
int wanted(const Exchange& exchange, std::int64_t i) {
  const int rank = exchange.group.rank(), size = exchange.group.size();
  const auto sum = [&](std::int64_t at) {
    int total = 0;
    for (int r = 0; r < size; ++r) total += value_of(at, r);
    return total;
  };
  switch (exchange.probe.collective) {
    case CollectiveKind::AllGather: return value_of(i % exchange.part, narrow<int>(i / exchange.part));
    case CollectiveKind::ReduceScatter: return sum(rank * exchange.part + i);
    case CollectiveKind::AllReduce: return sum(i);
    case CollectiveKind::Broadcast: return value_of(i, 0);
    case CollectiveKind::SendRecv: return value_of(i, rank ^ 1);
    case CollectiveKind::AllToAll:
      return value_of(rank * exchange.part + i % exchange.part, narrow<int>(i / exchange.part));
  }
  return 0;
}

/// All of small results; 16 pieces of large ones, both ends among them.
void check_received(const Exchange& exchange) {
  constexpr std::int64_t kPiece = 16384, kPieces = 16;
  const bool is_message = exchange.probe.collective == CollectiveKind::SendRecv;
  if (is_message && (exchange.group.rank() % 2 == 0 || exchange.sender != 1)) return;  // even ranks sent
  const std::int64_t count = exchange.receive_count(), last = std::max<std::int64_t>(count - kPiece, 0);
  const Dtype dtype = exchange.probe.dtype;
  for (std::int64_t p = 0; p < kPieces; ++p) {
    const std::int64_t first = count <= kPiece * kPieces ? p * kPiece : last * p / (kPieces - 1);
    const std::int64_t size = std::min(kPiece, count - first);
    if (size <= 0) return;
    const auto got =
        HostView(exchange.device, exchange.stream).numbers(exchange.in_window(exchange.receive), dtype, first, size);
    for (std::int64_t i = 0; i < size; ++i)
      expect_near(got[std::size_t(i)], wanted(exchange, first + i), 0, "received", first + i);
  }
}

/// Windows begin where the pattern does.
void place_windows(Exchange& exchange) {
  constexpr Bytes kLarge{65536};  // shorter ones are latency
  const DeviceKind kind = exchange.device.facts().kind;
  exchange.stride = ceil_div(exchange.count, kPeriod) * kPeriod;
  if (kind == DeviceKind::Cpu && exchange.probe.bytes >= kLarge)
    exchange.num_windows =
        std::max<std::int64_t>(1, rotation_size(kind).count / bytes_of(exchange.stride, exchange.probe.dtype).count);
}

/// This rank's group: everyone, or its pair. All groups of a scope work at once.
Communicator& group_of(const Probe& probe, ProbeBench& bench) {
  if (!bench.ranks) throw EnvError("collectives need several ranks");
  if (probe.scope != RankScope::Pair) return *bench.ranks;
  auto& group = bench.groups[probe.scope];
  if (!group) group = bench.ranks->split(bench.ranks->rank() / 2);
  if (!group) throw EnvError("no communicator for pairs");
  return *group;
}

}  // namespace

Workload collective_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  Communicator& group = group_of(probe, bench);
  const std::int64_t size = size_of(probe.dtype), whole = std::max<std::int64_t>(probe.bytes.count / size, 1);
  const std::int64_t part = ceil_div(whole, group.size());
  const auto exchange = std::make_shared<Exchange>(Exchange{probe, group, bench.device, stream, whole, part});
  if (exchange->has_parts()) exchange->count = part * group.size();
  place_windows(*exchange);
  const std::int64_t before_last = (exchange->num_windows - 1) * exchange->stride,
                     send_count = before_last + exchange->send_count(),
                     receive_count = before_last + exchange->receive_count();
  exchange->send = bench.device.allocate({send_count * size});
  exchange->receive = bench.device.allocate({receive_count * size});
  fill(*exchange, exchange->send, send_count, group.rank());
  // Nothing of the result is there already: broadcast alone reads it, on its root.
  const bool is_root = probe.collective == CollectiveKind::Broadcast && group.rank() == 0;
  fill(*exchange, exchange->receive, receive_count, is_root ? 0 : 1000);
  return {[exchange] { call_once(*exchange); }, [exchange] { check_received(*exchange); }};
}

}  // namespace gpuplan

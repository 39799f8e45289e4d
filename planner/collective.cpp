#include "planner/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpuplan {
namespace {

constexpr std::array kAllProtocols{Protocol::LL, Protocol::LL128, Protocol::Simple};

struct Steps {
  std::int64_t total{}, inter{};
};

/// Ring: 2 (n - 1) for all-reduce, n - 1 for gather and scatter, n for broadcast; as many between machines per machine.
/// All to all: sends to all others at once.
Steps ring_steps(CollectiveKind kind, const GroupShape& shape) {
  const std::int64_t across = shape.nodes - 1;
  if (kind == CollectiveKind::AllReduce) return {2 * (shape.size - 1), 2 * across};
  if (kind == CollectiveKind::Broadcast) return {shape.size, across};
  if (kind == CollectiveKind::AllToAll) return {1, std::min<std::int64_t>(1, across)};
  return {shape.size - 1, across};
}

/// Bytes that a rank sends per byte of the message, as if all went round a ring: all to all between machines each rank
/// sends its own bytes to every machine, and the links of a machine carry those of all its ranks.
double sent_factor(CollectiveKind kind, const GroupShape& shape) {
  const double inside = bus_factor(kind, shape.size);
  if (kind != CollectiveKind::AllToAll || shape.nodes == 1) return inside;
  const double per_node = double(shape.ranks_per_node()), all = double(shape.size);
  return std::max(inside, per_node * (all - per_node) / all);
}

bool has_nvls(CollectiveKind kind, const GroupLinks& g) {
  return kind == CollectiveKind::AllReduce && g.has_switch && g.shape.nodes == 1 &&
         g.shape.size >= nccl_table().nvls_least_ranks && g.generation >= NcclGeneration::Hopper &&
         g.all_reduce_bandwidth > g.bandwidth;
}

/// All-reduce has a bandwidth of its own where the switch reduces, which rings do not reach.
BytesPerSec ring_bandwidth(CollectiveKind kind, const GroupLinks& g) {
  const bool is_of_switch = g.has_switch && g.generation >= NcclGeneration::Hopper;
  return kind == CollectiveKind::AllReduce && !is_of_switch ? g.all_reduce_bandwidth : g.bandwidth;
}

bool allows(Protocol protocol, const GroupLinks& g) {
  return protocol != Protocol::LL128 || g.inside == NcclLink::NvLink;  // stores of 128 B arrive whole only there
}

std::size_t column(const GroupShape& shape) { return std::size_t(std::min<std::int64_t>(shape.nodes, 3) - 1); }

/// Channels that NCCL's search finds: the fastest rate of its grid whose whole channels nearly fill the bus, twice as
/// many where each is fast (ncclTopoDupChannels in search.cc).
std::int64_t num_channels(const GroupLinks& g, BytesPerSec bus) {
  const auto& rates = nccl_table().caps[std::size_t(g.generation)].channel_rates;
  for (const BytesPerSec rate : rates) {
    const std::int64_t n = std::int64_t(bus / rate);
    if (double(n) * rate.value < nccl_table().factors.channel_search * bus.value) continue;
    const NcclTable::ChannelDoubling& doubling = nccl_table().channel_doubling;
    const bool is_new = g.generation >= NcclGeneration::Hopper;
    const bool doubles =
        rate >= doubling.least && (!is_new || rate >= doubling.hopper_least || n <= doubling.hopper_few_channels);
    return doubles ? 2 * n : n;
  }
  return std::max<std::int64_t>(1, std::int64_t(bus / rates.back()));
}

/// Bus bandwidth of a ring with a protocol; `bus` is Simple's.
BytesPerSec ring_bus(Protocol protocol, const GroupLinks& g, BytesPerSec bus, std::int64_t channels) {
  const NcclTable::Caps& caps = nccl_table().caps[std::size_t(g.generation)];
  const std::size_t c = column(g.shape);
  const NcclTable::Factors& factors = nccl_table().factors;
  if (protocol == Protocol::LL) return std::min(caps.ll[c], bus * factors.ll);
  if (protocol == Protocol::LL128) return std::min(bus * factors.ll128, caps.ring_ll128_channel[c] * double(channels));
  return bus;
}

/// Bus bandwidth of NCCL's double tree; its algorithm bandwidth is half of it.
BytesPerSec tree_bus(Protocol protocol, const GroupLinks& g, BytesPerSec bus, std::int64_t channels) {
  const NcclTable::Caps& caps = nccl_table().caps[std::size_t(g.generation)];
  const std::size_t c = column(g.shape);
  const bool is_one = g.shape.nodes == 1;
  const NcclTable::Factors& factors = nccl_table().factors;
  BytesPerSec tree = std::min(bus * factors.tree, caps.tree_channel[c] * double(channels));
  if (protocol == Protocol::LL) tree = std::min(tree * factors.tree_ll, caps.ll[c]);
  if (protocol == Protocol::LL128)
    tree = std::min(tree * (is_one ? factors.tree_ll128_one_machine : factors.tree_ll128_machines),
                    caps.tree_ll128_channel[c] * double(channels));
  return is_one ? tree * factors.plain_tree : tree;  // the plain tree pattern; across machines trees are balanced
}

/// Parts of a line's latency. A stated latency beyond NCCL's (through host memory) is paid by every step.
CollectiveChoice latencies(CollectiveKind kind, const GroupLinks& g, Algorithm algorithm, Protocol protocol) {
  CollectiveChoice out{.algorithm = algorithm, .protocol = protocol};
  const Steps steps = ring_steps(kind, g.shape);
  out.intra_steps = steps.total - steps.inter, out.inter_steps = steps.inter;
  out.intra_step = g.intra_latency, out.inter_step = g.inter_latency;
  if (!g.inside) return out;
  const NcclTable& table = nccl_table();
  const auto beyond = [&](Seconds stated, NcclLink link, Algorithm a) {
    const Seconds extra = stated - table.step_latency(link, Algorithm::Ring, Protocol::Simple);
    return std::max(Seconds{}, table.step_latency(link, a, protocol) + extra);
  };
  out.base = table.base[std::size_t(algorithm)][std::size_t(protocol)];
  out.intra_step = beyond(g.intra_latency, *g.inside, algorithm);
  const Algorithm across = g.shape.ranks_per_node() == 1 ? Algorithm::Tree : algorithm;
  out.inter_step = beyond(g.inter_latency, NcclLink::Net, across);
  if (algorithm == Algorithm::Nvls) out.intra_steps = 1, out.inter_steps = 0;
  if (algorithm == Algorithm::Tree) {
    out.intra_steps = 2 * (g.shape.ranks_per_node() - 1);
    out.inter_steps = 2 * (std::int64_t(std::bit_width(std::uint64_t(g.shape.nodes))) - 1);  // NCCL's log2 rounds down
  }
  if (algorithm != Algorithm::Ring || g.shape.nodes == 1) return out;
  const double times = protocol == Protocol::Simple ? table.net_overhead_simple : 1;
  out.intra_step = std::max(out.intra_step, table.net_overhead * times);
  if (protocol != Protocol::Simple || kind != CollectiveKind::AllReduce) return out;
  for (Seconds* part : {&out.base, &out.intra_step, &out.inter_step}) *part = *part * table.ring_simple_across;
  return out;
}

Seconds total_latency(const CollectiveChoice& c) {
  return c.base + double(c.intra_steps) * c.intra_step + double(c.inter_steps) * c.inter_step;
}

/// Gives what NCCL's table says trees lose at a size.
double tree_correction(Protocol protocol, Bytes message) {
  const auto& factors = nccl_table().tree_correction[std::size_t(protocol)];
  const std::size_t index =
      std::size_t(std::bit_width(std::uint64_t(std::max<std::int64_t>(message.count, 64)) >> 6)) - 1;
  return index < factors.size() ? factors[index] : 1;
}

double wire_seconds(const CollectiveLine& line, Bytes message) {
  const double x = line.seconds_per_byte * double(message.count);
  return line.algorithm == Algorithm::Tree ? x / tree_correction(line.protocol, message) : x;
}

/// Payload per rank. NVLS: the switch pulls all of a rank's bytes, and the rank sends the sum of its share back.
Bytes payload(CollectiveKind kind, Algorithm algorithm, const GroupShape& shape, Bytes message) {
  const double factor =
      algorithm == Algorithm::Nvls ? double(shape.size + 1) / double(shape.size) : sent_factor(kind, shape);
  return {std::int64_t(factor * double(message.count))};
}

}  // namespace

Seconds pipeline_fill(Protocol protocol, Seconds latency, Seconds wire) {
  if (protocol == Protocol::LL) return {};
  const NcclTable& table = nccl_table();
  const double x = std::min(wire.value, table.fill_saturation * latency.value);
  return {2 * std::sqrt(table.handshake * latency.value * x)};
}

CollectiveLines::CollectiveLines(CollectiveKind kind, const GroupLinks& g) : is_nccl_(g.inside.has_value()) {
  if (g.shape.size <= 1) return;
  const BytesPerSec bus = ring_bandwidth(kind, g);
  const double factor = sent_factor(kind, g.shape);
  const auto line = [&](Algorithm algorithm, Protocol protocol, double seconds_per_byte) {
    add({algorithm, protocol, total_latency(latencies(kind, g, algorithm, protocol)).value, seconds_per_byte});
  };
  if (!is_nccl_) {
    line(Algorithm::Ring, Protocol::Simple, factor / bus.value);
    return;
  }
  const std::int64_t channels = num_channels(g, bus);
  for (const Protocol protocol : kAllProtocols) {
    if (!allows(protocol, g) || (kind == CollectiveKind::AllToAll && protocol != Protocol::Simple)) continue;
    line(Algorithm::Ring, protocol, factor / ring_bus(protocol, g, bus, channels).value);
    if (kind == CollectiveKind::AllReduce)
      line(Algorithm::Tree, protocol, 2 / tree_bus(protocol, g, bus, channels).value);
  }
  if (has_nvls(kind, g)) line(Algorithm::Nvls, Protocol::Simple, factor / g.all_reduce_bandwidth.value);
}

std::size_t CollectiveLines::fastest_index(Bytes message) const {
  std::size_t best = 0;
  double least = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const double time = lines_[i].latency + wire_seconds(lines_[i], message);
    if (i == 0 || time < least) best = i, least = time;
  }
  return best;
}

Seconds CollectiveLines::time(Bytes message) const {
  if (is_empty()) return {};
  const CollectiveLine& line = lines_[fastest_index(message)];
  const double wire = wire_seconds(line, message);
  const Seconds fill = is_nccl_ ? pipeline_fill(line.protocol, {line.latency}, {wire}) : Seconds{};
  return Seconds{line.latency + wire} + fill;
}

CollectiveChoice choose_collective(CollectiveKind kind, const GroupLinks& g, Bytes message) {
  const CollectiveLines lines(kind, g);
  if (lines.is_empty()) return {};
  const CollectiveLine line = lines.fastest(message);
  CollectiveChoice out = latencies(kind, g, line.algorithm, line.protocol);
  out.sent = payload(kind, line.algorithm, g.shape, message);
  out.time = lines.time(message);
  const double wire = wire_seconds(line, message);
  out.base += out.time - Seconds{line.latency + wire};
  if (out.sent.count > 0)
    out.wire_factor = wire * g.bandwidth.value / double(out.sent.count);
  else
    out.base += Seconds{wire};
  return out;
}

}  // namespace gpuplan

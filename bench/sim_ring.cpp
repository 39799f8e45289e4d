// How fast the simulator is: the ring of ring_case.h, every message an event and a flow that fair sharing looks at;
// then in other cases.
//   build/release/bench/bench_sim_ring [ranks [layers [case]]]
// Cases: "ring", "folded to one rank", "unequal speed" (ranks drift apart), "two rings" (over the same links), "two of
// unequal speed", "gathers" (twice the ranks, three all-gathers per layer: a sharded model).
#include <sys/resource.h>

#include <cstring>
#include <random>
#include <vector>

#include "ring_case.h"
#include "sim/network.h"

using namespace gpuplan;

namespace {

/// What is run besides the plain ring.
struct Variant {
  const char* name = "";
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::int64_t num_ranks{}, num_kept{}, num_calls{};
  double jitter = 0;           // relative, of the compute time
  std::int64_t num_rings = 1;  // at once, over the same links
};

CommGroup ring_of(const Variant& v) {
  CommGroup c{.axis = Axis::DpShard, .size = v.num_ranks, .shape = {.size = v.num_ranks}};
  for (std::int64_t m = 0; m < v.num_kept; ++m) {
    c.ranks.push_back(m * (v.num_ranks / v.num_kept));
    c.next.push_back((c.ranks.back() + 1) % v.num_ranks);
    c.next_member.push_back(std::uint32_t((m + 1) % v.num_kept));
  }
  return c;
}

/// A program of compute and collectives in turn on every rank.
class RingProgram {
 public:
  explicit RingProgram(const Variant& v) : v_(v), members_(std::size_t(v.num_kept * v.num_rings)), random_(1) {
    const LinkCost link{.latency = {ring_case::kLatencySeconds},
                        .bandwidth = {ring_case::kBytesPerSecond},
                        .all_reduce_bandwidth = {ring_case::kBytesPerSecond}};
    CommModel comm;
    for (AxisLink& axis : comm.axes) axis = {.link = link, .ways = v.num_ranks};
    const auto own = [](std::int64_t rank) { return Route{{.link = std::uint32_t(rank)}}; };
    NetworkLinks links{.capacities = std::vector<BytesPerSec>(std::size_t(v.num_ranks), link.bandwidth),
                       .ring_route = [own](std::int64_t from, std::int64_t, const CommGroup&) { return own(from); },
                       .route = [own](std::int64_t from, std::int64_t) { return own(from); },
                       .copy_route = [own](std::int64_t rank, HostCopy) { return own(rank); }};
    network_ = make_flow_network(std::vector(std::size_t(v.num_rings), ring_of(v)), comm, std::move(links), queue_);
  }

  SimTime run() {
    for (std::uint32_t m = 0; m < members_.size(); ++m) compute(m, {});
    SimTime now;
    std::vector<Finished> finished;
    while (!queue_.empty()) {
      const SimEvent event = queue_.pop();
      now = event.time;
      if (event.target == EventTarget::Engine) {
        join(event.index, now);
      } else {
        finished.clear();
        network_->handle(event, finished);
        for (const Finished& f : finished) compute(ring_of_transfer_[f.transfer] * kept() + f.member, now);
      }
      if (queue_.empty() || queue_.next_time() > now) network_->settle(now);
    }
    return now;
  }
  std::uint64_t num_events() const { return queue_.num_popped(); }

 private:
  std::uint32_t kept() const { return std::uint32_t(v_.num_kept); }
  void compute(std::uint32_t m, SimTime now) {
    if (members_[m] == v_.num_calls) return;
    const double factor = 1 + v_.jitter * double(random_() >> 11) * 0x1p-53;
    queue_.push({.time = now + to_sim_time({ring_case::kComputeSeconds * factor}), .index = m});
  }
  void join(std::uint32_t m, SimTime now) {
    const std::uint32_t ring = m / kept();
    const std::size_t call = std::size_t(members_[m]++), at = call * std::size_t(v_.num_rings) + ring;
    if (at >= open_.size()) open_.resize((call + 1) * std::size_t(v_.num_rings), kNone);
    if (open_[at] == kNone) {
      open_[at] = network_->open({v_.kind, ring, {ring_case::kBytes}});
      if (open_[at] >= ring_of_transfer_.size()) ring_of_transfer_.resize(open_[at] + 1);
      ring_of_transfer_[open_[at]] = ring;
    }
    network_->join(open_[at], m % kept(), now);
  }

  static constexpr std::uint32_t kNone = 0xffffffff;
  Variant v_;
  std::vector<std::int64_t> members_;  // calls joined
  std::vector<std::uint32_t> open_;    // transfer by call and ring
  std::vector<std::uint32_t> ring_of_transfer_;
  std::mt19937_64 random_;
  EventQueue queue_;
  std::unique_ptr<Network> network_;
};

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

double run(const Variant& v) {
  const ring_case::Stopwatch watch;
  RingProgram program(v);
  const SimTime end = program.run();
  const double cpu = watch.cpu_seconds(), wall = watch.wall_seconds();
  const std::int64_t steps = (v.kind == CollectiveKind::AllReduce ? 2 : 1) * (v.num_ranks - 1);
  const double messages = double(steps * v.num_kept * v.num_calls * v.num_rings);
  std::printf(
      "%-20s %5lld ranks x %3lld %12.0f messages %10llu events %8.3f s CPU (%.3f wall) %6.1f M/s  simulated %.12f s  "
      "peak %ld MiB\n",
      v.name, static_cast<long long>(v.num_ranks), static_cast<long long>(v.num_calls), messages,
      static_cast<unsigned long long>(program.num_events()), cpu, wall, messages / cpu / 1e6, end.seconds().value,
      peak_kib() / 1024);
  return end.seconds().value;
}

}  // namespace

int main(int argc, char** argv) {
  const ring_case::Size size = ring_case::read_size(argc, argv);
  const std::int64_t n = size.num_ranks, layers = size.num_layers;
  const std::vector<Variant> variants{
      {.name = "ring", .num_ranks = n, .num_kept = n, .num_calls = layers},
      {.name = "folded to one rank", .num_ranks = n, .num_kept = 1, .num_calls = layers},
      {.name = "unequal speed", .num_ranks = n, .num_kept = n, .num_calls = layers, .jitter = 0.1},
      {.name = "two rings", .num_ranks = n, .num_kept = n, .num_calls = layers, .num_rings = 2},
      {.name = "two of unequal speed",
       .num_ranks = n,
       .num_kept = n,
       .num_calls = layers,
       .jitter = 0.1,
       .num_rings = 2},
      {.name = "gathers",
       .kind = CollectiveKind::AllGather,
       .num_ranks = 2 * n,
       .num_kept = 2 * n,
       .num_calls = 3 * layers}};
  const double formula = ring_case::closed_form_seconds(size);
  std::printf("closed form of ring: %.6f s\n", formula);
  for (const Variant& v : variants) {
    if (argc > 3 && std::strcmp(v.name, argv[3]) != 0) continue;
    const double simulated = run(v);
    if (std::strcmp(v.name, "ring") == 0 && std::abs(simulated / formula - 1) > 1e-6) return 1;
  }
}

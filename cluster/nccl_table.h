// The constants of NCCL's tuner, as data/nccl.yaml states them with their version: latencies per algorithm, protocol
// and kind of link, what the protocols reach, and how slow the middle sizes are. planner/collective computes with them;
// cluster/links takes the latency of a ring step from here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {

enum class Algorithm : std::uint8_t { Ring, Tree, Nvls };
enum class Protocol : std::uint8_t { Simple, LL128, LL };
constexpr std::size_t kNumAlgorithms = 3, kNumProtocols = 3;
std::string_view to_string(Algorithm algorithm);
std::string_view to_string(Protocol protocol);

/// Kinds of link that have latencies of their own in the tuner.
enum class NcclLink : std::uint8_t { NvLink, Pci, Net };
/// Generations by compute capability: 7.x and older, 8.x, 9.x, 10.x and newer.
enum class NcclGeneration : std::uint8_t { Volta, Ampere, Hopper, Blackwell };

/// The tuner's link inside a machine with this fabric; none where the ranks do not talk through NCCL (RCCL and CPU
/// ranks have tables of their own, which nobody published).
std::optional<NcclLink> nccl_link(FabricKind fabric);
NcclGeneration nccl_generation(const GpuSpec& gpu);

struct NcclTable {
  template <class T>
  using PerProtocol = std::array<T, kNumProtocols>;
  using PerNodes = std::array<BytesPerSec, 3>;  // 1 machine, 2, more

  /// Upper limits of a generation.
  struct Caps {
    PerNodes ll;                                                    // of the whole bus
    PerNodes ring_ll128_channel, tree_ll128_channel, tree_channel;  // of one channel
    std::vector<BytesPerSec> channel_rates;                         // that the search for channels tries, fastest first
  };

  /// Shares of the bus that protocols and trees reach.
  struct Factors {
    double ll{}, ll128{}, tree{}, tree_ll{}, tree_ll128_one_machine{}, tree_ll128_machines{}, plain_tree{},
        channel_search{};
  } factors;
  /// Channels of at least this rate are doubled; from Hopper on slower than `hopper_least` only while there are few.
  struct ChannelDoubling {
    BytesPerSec least, hopper_least;
    std::int64_t hopper_few_channels{};
  } channel_doubling;
  std::array<PerProtocol<Seconds>, kNumAlgorithms> base;                 // once per call
  std::array<std::array<PerProtocol<Seconds>, kNumAlgorithms>, 3> step;  // [NcclLink][Algorithm], per step
  std::array<Caps, 4> caps;                                              // [NcclGeneration]
  PerProtocol<std::array<double, 24>> tree_correction{};                 // from 64 B up, per doubling
  Seconds net_overhead;                                                  // least time of an intra step beside a network
  double net_overhead_simple{}, ring_simple_across{};                    // factors, see data
  std::int64_t nvls_least_ranks{};
  double handshake{}, fill_saturation{};  // planner/collective.h: pipeline_fill
  Seconds benchmark_overhead;             // of the published curves, not of NCCL

  Seconds step_latency(NcclLink link, Algorithm algorithm, Protocol protocol) const {
    return step[std::size_t(link)][std::size_t(algorithm)][std::size_t(protocol)];
  }
};

/// data/nccl.yaml, read once. Throws InputError listing every problem.
const NcclTable& nccl_table();

}  // namespace gpuplan

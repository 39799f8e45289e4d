#include "cluster/nccl_table.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, kNumAlgorithms> kAlgorithms{"ring", "tree", "nvls"};
constexpr std::array<std::string_view, kNumProtocols> kProtocols{"Simple", "LL128", "LL"};
constexpr std::array<std::string_view, 3> kLinks{"nvlink", "pci", "net"};
constexpr std::array<std::string_view, 4> kNcclGenerations{"volta", "ampere", "hopper", "blackwell"};

/// Exactly `count` numbers, or zeros and a noted problem.
std::vector<double> exactly(Fields& fields, std::string_view key, std::size_t count) {
  std::vector<double> out = fields.numbers(std::string(key));
  if (out.size() != count) fields.report(std::string(key), "needs " + std::to_string(count) + " numbers");
  out.resize(count);
  return out;
}

/// The file's columns are LL, LL128, Simple.
std::array<NcclTable::PerProtocol<Seconds>, kNumAlgorithms> read_latencies(Fields rows) {
  std::array<NcclTable::PerProtocol<Seconds>, kNumAlgorithms> out;
  for (std::size_t a = 0; a < kNumAlgorithms; ++a) {
    const auto us = exactly(rows, kAlgorithms[a], kNumProtocols);
    out[a] = {Seconds{us[2] * 1e-6}, Seconds{us[1] * 1e-6}, Seconds{us[0] * 1e-6}};
  }
  return out;
}

NcclTable::PerNodes read_rates(Fields rows, std::string_view generation) {
  const auto gb_s = exactly(rows, generation, 3);
  return {BytesPerSec{gb_s[0] * 1e9}, BytesPerSec{gb_s[1] * 1e9}, BytesPerSec{gb_s[2] * 1e9}};
}

NcclTable::Caps read_caps(Fields& tuning, std::size_t generation) {
  const std::string_view name = kNcclGenerations[generation];
  NcclTable::Caps caps;
  caps.ll = read_rates(tuning.fields("ll_max_bw_gb_s"), name);
  caps.ring_ll128_channel = read_rates(tuning.fields("per_channel_max_ring_ll128_gb_s"), name);
  caps.tree_ll128_channel = read_rates(tuning.fields("per_channel_max_tree_ll128_gb_s"), name);
  caps.tree_channel = read_rates(tuning.fields("per_channel_max_tree_gb_s"), name);
  constexpr std::array grids{"default_intra", "default_intra", "sm90_intra", "sm100_intra"};
  Fields grid = tuning.fields("channel_speed_grid_gb_s");
  for (const double gb_s : grid.numbers(grids[generation])) caps.channel_rates.push_back(BytesPerSec{gb_s * 1e9});
  if (caps.channel_rates.empty()) grid.report(grids[generation], "is missing");
  return caps;
}

void read_tree_correction(Fields rows, NcclTable& table) {
  constexpr std::array keys{"simple", "ll128", "ll"};
  for (std::size_t p = 0; p < kNumProtocols; ++p) {
    auto& out = table.tree_correction[p];
    const auto factors = exactly(rows, keys[p], out.size());
    std::copy(factors.begin(), factors.end(), out.begin());
  }
}

NcclTable::Factors read_factors(Fields rows) {
  return {.ll = rows.number("ll"),
          .ll128 = rows.number("ll128"),
          .tree = rows.number("tree"),
          .tree_ll = rows.number("tree_ll"),
          .tree_ll128_one_machine = rows.number("tree_ll128_one_machine"),
          .tree_ll128_machines = rows.number("tree_ll128_machines"),
          .plain_tree = rows.number("plain_tree"),
          .channel_search = rows.number("channel_search")};
}

NcclTable::ChannelDoubling read_doubling(Fields row) {
  return {.least = row.optional_rate("least_gb_s").value_or(BytesPerSec{}),
          .hopper_least = row.optional_rate("hopper_least_gb_s").value_or(BytesPerSec{}),
          .hopper_few_channels = row.integer("hopper_few_channels")};
}

NcclTable read_table() {
  YamlFile file = YamlFile::read(data_dir() / "nccl.yaml");
  Fields tuning = file.top().fields("nccl_tuning");
  NcclTable table;
  table.base = read_latencies(tuning.fields("base_latency_us"));
  Fields links = tuning.fields("hw_latency_us");
  for (std::size_t l = 0; l < kLinks.size(); ++l) table.step[l] = read_latencies(links.fields(std::string(kLinks[l])));
  for (std::size_t g = 0; g < kNcclGenerations.size(); ++g) table.caps[g] = read_caps(tuning, g);
  table.factors = read_factors(tuning.fields("bandwidth_factors"));
  table.channel_doubling = read_doubling(tuning.fields("channel_doubling"));
  read_tree_correction(tuning.fields("tree_correction_by_log2_size"), table);
  Fields overhead = tuning.fields("net_overhead_us");
  table.net_overhead = Seconds{overhead.number("intel_x86") * 1e-6};
  table.net_overhead_simple = overhead.number("simple_multiplier");
  table.ring_simple_across = tuning.number("ring_simple_across_machines");
  table.nvls_least_ranks = tuning.integer("nvls_least_ranks", {.least = 2});
  Fields fill = file.top().fields("pipeline_fill");
  table.handshake = fill.number("handshake_share");
  table.fill_saturation = fill.number("saturation");
  table.benchmark_overhead = Seconds{fill.number("benchmark_overhead_us") * 1e-6};
  file.finish();
  return table;
}

}  // namespace

std::string_view to_string(Algorithm algorithm) { return kAlgorithms[std::size_t(algorithm)]; }
std::string_view to_string(Protocol protocol) { return kProtocols[std::size_t(protocol)]; }

std::optional<NcclLink> nccl_link(FabricKind fabric) {
  switch (fabric) {
    case FabricKind::NvSwitch:
    case FabricKind::NvLinkMesh:
    case FabricKind::NvLinkBridge: return NcclLink::NvLink;
    case FabricKind::Pcie:
    case FabricKind::PcieHostStaged: return NcclLink::Pci;
    case FabricKind::None:
    case FabricKind::InfinityFabric:
    case FabricKind::SharedMemory: break;
  }
  return std::nullopt;
}

NcclGeneration nccl_generation(const GpuSpec& gpu) {
  const double capability = std::strtod(gpu.compute_capability.c_str(), nullptr);
  return capability >= 10  ? NcclGeneration::Blackwell
         : capability >= 9 ? NcclGeneration::Hopper
         : capability >= 8 ? NcclGeneration::Ampere
                           : NcclGeneration::Volta;
}

const NcclTable& nccl_table() { return read_once<read_table>(); }

}  // namespace gpuplan

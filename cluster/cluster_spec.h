// Where a plan runs: GPUs with their real memory, and the links between them as the planner's cost model needs them.
// The graph of single links (PCIe switches, NICs) is cluster/topology.h; this is the summary per level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/name_table.h"
#include "base/units.h"
#include "cluster/gpu_spec.h"
#include "cluster/node_layout.h"
#include "cluster/rank_gpus.h"

namespace gpuplan {

/// A price of one GPU for one hour.
struct GpuPrice {
  std::string provider, kind, source;
  double usd_per_gpu_hour{};
  bool is_approximate{};
  std::string vendor;  // the provider without its machine or tier: "aws"; empty: a range of many
  std::string date;    // of the source: "2026-05-22", "undated"
};

enum class FabricKind : std::uint8_t {
  None,
  NvSwitch,
  NvLinkMesh,
  NvLinkBridge,
  Pcie,
  PcieHostStaged,
  InfinityFabric,
  SharedMemory
};

/// Alpha-beta cost of one step of a ring collective over a level of the machine, as measured or, where nothing was, as
/// the share of the physical rate that the profile states: PCIe and network efficiencies are in it already.
struct LinkCost {
  Seconds latency;                   // alpha: per ring step
  BytesPerSec bandwidth;             // bus bandwidth, as nccl-tests defines busbw, of all-gather and reduce-scatter
  BytesPerSec all_reduce_bandwidth;  // larger where NVLS reduces in the switch
  std::string source;
  bool operator==(const LinkCost&) const = default;
};

/// The host of one machine, as far as it is known; 0: not known. Rates are of all sockets together.
struct HostSpec {
  std::string kind;              // of data/hosts.yaml, "server"; empty: stated by a file or by flags
  Bytes usual_memory;            // of machines of this kind
  BytesPerSec memory_bandwidth;  // datasheet, of all channels
  std::int64_t cores = 0, sockets = 0, numa_nodes = 0;
  std::string source;
  bool is_stated() const { return *this != HostSpec{}; }
  bool operator==(const HostSpec&) const = default;
};

/// A machine or several alike. Ranks are numbered node by node.
struct ClusterSpec {
  std::string name;  // as the user typed it, or the preset's name
  RankGpus gpus;     // size() == num_gpus()
  std::int64_t gpus_per_node = 1;
  FabricKind fabric = FabricKind::None;
  std::string fabric_text;  // "PCIe 4.0 x16, peer-to-peer", for people
  LinkCost intra;           // between GPUs of a node
  LinkCost inter;           // between nodes, per GPU share of the node's NICs
  BytesPerSec host_link;    // host <-> device, one direction, per GPU
  Bytes host_memory;        // per node; 0: not known
  std::optional<double> price_per_gpu_hour;
  std::string price_source;              // "runpod community, 2026-03-10 …"
  std::vector<std::string> assumptions;  // what was filled in: "A100 means a100-sxm-80gb"
  std::string file;                      // cluster file or preset id, empty for a GPU list
  std::vector<Bytes> memory_in_use;      // per rank, only for `local`
  std::int64_t host_cores = 0;           // of `Nxcpu`: the ranks share them; 0 on GPUs
  NodeLayout layout;                     // as far as it was stated
  HostSpec host;

  std::int64_t num_gpus() const { return std::int64_t(gpus.size()); }
  /// Ranks that share one machine when `num_ranks` fill one after the other.
  std::int64_t ranks_per_node(std::int64_t num_ranks) const { return std::min(num_ranks, gpus_per_node); }
  std::int64_t num_nodes() const { return ceil_div(num_gpus(), gpus_per_node); }
  bool is_mixed() const {
    return std::any_of(gpus.kinds().begin(), gpus.kinds().end(),
                       [&](const GpuSpec& gpu) { return gpu.id != gpus.front().id; });
  }
  bool operator==(const ClusterSpec&) const = default;
};

/// Turns that CPU ranks take on cores which they share: ranks per core, at least 1.
inline double oversubscription(std::int64_t num_ranks, std::int64_t host_cores) {
  return std::max(1.0, double(num_ranks) / double(host_cores));
}

/// Reads `--gpus`: "4xA6000", "2x4090,2x3090", "A100", "8xcpu", "local". `gpu_specs` (--gpu-spec)
/// describes cards of the list. Throws InputError saying how to describe an unknown one, EnvError when `local` finds no
/// driver.
ClusterSpec parse_gpus(const std::string& text, const std::string& gpu_specs = {});

/// The GPUs of this machine, or why there are none that can be planned for.
std::variant<ClusterSpec, std::string> find_local_gpus();

/// Reads `--cluster`: the id of a machine in data/clusters, a YAML file, the text of `nvidia-smi topo -m` or NCCL's
/// topology dump, cut to or repeated to `num_gpus` when given. `gpu` (--gpu) names the GPU where the file does not.
ClusterSpec load_cluster(const std::string& preset_or_file, std::optional<std::int64_t> num_gpus,
                         const std::optional<std::string>& gpu = {});

/// The same machines with another number of GPUs. Throws InputError for mixed ones, and where a machine has no network.
ClusterSpec resized(const ClusterSpec& cluster, std::int64_t num_gpus);

/// NVLink between GPUs: through a switch, from each to each, or bridges between pairs.
bool is_nvlink(FabricKind fabric);
/// GPUs on a board of their own, linked by something other than PCIe.
bool is_board(FabricKind fabric);

NameTable<FabricKind> names_of(FabricKind);  // "nvswitch", "pcie-host-staged", …

/// "PCIe 4.0 x16, peer-to-peer": the fabric of a machine with such GPUs.
std::string describe_fabric(FabricKind fabric, const GpuSpec& gpu);

}  // namespace gpuplan

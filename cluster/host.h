// The host of a machine: memory, channels, cores and NUMA nodes, where nobody states them those of a usual one
// (data/hosts.yaml); and how fast it steps an optimizer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_spec.h"

namespace gpuplan {

class Fields;

/// A row of data/hosts.yaml.
struct HostKind {
  HostSpec host;
  std::int64_t most_cards = 0;     // in one such machine; 0: any number, and boards
  Bytes usual_per_gpu;             // of a rented part; 0: the whole in any case
  std::vector<std::string> cards;  // ids that are in such machines alone
};

/// The content of data/hosts.yaml.
struct HostTable {
  std::vector<HostKind> kinds;
  double share_of_memory{};  // of a NUMA node's bandwidth, that a vectorised optimizer reaches
  BytesPerSec unbound;       // all ranks of a machine with several NUMA nodes reach no more together
  BytesPerSec vectorised_per_thread;
  static const HostTable& shipped();
  static HostTable read();
};

/// The host that data/hosts.yaml calls `kind`, of a machine with so many GPUs; nullopt: no row has that name.
std::optional<HostSpec> find_host(std::string_view kind, std::int64_t gpus_per_node);

/// The usual host of a machine with such GPUs.
HostSpec usual_host(FabricKind fabric, std::string_view gpu_id, std::int64_t gpus_per_node);

/// `--host`: a kind of data/hosts.yaml, or a YAML file with the keys of a cluster file's `host`. Throws InputError.
void set_host(ClusterSpec& cluster, const std::string& kind_or_file);

/// Reads what a file says of its host beside its memory: cpu, cores, channels, NUMA nodes.
HostSpec read_host_spec(Fields& host);

/// `stated` with what it leaves open taken from `usual`, all of it where nothing but the kind is stated.
HostSpec filled(HostSpec stated, const HostSpec& usual);

/// Bytes per second of one rank's vectorised optimizer of `num_ranks` in a machine, each on `threads` threads; 0 where
/// nothing is known of the host's memory.
BytesPerSec vectorised_optimizer_rate(const HostSpec& host, std::int64_t num_ranks, std::int64_t threads);

/// "a server with 16 channels …, 128 cores".
std::string describe(const HostSpec& host);

}  // namespace gpuplan

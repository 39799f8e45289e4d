// What a ring over the links of a machine, between machines, and between host and device reaches. Measured figures
// stand in the file of the GPU; otherwise a share of the physical rate, from data/links.yaml and the profile.
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_file.h"
#include "cluster/nccl_table.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

/// PCIe slots as a machine has them; a GPU uses what both sides can.
struct PcieSlot {
  std::int64_t generation{}, lanes{};
};

/// Host memory that GPUs share which cannot reach each other. Zero bandwidth: the usual host of the slot's generation.
struct HostShape {
  std::int64_t sockets = 1;
  BytesPerSec memory_bandwidth;  // of one socket, datasheet
};

/// data/links.yaml.
class LinkTable {
 public:
  /// Read once. Throws InputError listing every problem.
  static const LinkTable& shipped();

  /// Ring cost over `fabric` between `num_gpus` GPUs like `gpu` in such slots.
  LinkCost ring(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus, PcieSlot slot, const Profile& profile,
                HostShape host = {}) const;
  /// Ring cost between machines, for a GPU whose share of the adapters is `nic_per_gpu`.
  LinkCost network(BytesPerSec nic_per_gpu, const Profile& profile) const;
  /// Rate that copies between host and device reach, one direction.
  BytesPerSec host_link(PcieSlot slot) const;
  /// Rate that one GPU in such a slot reaches through host memory when it has it for itself.
  BytesPerSec staging_rate(PcieSlot slot, const Profile& profile) const;
  /// Rate that all GPUs of one socket reach together through its memory: bytes that are written and read.
  BytesPerSec staging_capacity(PcieSlot slot, BytesPerSec memory_bandwidth) const;
  BytesPerSec memory_bandwidth(PcieSlot slot) const;  // of a usual socket
  BytesPerSec socket_link(PcieSlot slot) const;
  /// One NVLink of such a GPU, one direction, raw; 0: not known.
  BytesPerSec nvlink(const std::string& compute_capability) const;

 private:
  static LinkTable read();

  struct Share {
    FabricKind fabric = FabricKind::None;
    Seconds latency;
    double share = 1;
    std::string profile_share;  // the share is this number of the profile, times `share`
    std::string source, latency_source;
    BytesPerSec bus;  // instead of a share
  };
  struct PcieRate {
    std::int64_t generation{}, lanes{};
    BytesPerSec raw, effective;
  };

  static Share read_share(Fields& fields, std::optional<NcclLink> link);
  struct Host {
    std::int64_t generation{};
    BytesPerSec memory, socket_link;
  };
  struct NvLink {
    std::vector<std::string> capabilities;
    BytesPerSec rate;
  };

  void read_hosts(Fields& top);
  void read_links(Fields& top);
  const Host& host_of(PcieSlot slot) const;
  double share_number(const Share& row, const Profile& profile) const;
  const Share& share_of(FabricKind fabric) const;
  const PcieRate& pcie_rate(PcieSlot slot) const;
  BytesPerSec physical_rate(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus, PcieSlot slot) const;

  std::vector<Share> shares_;
  Share network_;
  std::vector<PcieRate> pcie_;
  std::vector<Host> hosts_;
  std::vector<NvLink> nvlinks_;
  double staging_share_ = 1;
};

/// Link cost that training reaches: figures of NVLink are plain nccl-tests rings, copies have a share of the effective
/// PCIe rate.
LinkCost reached_inside(const ClusterSpec& cluster, const Profile& profile);
BytesPerSec reached_host_link(const ClusterSpec& cluster, const Profile& profile);

/// The slower of two at every number: what a ring through both reaches.
LinkCost slower(const LinkCost& a, const LinkCost& b);

}  // namespace gpuplan

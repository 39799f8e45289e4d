#include "cluster/links.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {
namespace {

/// A figure measured in full slots says nothing about narrower ones.
bool is_full_slot(const GpuSpec& gpu, FabricKind fabric, PcieSlot slot) {
  if (fabric != FabricKind::Pcie && fabric != FabricKind::PcieHostStaged) return true;
  return slot.generation >= gpu.pcie_generation && slot.lanes >= gpu.pcie_lanes;
}

double profile_number(const Profile& profile, const std::string& name) {
  for (const auto& [key, value] : profile.values)
    if (key == name) return value.value;
  throw InputError("data/links.yaml", fmt::format("the profile has no value '{}'", name));
}

}  // namespace

LinkTable::Share LinkTable::read_share(Fields& fields, std::optional<NcclLink> link) {
  Share row;
  if (link)
    row.latency = nccl_table().step_latency(*link, Algorithm::Ring, Protocol::Simple) +
                  fields.optional_time("latency_beyond_nccl_us").value_or(Seconds{});
  else
    row.latency = Seconds{fields.number("latency_us") * 1e-6};
  row.share = fields.optional_number("share_of_link").value_or(1);
  row.profile_share = fields.optional_text("profile_share").value_or("");
  row.bus = fields.optional_rate("busbw_gb_s").value_or(BytesPerSec{});
  row.source = fields.text("source");
  row.latency_source = fields.text("latency_source");
  fields.allow({"kind"});
  return row;
}

void LinkTable::read_hosts(Fields& top) {
  Fields staging = top.fields("staging");
  staging_share_ = staging.number("share_of_memory", {.least = 1e-3, .most = 1});
  staging.allow({"kind", "source"});
  staging.refuse_unknown();
  for (Fields& fields : top.list("hosts")) {
    hosts_.push_back({fields.integer("pcie_generation"), BytesPerSec{fields.number("memory_gb_s") * 1e9},
                      BytesPerSec{fields.number("socket_link_gb_s") * 1e9}});
    fields.allow({"kind", "source"});
    fields.refuse_unknown();
  }
  if (hosts_.empty()) top.report("hosts", "is missing");
}

void LinkTable::read_links(Fields& top) {
  Fields links = top.fields("links");
  for (Fields& fields : links.list("pcie")) {
    PcieRate row{.generation = fields.integer("generation"), .lanes = fields.integer("lanes", {.least = 1})};
    row.raw = BytesPerSec{fields.number("raw_gb_s") * 1e9};
    const auto effective = fields.numbers("effective_gb_s");  // a pair: lowest and highest report
    row.effective = effective.empty() ? row.raw * (pcie_.empty() ? 1 : pcie_.back().effective / pcie_.back().raw)
                                      : BytesPerSec{*std::min_element(effective.begin(), effective.end()) * 1e9};
    pcie_.push_back(row);
  }
  if (pcie_.empty()) links.report("pcie", "is missing");
  for (Fields& fields : links.list("nvlink"))
    nvlinks_.push_back(
        {fields.texts("compute_capability"), BytesPerSec{fields.number("per_link_per_direction_gb_s") * 1e9}});
}

const LinkTable& LinkTable::shipped() { return read_once<&LinkTable::read>(); }

LinkTable LinkTable::read() {
  YamlFile file = YamlFile::read(data_dir() / "links.yaml");
  LinkTable table;
  for (Fields& fields : file.top().list("fabrics")) {
    FabricKind fabric = FabricKind::None;
    fields("fabric", fabric);
    Share row = read_share(fields, nccl_link(fabric));
    row.fabric = fabric;
    fields.refuse_unknown();
    table.shares_.push_back(std::move(row));
  }
  Fields network = file.top().fields("network");
  table.network_ = read_share(network, NcclLink::Net);
  network.refuse_unknown();
  table.read_hosts(file.top());
  table.read_links(file.top());
  file.finish();
  return table;
}

const LinkTable::Share& LinkTable::share_of(FabricKind fabric) const {
  for (const Share& row : shares_)
    if (row.fabric == fabric) return row;
  throw InputError("data/links.yaml", fmt::format("fabrics: has no row for '{}'", to_string(fabric)));
}

const LinkTable::PcieRate& LinkTable::pcie_rate(PcieSlot slot) const {
  for (const PcieRate& row : pcie_)
    if (row.generation >= slot.generation) return row;
  return pcie_.back();
}

BytesPerSec LinkTable::host_link(PcieSlot slot) const {
  const PcieRate& rate = pcie_rate(slot);
  return rate.effective * (double(slot.lanes) / double(rate.lanes));
}

const LinkTable::Host& LinkTable::host_of(PcieSlot slot) const {
  for (const Host& row : hosts_)
    if (row.generation >= slot.generation) return row;
  return hosts_.back();
}

BytesPerSec LinkTable::memory_bandwidth(PcieSlot slot) const { return host_of(slot).memory; }
BytesPerSec LinkTable::socket_link(PcieSlot slot) const { return host_of(slot).socket_link; }

BytesPerSec LinkTable::staging_capacity(PcieSlot slot, BytesPerSec memory_bandwidth) const {
  const BytesPerSec memory = memory_bandwidth.value > 0 ? memory_bandwidth : host_of(slot).memory;
  return memory * (staging_share_ / 2);
}

BytesPerSec LinkTable::staging_rate(PcieSlot slot, const Profile& profile) const {
  const PcieRate& rate = pcie_rate(slot);
  return rate.raw * (double(slot.lanes) / double(rate.lanes)) *
         share_number(share_of(FabricKind::PcieHostStaged), profile);
}

BytesPerSec LinkTable::nvlink(const std::string& compute_capability) const {
  for (const NvLink& row : nvlinks_)
    for (const std::string& capability : row.capabilities)
      if (capability == compute_capability) return row.rate;
  return {};
}

double LinkTable::share_number(const Share& row, const Profile& profile) const {
  return row.share * (row.profile_share.empty() ? 1 : profile_number(profile, row.profile_share));
}

BytesPerSec LinkTable::physical_rate(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus,
                                     PcieSlot slot) const {
  switch (fabric) {
    case FabricKind::NvSwitch:
    case FabricKind::NvLinkMesh:
    case FabricKind::NvLinkBridge: return gpu.spec.nvlink_per_direction;
    case FabricKind::InfinityFabric: return gpu.xgmi_per_pair * double(num_gpus - 1);  // a link to every other GPU
    case FabricKind::None:
    case FabricKind::SharedMemory: return {};
    case FabricKind::Pcie:
    case FabricKind::PcieHostStaged: break;
  }
  const PcieRate& rate = pcie_rate(slot);
  return rate.raw * (double(slot.lanes) / double(rate.lanes));
}

LinkCost LinkTable::ring(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus, PcieSlot slot,
                         const Profile& profile, HostShape host) const {
  const Share& row = share_of(fabric);
  const RingFigure* measured = is_full_slot(gpu.spec, fabric, slot) ? find_ring(gpu, fabric, num_gpus) : nullptr;
  const auto cost = [&](BytesPerSec bus, BytesPerSec all_reduce, const std::string& source) {
    return LinkCost{row.latency, bus, all_reduce, fmt::format("{}; latency: {}", source, row.latency_source)};
  };
  if (measured) return cost(measured->bus, measured->all_reduce_bus, measured->source);
  if (row.bus.value > 0) return cost(row.bus, row.bus, row.source);
  const double share = share_number(row, profile);
  const BytesPerSec physical = physical_rate(gpu, fabric, num_gpus, slot), bus = physical * share;
  // Staging: a ring over all n GPUs sends n messages at once, those of a socket through its memory.
  const double per_socket = double(ceil_div(num_gpus, std::max<std::int64_t>(1, host.sockets)));
  const BytesPerSec staged = staging_capacity(slot, host.memory_bandwidth) / per_socket;
  if (fabric == FabricKind::PcieHostStaged && staged < bus)
    return cost(
        staged, staged,
        fmt::format("{:.4g} GB/s through the memory of a socket, shared by {:g} GPUs (staging, data/links.yaml)",
                    staged.value * per_socket / 1e9, per_socket));
  return cost(bus, bus,
              fmt::format("{:.3g} of {:.4g} GB/s, nothing measured with this GPU: {}", share, physical.value / 1e9,
                          row.source));
}

LinkCost LinkTable::network(BytesPerSec nic_per_gpu, const Profile& profile) const {
  const double share = network_.share * profile_number(profile, network_.profile_share);
  const BytesPerSec bus = nic_per_gpu * share;
  return {network_.latency, bus, bus,
          fmt::format("{:.3g} of {:.4g} GB/s of adapters per GPU: {}; latency: {}", share, nic_per_gpu.value / 1e9,
                      network_.source, network_.latency_source)};
}

LinkCost slower(const LinkCost& a, const LinkCost& b) {
  return {std::max(a.latency, b.latency), std::min(a.bandwidth, b.bandwidth),
          std::min(a.all_reduce_bandwidth, b.all_reduce_bandwidth), a.bandwidth <= b.bandwidth ? a.source : b.source};
}

LinkCost reached_inside(const ClusterSpec& cluster, const Profile& profile) {
  LinkCost link = cluster.intra;
  if (!is_nvlink(cluster.fabric)) return link;
  link.bandwidth = link.bandwidth * profile.nvlink_efficiency;
  link.all_reduce_bandwidth = link.all_reduce_bandwidth * profile.nvlink_efficiency;
  return link;
}

BytesPerSec reached_host_link(const ClusterSpec& cluster, const Profile& profile) {
  return cluster.host_link * profile.host_link_efficiency;
}

}  // namespace gpuplan

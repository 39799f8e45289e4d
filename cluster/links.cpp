#include "cluster/links.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "cluster/fabric.h"

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

LinkTable::Share LinkTable::read_share(YamlFields& fields, std::optional<NcclLink> link) {
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

LinkTable LinkTable::read() {
  YamlFile file = YamlFile::read(data_dir() / "links.yaml");
  LinkTable table;
  for (YamlFields& fields : file.top().list("fabrics")) {
    const auto fabric = find_fabric(fields.text("fabric"));
    if (!fabric) fields.report("fabric", "is not a known fabric");
    Share row = read_share(fields, nccl_link(fabric.value_or(FabricKind::None)));
    row.fabric = fabric.value_or(FabricKind::None);
    fields.refuse_unknown();
    table.shares_.push_back(std::move(row));
  }
  YamlFields network = file.top().fields("network");
  table.network_ = read_share(network, NcclLink::Net);
  network.refuse_unknown();
  YamlFields links = file.top().fields("links");
  for (YamlFields& fields : links.list("pcie")) {
    PcieRate row{.generation = fields.integer("generation"), .lanes = fields.integer("lanes", {.least = 1})};
    row.raw = BytesPerSec{fields.number("raw_gb_s") * 1e9};
    const auto effective = fields.numbers("effective_gb_s");  // a pair: lowest and highest report
    row.effective = effective.empty()
                        ? row.raw * (table.pcie_.empty() ? 1 : table.pcie_.back().effective / table.pcie_.back().raw)
                        : BytesPerSec{*std::min_element(effective.begin(), effective.end()) * 1e9};
    table.pcie_.push_back(row);
  }
  if (table.pcie_.empty()) links.report("pcie", "is missing");
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
                         const Profile& profile) const {
  const Share& row = share_of(fabric);
  const RingFigure* measured = is_full_slot(gpu.spec, fabric, slot) ? find_ring(gpu, fabric, num_gpus) : nullptr;
  const auto cost = [&](BytesPerSec bus, BytesPerSec all_reduce, const std::string& source) {
    return LinkCost{row.latency, bus, all_reduce, fmt::format("{}; latency: {}", source, row.latency_source)};
  };
  if (measured) return cost(measured->bus, measured->all_reduce_bus, measured->source);
  if (row.bus.value > 0) return cost(row.bus, row.bus, row.source);
  const double share = row.share * (row.profile_share.empty() ? 1 : profile_number(profile, row.profile_share));
  const BytesPerSec physical = physical_rate(gpu, fabric, num_gpus, slot), bus = physical * share;
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

}  // namespace gpuplan

#include "planner/machine_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/cluster_spec.h"
#include "cluster/links.h"
#include "cluster/machine.h"
#include "cluster/machine_builder.h"

namespace gpuplan {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12, kMicro = 1e-6;

/// The graph of the machine is then built anew from the fabric.
void forget_layout(ClusterSpec& c) { c.layout = {}; }

/// Changes the measurements on a copy: other profiles may share them.
template <class Clear>
void forget(Profile& p, Clear clear) {
  if (!p.measured) return;
  auto kept = std::make_shared<Measured>(*p.measured);
  clear(*kept);
  p.measured = std::move(kept);
}
void forget_collectives(Profile& p) {
  forget(p, [](Measured& m) { m.collectives.clear(); });
}
template <class T>
void forget_rates(Profile& p, std::vector<T> MeasurementsAtRanks::*part) {
  forget(p, [&](Measured& m) {
    for (MeasurementsAtRanks& load : m.loads) (load.*part).clear();
  });
}

/// Computes the ring of a machine anew, as if nothing had been measured on it.
void relink(ClusterSpec& c, const Profile& profile, FabricKind fabric) {
  if (c.gpus_per_node <= 1 || c.num_gpus() <= 1) return;
  const GpuSpec& gpu = c.gpus.front();
  c.fabric = fabric;
  c.fabric_text = describe_fabric(fabric, gpu);
  c.intra = LinkTable::shipped().ring({.spec = gpu}, fabric, c.ranks_per_node(c.num_gpus()),
                                      {gpu.pcie_generation, gpu.pcie_lanes}, profile);
  forget_layout(c);
}

/// Vendors count both directions: 900 GB/s of an H100 are 450 each way.
void set_nvlink(ClusterSpec& c, Profile& profile, double gb_s) {
  forget_collectives(profile);
  const BytesPerSec rate{gb_s / 2 * kGiga};
  const BytesPerSec before = c.gpus.front().nvlink_per_direction;
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.nvlink_per_direction = rate; });
  if (!is_nvlink(c.fabric) || before.value <= 0) return relink(c, profile, FabricKind::NvSwitch);
  c.intra.bandwidth = c.intra.bandwidth * (rate / before);  // what was measured of this NVLink scales
  c.intra.all_reduce_bandwidth = c.intra.all_reduce_bandwidth * (rate / before);
  c.fabric_text = describe_fabric(c.fabric, c.gpus.front());
  forget_layout(c);
}

void set_pcie(ClusterSpec& c, Profile& profile, double generation) {
  forget_collectives(profile);
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.pcie_generation = std::int64_t(generation); });
  c.host_link = LinkTable::shipped().host_link({c.gpus.front().pcie_generation, c.gpus.front().pcie_lanes});
  if (!is_nvlink(c.fabric)) relink(c, profile, c.fabric);
}

void set_pcie_lanes(ClusterSpec& c, Profile& profile, double lanes) {
  forget_collectives(profile);
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.pcie_lanes = std::int64_t(lanes); });
  c.host_link = LinkTable::shipped().host_link({c.gpus.front().pcie_generation, c.gpus.front().pcie_lanes});
  if (!is_nvlink(c.fabric)) relink(c, profile, c.fabric);
}

/// Without it, NCCL leaves NVLink alone, too (NCCL_P2P_DISABLE). Source: NCCL 2.27 user guide, environment variables.
void set_peer_to_peer(ClusterSpec& c, Profile& profile, double on) {
  forget_collectives(profile);
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.has_p2p_over_pcie = on != 0; });
  if (on == 0) return relink(c, profile, FabricKind::PcieHostStaged);
  if (!is_nvlink(c.fabric)) relink(c, profile, FabricKind::Pcie);
}

void set_bus_bandwidth(ClusterSpec& c, Profile& profile, double gb_s) {
  forget_collectives(profile);
  c.intra.bandwidth = c.intra.all_reduce_bandwidth = BytesPerSec{gb_s * kGiga};
  c.intra.source = "--what-if";
  forget_layout(c);
}

std::string one_machine(const ClusterSpec& c) { return c.num_nodes() <= 1 ? "nic changes nothing on one machine" : ""; }

/// The adapters stay where they are while each can carry its part over its PCIe slot; beyond that every GPU has one.
void set_network(ClusterSpec& c, Profile& profile, double gbit_s) {
  if (const std::string why = one_machine(c); !why.empty())
    throw InputError("--what-if", why, "the levers of a machine are nvlink, pcie, p2p, busbw");
  std::vector<std::string> assumptions;
  const std::vector<bool> used = used_adapters(complete_layout(c, assumptions));
  c.inter = LinkTable::shipped().network(BytesPerSec{gbit_s * kGiga / 8}, profile);
  const auto gpus = c.gpus_per_node, adapters = std::int64_t(std::count(used.begin(), used.end(), true));
  const bool is_too_much = c.inter.bandwidth * double(gpus) > c.host_link * double(adapters);
  if (is_too_much && adapters < gpus)
    c.layout.nics.assign(std::size_t(gpus), {-1, -1, {}, {}});
  else if (c.layout.nics.empty())
    c.layout.nics.assign(used.size(), {-1, -1, {}, {}});
}

void set_ring_latency(ClusterSpec& c, Profile& profile, double microseconds) {
  forget_collectives(profile);
  c.intra.latency = Seconds{microseconds * kMicro};
}

void set_gemm_rate(ClusterSpec& c, Profile& profile, double tflop_s) {
  forget_rates(profile, &MeasurementsAtRanks::gemm);
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.gemm_bf16 = gpu.gemm_fp16 = FlopsPerSec{tflop_s * kTera}; });
}

/// Products and attention go with the clock of the multiprocessors; memory has a clock of its own.
void set_clock(ClusterSpec& c, Profile& profile, double share) {
  forget_rates(profile, &MeasurementsAtRanks::gemm);
  c.gpus.change_each([&](GpuSpec& gpu) {
    const auto slowed = [&](FlopsPerSec best, FlopsPerSec datasheet) {
      return share * (best.value > 0 ? best : datasheet * profile.gemm_fallback);
    };
    gpu.gemm_bf16 = slowed(gpu.gemm_bf16, gpu.bf16);
    gpu.gemm_fp16 = slowed(gpu.gemm_fp16, gpu.fp16);
    gpu.gemm_fp32 = slowed(gpu.gemm_fp32, gpu.fp32);
  });
}

void set_memory_bandwidth(ClusterSpec& c, Profile& profile, double gb_s) {
  forget_rates(profile, &MeasurementsAtRanks::kernels);
  c.gpus.change_each([&](GpuSpec& gpu) { gpu.memory_bandwidth = BytesPerSec{gb_s * kGiga}; });
}

void set_dispatch(ClusterSpec&, Profile& profile, double microseconds) {
  profile.dispatch_eager = profile.dispatch_compiled = Seconds{microseconds * kMicro};
}

void set_overlap(ClusterSpec&, Profile& profile, double share) { profile.overlap_slowdown = share; }

void set_host_optimizer(ClusterSpec& c, Profile& profile, double gb_s) {
  c.host.memory_bandwidth = {};  // from which the rate would be derived
  profile.cpu_optimizer_bandwidth = profile.torch_cpu_optimizer_bandwidth = BytesPerSec{gb_s * kGiga};
}

void set_host_link(ClusterSpec& c, Profile& profile, double gb_s) {
  c.host_link = BytesPerSec{gb_s * kGiga};
  profile.host_link_efficiency = 1;
}

constexpr std::array kMachineRows{
    MachineChange{"nvlink", "GB/s", "NVLink ({} GB/s)", set_nvlink, nullptr, true},
    MachineChange{"pcie", "3..6", "PCIe {}.0 cards and slots", set_pcie, nullptr, true},
    MachineChange{"pcie-lanes", "1..16", "{} PCIe lanes per GPU", set_pcie_lanes, nullptr, true},
    MachineChange{"p2p", "0|1", "peer-to-peer between GPUs {}", set_peer_to_peer, nullptr, true},
    MachineChange{"busbw", "GB/s", "rings of {} GB/s inside a machine", set_bus_bandwidth},
    MachineChange{"nic", "Gbit/s per GPU", "{} Gbit/s of network per GPU", set_network, one_machine, true},
    MachineChange{"gemm", "TFLOP/s", "{} TFLOP/s in 16-bit products", set_gemm_rate},
    MachineChange{"clock", "share", "multiprocessors at {} of their clock", set_clock},
    MachineChange{"memory", "GB/s", "{} GB/s of memory bandwidth", set_memory_bandwidth},
    MachineChange{"dispatch", "us", "{} us of host time per kernel", set_dispatch},
    MachineChange{"overlap", "share", "compute slowed by {} beside collectives", set_overlap},
    MachineChange{"host-link", "GB/s", "{} GB/s between host and device", set_host_link},
    MachineChange{"cpu-adam", "GB/s", "optimizer steps at {} GB/s on the host", set_host_optimizer},
    MachineChange{"latency", "us", "{} us per ring step inside a machine", set_ring_latency}};

}  // namespace

std::span<const MachineChange> machine_changes() { return kMachineRows; }

double machine_value(const MachineChange& change, std::string_view text) {
  constexpr const char* kWhere = "--what-if";
  const double value = as_number(text).value_or(-1);  // which is refused below, with the unit
  const bool may_be_zero = change.unit == "us" || change.unit == "share" || change.unit == "0|1";
  if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero))
    throw InputError(kWhere,
                     fmt::format("{}: '{}' is not a {}number", change.name, text, may_be_zero ? "" : "positive "),
                     fmt::format("the unit is {}", change.unit));
  if (value > 1e9 || (value != 0 && value < 1e-3))
    throw InputError(kWhere, fmt::format("{}: '{}' is out of range", change.name, text),
                     fmt::format("0.001 to 1e9 {}", change.unit));
  if (change.name == "pcie" && (value < 3 || value > 6 || value != std::floor(value)))
    throw InputError(kWhere, fmt::format("pcie: '{}' is no generation", text), "3, 4, 5 or 6");
  if (change.name == "pcie-lanes" && (value < 1 || value > 16 || value != std::floor(value)))
    throw InputError(kWhere, fmt::format("pcie-lanes: '{}' is no number of lanes", text), "1 to 16");
  if (change.name == "clock" && (value <= 0 || value > 2))
    throw InputError(kWhere, fmt::format("clock: '{}' is out of range", text), "a share, for example 0.8");
  return value;
}

}  // namespace gpuplan

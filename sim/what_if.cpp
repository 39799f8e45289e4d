#include "sim/what_if.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/fabric.h"
#include "cluster/links.h"

namespace gpuplan {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12, kMicro = 1e-6;

/// The graph is then drawn anew from the fabric.
void forget_layout(ClusterSpec& c) { c.layout = {}; }

/// What `calibrate` measured of a part that is now another one: the catalogue's figures and the change decide again.
template <class Clear>
void forget(Profile& p, Clear clear) {
  if (!p.measured) return;
  auto changed = std::make_shared<Measured>(*p.measured);
  clear(*changed);
  p.measured = std::move(changed);
}
void forget_curves(Profile& p) {
  forget(p, [](Measured& m) { m.collectives.clear(); });
}
template <class T>
void forget_rates(Profile& p, std::vector<T> MeasurementsAtRanks::*part) {
  forget(p, [&](Measured& m) {
    for (MeasurementsAtRanks& load : m.loads) (load.*part).clear();
  });
}

/// Works the ring of a machine out anew, as if nothing had been measured on it.
void relink(ClusterSpec& c, const Profile& profile, FabricKind fabric) {
  if (c.gpus_per_node <= 1 || c.num_gpus() <= 1) return;
  const GpuSpec& gpu = c.gpus.front();
  c.fabric = fabric;
  c.fabric_text = describe_fabric(fabric, gpu);
  c.intra = LinkTable::read().ring({.spec = gpu}, fabric, c.ranks_per_node(c.num_gpus()),
                                   {gpu.pcie_generation, gpu.pcie_lanes}, profile);
  forget_layout(c);
}

/// Vendors count both directions: 900 GB/s of an H100 are 450 each way. Where NVLink is there already, what was
/// measured scales.
void set_nvlink(ClusterSpec& c, Profile& profile, double gb_s) {
  forget_curves(profile);
  const BytesPerSec rate{gb_s / 2 * kGiga};
  const BytesPerSec before = c.gpus.front().nvlink_per_direction;
  for (GpuSpec& gpu : c.gpus) gpu.nvlink_per_direction = rate;
  if (!is_nvlink(c.fabric) || before.value <= 0) return relink(c, profile, FabricKind::NvSwitch);
  c.intra.bandwidth = c.intra.bandwidth * (rate / before);
  c.intra.all_reduce_bandwidth = c.intra.all_reduce_bandwidth * (rate / before);
  c.fabric_text = describe_fabric(c.fabric, c.gpus.front());
  forget_layout(c);
}

void set_pcie(ClusterSpec& c, Profile& profile, double generation) {
  forget_curves(profile);
  const LinkTable links = LinkTable::read();
  for (GpuSpec& gpu : c.gpus) gpu.pcie_generation = std::int64_t(generation);
  c.host_link = links.host_link({c.gpus.front().pcie_generation, c.gpus.front().pcie_lanes});
  if (!is_nvlink(c.fabric)) relink(c, profile, c.fabric);
}

void set_p2p(ClusterSpec& c, Profile& profile, double on) {
  forget_curves(profile);
  for (GpuSpec& gpu : c.gpus) gpu.has_p2p_over_pcie = on != 0;
  if (!is_nvlink(c.fabric)) relink(c, profile, on != 0 ? FabricKind::Pcie : FabricKind::PcieHostStaged);
}

void set_bus(ClusterSpec& c, Profile& profile, double gb_s) {
  forget_curves(profile);
  c.intra.bandwidth = c.intra.all_reduce_bandwidth = BytesPerSec{gb_s * kGiga};
  c.intra.source = "--what-if";
  forget_layout(c);
}

constexpr std::array kLevers{
    WhatIfLever{"nvlink", "GB/s", "NVLink between all GPUs of a machine, both directions together", set_nvlink},
    WhatIfLever{"pcie", "3..6", "PCIe generation of cards and slots", set_pcie},
    WhatIfLever{"p2p", "0|1", "peer-to-peer over PCIe", set_p2p},
    WhatIfLever{"busbw", "GB/s", "bus bandwidth of rings inside a machine", set_bus},
    WhatIfLever{"nic", "Gbit/s", "network adapter, per GPU",
                [](ClusterSpec& c, Profile& p, double v) {
                  c.inter = LinkTable::read().network(BytesPerSec{v * kGiga / 8}, p);
                  forget_layout(c);
                }},
    WhatIfLever{"latency", "us", "latency of a ring step inside a machine",
                [](ClusterSpec& c, Profile& p, double v) {
                  forget_curves(p);
                  c.intra.latency = Seconds{v * kMicro};
                }},
    WhatIfLever{"gemm", "TFLOP/s", "best 16-bit GEMM of the card",
                [](ClusterSpec& c, Profile& p, double v) {
                  forget_rates(p, &MeasurementsAtRanks::gemm);
                  for (GpuSpec& gpu : c.gpus) gpu.gemm_bf16 = gpu.gemm_fp16 = FlopsPerSec{v * kTera};
                }},
    WhatIfLever{"memory", "GB/s", "memory bandwidth of the card",
                [](ClusterSpec& c, Profile& p, double v) {
                  forget_rates(p, &MeasurementsAtRanks::kernels);
                  for (GpuSpec& gpu : c.gpus) gpu.memory_bandwidth = BytesPerSec{v * kGiga};
                }},
    WhatIfLever{
        "dispatch", "us", "host time per launched kernel",
        [](ClusterSpec&, Profile& p, double v) { p.dispatch_eager = p.dispatch_compiled = Seconds{v * kMicro}; }},
    WhatIfLever{"overlap", "share", "slow-down of compute beside a running collective",
                [](ClusterSpec&, Profile& p, double v) { p.overlap_slowdown = v; }},
    WhatIfLever{"host-link", "GB/s", "copies between host and device, one direction",
                [](ClusterSpec& c, Profile& p, double v) {
                  c.host_link = BytesPerSec{v * kGiga};
                  p.host_link_efficiency = 1;
                }},
    WhatIfLever{"cpu-adam", "GB/s", "memory rate of an optimizer step on the CPU",
                [](ClusterSpec&, Profile& p, double v) {
                  p.cpu_optimizer_bandwidth = p.torch_cpu_optimizer_bandwidth = BytesPerSec{v * kGiga};
                }}};

const WhatIfLever& find_lever(const std::string& name) {
  std::vector<std::string> names;
  for (const WhatIfLever& lever : kLevers) {
    if (name == lever.name) return lever;
    names.emplace_back(lever.name);
  }
  throw InputError("--what-if", fmt::format("unknown lever '{}'", name),
                   did_you_mean(name, names, fmt::format("use one of {}", fmt::join(names, ", "))));
}

double parse_value(const std::string& name, const std::string& text) {
  double value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool may_be_zero = name == "p2p" || name == "overlap" || name == "dispatch" || name == "latency";
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0 ||
      (value == 0 && !may_be_zero))
    throw InputError("--what-if", fmt::format("{}: '{}' is not a {}number", name, text, may_be_zero ? "" : "positive "),
                     fmt::format("the unit is {}", find_lever(name).value));
  if (name == "pcie" && (value < 3 || value > 6 || value != std::floor(value)))
    throw InputError("--what-if", fmt::format("pcie: '{}' is no generation", text), "3, 4, 5 or 6");
  return value;
}

}  // namespace

std::span<const WhatIfLever> what_if_levers() { return kLevers; }

std::vector<WhatIf> parse_what_if(const std::string& text) {
  std::vector<WhatIf> out;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name{trim(std::string_view(part).substr(0, equals))};
    find_lever(name);
    if (equals == std::string::npos)
      throw InputError("--what-if", fmt::format("'{}' has no value", name),
                       fmt::format("for example {}={}", name, "900"));
    out.push_back({name, parse_value(name, std::string(trim(std::string_view(part).substr(equals + 1))))});
  }
  return out;
}

void apply_what_if(const std::vector<WhatIf>& changes, ClusterSpec& cluster, Profile& profile) {
  for (const WhatIf& change : changes) {
    if (change.name == "nic" && cluster.num_nodes() <= 1)
      throw InputError("--what-if", "nic changes nothing on one machine",
                       "the levers of a machine are nvlink, pcie, p2p, busbw");
    find_lever(change.name).apply(cluster, profile, change.value);
  }
}

std::string describe(const WhatIf& change) {
  const std::string_view unit = find_lever(change.name).value;
  const bool is_amount = unit.find('/') != std::string_view::npos || unit == "us";
  return is_amount ? fmt::format("{} {:g} {}", change.name, change.value, unit)
                   : fmt::format("{} {:g}", change.name, change.value);
}

}  // namespace gpuplan

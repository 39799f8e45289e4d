#include "cluster/gpu_spec_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_spelling.h"
#include "cluster/local_cluster.h"

namespace gpuplan {
namespace {

constexpr const char* kSpecFlag = "--gpu-spec";
constexpr std::string_view kSourcePrefix = "--gpu-spec ";
constexpr const char* kSpecForm = "write for example '3060:12GiB,360GB/s,25TFLOPS'";
constexpr const char* kSpecKeys = "keys are link, cc, fp8, fp32, sms, p2p, watts";

/// data/gpu_spec.yaml.
struct GpuDefaults {
  std::string compute_capability;
  std::int64_t pcie_generation{}, pcie_lanes{}, gpus_per_node{};
  std::map<std::string, double> fp32_share, tflops_per_sm;  // by compute capability
  std::int64_t most_sms{};
  Bytes reserved;
  BytesPerSec nic;
};

GpuDefaults read_gpu_defaults() {
  YamlFile file = YamlFile::read(data_dir() / "gpu_spec.yaml");
  Fields& top = file.top();
  GpuDefaults out{.compute_capability = top.text("compute_capability")};
  Fields pcie = top.fields("pcie");
  out.pcie_generation = pcie.integer("generation", {.least = 1});
  out.pcie_lanes = pcie.integer("lanes", {.least = 1});
  pcie.refuse_unknown();
  out.gpus_per_node = top.integer("gpus_per_node", {.least = 1});
  for (const auto& [key, by] :
       {std::pair{"fp32_share", &out.fp32_share}, std::pair{"tflops_per_sm", &out.tflops_per_sm}}) {
    Fields rates = top.fields(key);
    for (const std::string& capability : rates.keys()) (*by)[capability] = rates.number(capability);
  }
  out.most_sms = top.integer("most_sms", {.least = 1});
  out.reserved = top.optional_bytes("reserved_mib").value_or(Bytes{});
  out.nic = BytesPerSec{top.number("nic_gbit_s_per_gpu") * 1e9 / 8};
  top.allow({"kind", "source"});
  top.refuse_unknown();
  file.finish();
  return out;
}

/// The value of a capability, or that of any other.
double of_capability(const std::map<std::string, double>& values, const std::string& capability) {
  const auto known = values.find(capability);
  return known != values.end() ? known->second : values.at("other");
}

/// Content of one part of the text.
struct Description {
  std::string name, text, figures;
  std::optional<Bytes> memory;
  std::optional<BytesPerSec> bandwidth;
  std::optional<FlopsPerSec> rate, fp8, fp32;
  std::optional<std::int64_t> pcie_generation, pcie_lanes, sms, watts;
  std::optional<std::string> capability;
  std::optional<bool> has_p2p;
};

[[noreturn]] void refuse_spec(const std::string& problem, const std::string& hint = kSpecForm) {
  throw InputError(kSpecFlag, problem, hint);
}

template <class Amount>
void set_spec_once(std::optional<Amount>& field, Amount value, const std::string& item, const char* what,
                   const std::string& hint) {
  if (field) refuse_spec(fmt::format("'{}' is a second {}", item, what), hint);
  field = value;
}

/// "25TFLOPS", "1.2 PFLOP/s".
std::optional<FlopsPerSec> parse_flops(const std::string& text) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr std::array kUnits{Unit{"tflops", 1e12}, Unit{"tflop/s", 1e12}, Unit{"tflop", 1e12},
                              Unit{"pflops", 1e15}, Unit{"pflop/s", 1e15}, Unit{"pflop", 1e15}};
  const std::string lower = to_lower(text);
  for (const Unit& unit : kUnits)
    if (lower.ends_with(unit.name)) {
      const double value =
          parse_number(trim(lower.substr(0, lower.size() - unit.name.size())), kSpecFlag) * unit.factor;
      constexpr double kLeast = 1e11, kMost = 1e17;
      if (!(value >= kLeast && value <= kMost))
        refuse_spec(fmt::format("'{}' is out of range", text), "a rate is between 0.1 TFLOPS and 100 PFLOPS");
      return FlopsPerSec{value};
    }
  return {};
}

FlopsPerSec rate_of_key(const std::string& key, const std::string& value) {
  if (const auto rate = parse_flops(value)) return *rate;
  refuse_spec(fmt::format("{}: '{}' is not a rate", key, value), fmt::format("write for example {}=100TFLOPS", key));
}

void read_spec_link(Description& stated, const std::string& value) {
  const std::string lower = to_lower(value);
  const auto x = lower.find('x');
  constexpr std::string_view kPcie = "pcie";
  constexpr std::array<std::int64_t, 5> kLanes{1, 2, 4, 8, 16};
  const char* const hint = "write link=pcie3x16, with generation 3 to 6 and 1, 2, 4, 8 or 16 lanes";
  if (!lower.starts_with(kPcie) || x == std::string::npos || x <= kPcie.size())
    refuse_spec(fmt::format("link: '{}' is not known", value), hint);
  const std::int64_t generation = parse_integer(lower.substr(kPcie.size(), x - kPcie.size()), kSpecFlag, 1);
  const std::int64_t lanes = parse_integer(lower.substr(x + 1), kSpecFlag, 1);
  if (generation < 3 || generation > 6 || std::find(kLanes.begin(), kLanes.end(), lanes) == kLanes.end())
    refuse_spec(fmt::format("link: there is no '{}'", value), hint);
  stated.pcie_generation = generation;
  stated.pcie_lanes = lanes;
}

bool is_amd(const std::string& capability) { return capability.starts_with("gfx"); }

void read_capability(Description& stated, const std::string& value) {
  const std::string lower = to_lower(value);
  if (!is_amd(lower)) {
    constexpr double kVolta = 7.0, kNewest = 20;
    const double number = parse_number(lower, kSpecFlag);
    if (number < kVolta || number > kNewest)
      refuse_spec(fmt::format("cc: '{}' is not modelled", value),
                  "cards with tensor cores have 7.0 or more; AMD: cc=gfx942");
  }
  stated.capability = lower;
}

void read_spec_key(Description& stated, const std::string& key, const std::string& value) {
  if (value.empty()) refuse_spec(fmt::format("{} has no value", key), kSpecKeys);
  if (key == "link") return read_spec_link(stated, value);
  if (key == "cc") return read_capability(stated, value);
  if (key == "fp8") return void(stated.fp8 = rate_of_key(key, value));
  if (key == "fp32") return void(stated.fp32 = rate_of_key(key, value));
  if (key == "sms") return void(stated.sms = parse_integer(value, kSpecFlag, 1, 1024));
  if (key == "watts") return void(stated.watts = parse_integer(value, kSpecFlag, 1));
  if (key != "p2p") refuse_spec(fmt::format("unknown key '{}'", key), kSpecKeys);
  if (value != "yes" && value != "no")
    refuse_spec(fmt::format("p2p: '{}' is not known", value), "write p2p=yes or p2p=no");
  stated.has_p2p = value == "yes";
}

void read_spec_amount(Description& stated, const std::string& item) {
  if (const auto rate = parse_flops(item))
    return set_spec_once(stated.rate, *rate, item, "rate",
                         "the dense 16-bit rate stands alone, others are fp8=… and fp32=…");
  const bool is_bandwidth = item.ends_with("/s");
  const std::string text(trim(is_bandwidth ? item.substr(0, item.size() - 2) : item));
  Bytes amount;
  try {
    amount = parse_bytes(text, "");
  } catch (const InputError&) { refuse_spec(fmt::format("'{}' is no memory, bandwidth or rate", item), kSpecForm); }
  constexpr double kLeastMemory = 0x1p30, kMostMemory = 0x1p44, kLeastRate = 1e10, kMostRate = 1e14;
  const double value = double(amount.count);
  if (is_bandwidth ? value < kLeastRate || value > kMostRate : value < kLeastMemory || value > kMostMemory)
    refuse_spec(fmt::format("'{}' is out of range", item),
                is_bandwidth ? "bandwidth is between 10 GB/s and 100 TB/s" : "memory is between 1 GiB and 16 TiB");
  if (is_bandwidth)
    set_spec_once(stated.bandwidth, BytesPerSec{value}, item, "bandwidth", kSpecForm);
  else
    set_spec_once(stated.memory, amount, item, "amount of memory", "bandwidth ends in /s: 360GB/s");
}

Description read_description(const std::string& part) {
  const auto colon = part.find(':');
  Description stated{.text = part};
  if (colon == std::string::npos) refuse_spec(fmt::format("'{}' has no ':' after the name", part));
  stated.name = trim(part.substr(0, colon));
  if (stated.name.empty()) refuse_spec(fmt::format("'{}' has no name before the ':'", part));
  const std::string lower = to_lower(stated.name);
  if (lower == "cpu" || lower == "local" || stated.name.find(',') != std::string::npos)
    refuse_spec(fmt::format("'{}' cannot be the name of a card", stated.name));
  if (digits_of_count(lower) > 0)
    refuse_spec(fmt::format("'{}' is a number of cards", stated.name),
                "--gpus says how many; here stands the name alone");
  for (const std::string& item : split(part.substr(colon + 1), ',')) {
    if (item.empty()) refuse_spec(fmt::format("'{}' has an empty item", part));
    const auto equals = item.find('=');
    if (equals == std::string::npos)
      read_spec_amount(stated, item);
    else
      read_spec_key(stated, to_lower(trim(item.substr(0, equals))), std::string(trim(item.substr(equals + 1))));
    stated.figures += (stated.figures.empty() ? "" : ", ") + item;
  }
  return stated;
}

/// Source: NVIDIA CUDA programming guide, compute capabilities.
std::string architecture_of(const std::string& capability) {
  if (is_amd(capability)) return capability;
  const double number = parse_number(capability, kSpecFlag);
  constexpr double kTuring = 7.5, kAmpere = 8.0, kAda = 8.9, kHopper = 9.0, kBlackwell = 10.0;
  return number < kTuring      ? "volta"
         : number < kAmpere    ? "turing"
         : number < kAda       ? "ampere"
         : number < kHopper    ? "ada"
         : number < kBlackwell ? "hopper"
                               : "blackwell";
}

void set_fp8(GpuSpec& spec, const Description& stated) {
  if (!stated.fp8) return;
  const bool can = is_amd(spec.compute_capability) || parse_number(spec.compute_capability, kSpecFlag) >= 8.9;
  if (!can)
    refuse_spec(fmt::format("fp8: compute capability {} has none", spec.compute_capability),
                "fp8 needs cc=8.9 or more");
  spec.fp8 = *stated.fp8;
}

/// Copies the stated values that both kinds of cards take over.
void take_stated(GpuSpec& spec, const Description& stated) {
  set_fp8(spec, stated);
  if (stated.fp32) spec.fp32 = *stated.fp32;
  if (stated.fp32) spec.gemm_fp32 = {};
  if (stated.sms) spec.sm_count = *stated.sms;
  if (stated.pcie_generation) spec.pcie_generation = *stated.pcie_generation;
  if (stated.pcie_lanes) spec.pcie_lanes = *stated.pcie_lanes;
  if (stated.has_p2p) spec.has_p2p_over_pcie = *stated.has_p2p;
  spec.source = std::string(kSourcePrefix) + stated.text;
}

std::string with_watts(std::string text, const Description& stated) {
  if (stated.watts) text += "; no formula uses the watts";
  return text;
}

/// A card of the catalogue with other figures. Its price and what was measured of its links stay those of the card.
DescribedGpu changed_card(const Description& stated, GpuFile gpu) {
  GpuSpec& spec = gpu.spec;
  const std::string id = spec.id;
  if (gpu.devices_per_card > 1)
    refuse_spec(fmt::format("one {} is {} devices", stated.name, gpu.devices_per_card),
                "give one device a name of its own, with memory, bandwidth and rate");
  if (stated.capability && *stated.capability != spec.compute_capability)
    refuse_spec(fmt::format("cc: {} has {}", id, spec.compute_capability),
                "leave cc out, or give the card another name");
  if (stated.memory) {
    const Bytes kept = spec.device_memory - spec.framework_memory;
    spec.device_memory = *stated.memory;
    spec.framework_memory = *stated.memory - kept;
  }
  if (stated.bandwidth) spec.memory_bandwidth = *stated.bandwidth;
  if (stated.rate) {
    const std::int64_t sms = spec.sm_count;
    scale_compute(spec, *stated.rate / spec.fp16);
    spec.sm_count = sms;  // another clock, not another chip
  }
  take_stated(spec, stated);
  spec.id = gpu.names.id = id + "-changed";
  spec.name += ", changed";
  gpu.prices.clear();
  const std::string own = read_instead_of_shipped(id);
  const std::string text =
      fmt::format("{} is {} with {} by --gpu-spec{}", stated.name, id, stated.figures, own.empty() ? own : "; " + own);
  return {stated.name, std::move(gpu), with_watts(text, stated), id};
}

void check_spec_complete(const Description& stated) {
  std::vector<std::string> missing;
  if (!stated.memory) missing.emplace_back("memory (12GiB)");
  if (!stated.bandwidth) missing.emplace_back("bandwidth (360GB/s)");
  if (!stated.rate) missing.emplace_back("dense 16-bit rate (25TFLOPS)");
  if (!missing.empty())
    refuse_spec(fmt::format("'{}' is not in the catalogue and lacks its {}", stated.name, fmt::join(missing, ", ")));
}

DescribedGpu new_card(const Description& stated) {
  check_spec_complete(stated);
  const GpuDefaults defaults = read_gpu_defaults();
  std::vector<std::string> assumed;
  GpuFile gpu;
  GpuSpec& spec = gpu.spec;
  spec.id = gpu.names.id = product_id(stated.name);
  spec.name = stated.name;
  gpu.names.aliases = {stated.name};
  spec.compute_capability = stated.capability.value_or(defaults.compute_capability);
  spec.vendor = is_amd(spec.compute_capability) ? "amd" : "nvidia";
  spec.architecture = gpu.names.architecture = architecture_of(spec.compute_capability);
  spec.form_factor = "pcie";
  if (!stated.capability) assumed.push_back(fmt::format("compute capability {}", spec.compute_capability));
  spec.is_plan_only =
      is_amd(spec.compute_capability) || parse_number(spec.compute_capability, kSpecFlag) < kOldestRunnableCapability;
  spec.device_memory = *stated.memory;
  spec.framework_memory = *stated.memory - defaults.reserved;
  assumed.push_back(fmt::format("{} kept by the driver", format_bytes(defaults.reserved)));
  spec.memory_bandwidth = *stated.bandwidth;
  spec.fp16 = *stated.rate;
  constexpr double kFirstBf16 = 8.0;
  const bool has_bf16 =
      is_amd(spec.compute_capability) || parse_number(spec.compute_capability, kSpecFlag) >= kFirstBf16;
  if (has_bf16) spec.bf16 = *stated.rate;
  spec.fp32 = *stated.rate * of_capability(defaults.fp32_share, spec.compute_capability);
  if (!stated.fp32) assumed.push_back(fmt::format("{:.3g} TFLOPS of fp32", spec.fp32.value / 1e12));
  if (!stated.fp8) assumed.emplace_back("no fp8");
  const double per_sm = of_capability(defaults.tflops_per_sm, spec.compute_capability);
  spec.sm_count = std::clamp<std::int64_t>(std::llround(stated.rate->value / 1e12 / per_sm), 1, defaults.most_sms);
  if (!stated.sms) assumed.push_back(fmt::format("{} multiprocessors", spec.sm_count));
  spec.pcie_generation = defaults.pcie_generation;
  spec.pcie_lanes = defaults.pcie_lanes;
  if (!stated.pcie_lanes) assumed.push_back(fmt::format("PCIe {}.0 x{}", spec.pcie_generation, spec.pcie_lanes));
  if (!stated.has_p2p) assumed.emplace_back("no peer-to-peer");
  take_stated(spec, stated);
  if (has_bf16) spec.tf32 = spec.fp32;
  gpu.machine = {.fabric = spec.has_p2p_over_pcie ? FabricKind::Pcie : FabricKind::PcieHostStaged,
                 .gpus_per_node = defaults.gpus_per_node,
                 .nic_per_gpu = defaults.nic,
                 .assumption = {},
                 .source = "data/gpu_spec.yaml"};
  std::string text =
      fmt::format("{} has {} by --gpu-spec; assumed are {}", stated.name, stated.figures, fmt::join(assumed, ", "));
  return {stated.name, std::move(gpu), with_watts(std::move(text), stated), {}};
}

/// The product that the name means; nothing when it is new, or several when the text says enough to be a card itself.
std::optional<std::string> known_product(const Description& stated) {
  const auto possible = possible_gpus(stated.name);
  if (possible.empty()) return {};
  if (possible.size() > 1 && stated.memory && stated.bandwidth && stated.rate) return {};
  try {
    return resolve_gpu(stated.name).id;
  } catch (const InputError& error) { throw error.add_context(kSpecFlag); }
}

}  // namespace

std::vector<DescribedGpu> read_described_gpus(const std::string& text) {
  std::vector<DescribedGpu> out;
  if (trim(text).empty()) refuse_spec("is empty");
  for (const std::string& part : split(text, ';')) {
    const Description stated = read_description(part);
    for (const DescribedGpu& other : out)
      if (is_same_gpu_name(other.name, stated.name))
        refuse_spec(fmt::format("'{}' is described twice", stated.name), "give each card one part");
    const auto known = known_product(stated);
    out.push_back(known ? changed_card(stated, read_gpu_file(gpu_path(*known))) : new_card(stated));
    if (out.back().gpu.spec.framework_memory.count <= 0)
      refuse_spec(fmt::format("'{}' leaves no memory to frameworks", part), "memory is 1 GiB or more");
  }
  return out;
}

std::string gpu_spec_text(const GpuSpec& gpu) {
  return gpu.source.starts_with(kSourcePrefix) ? gpu.source.substr(kSourcePrefix.size()) : std::string();
}

}  // namespace gpuplan

#include "cluster/gpu_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {
namespace {

FabricKind read_fabric(Fields& fields) {
  FabricKind fabric = FabricKind::None;
  fields("fabric", fabric);
  return fabric;
}

/// Several reports of one rate stand as a pair; the middle of it is taken, as in the fit of the profile.
/// Mean of the reports under a key; 0 without one.
double middle_of(Fields& fields, const std::string& key) {
  const auto reports = fields.numbers(key);
  return reports.empty() ? 0 : std::accumulate(reports.begin(), reports.end(), 0.0) / double(reports.size());
}

void read_memory(Fields& top, GpuFile& gpu) {
  Fields memory = top.fields("memory");
  gpu.names.memory_gb = memory.integer("marketing_gb");
  gpu.spec.memory_bandwidth = BytesPerSec{memory.number("bandwidth_gb_s") * 1e9};
  gpu.shares_host_memory = memory.optional_flag("shared_with_host").value_or(false);
  memory.allow({"marketing_gb_alternative", "type", "note", "kind", "source"});
  memory.refuse_unknown();

  Fields usable = top.fields("usable_memory");
  if (!usable.is_given("device_total_mib")) usable.report("device_total_mib", "is missing");
  gpu.spec.device_memory = usable.optional_bytes("device_total_mib").value_or(Bytes{});
  const auto seen = usable.numbers("framework_total_gib");
  if (seen.empty())
    usable.report("framework_total_gib", "is missing");
  else
    gpu.spec.framework_memory = Bytes{std::int64_t(*std::min_element(seen.begin(), seen.end()) * 0x1p30)};
  if (const auto one = usable.optional_bytes("per_device_total_mib")) gpu.spec.device_memory = *one;
  usable.allow(
      {"device_total_mib_ecc_on", "device_total_mib_ecc_off", "device_total_mib_older_drivers", "kind", "source"});
  usable.refuse_unknown();
}

void read_compute(Fields& top, GpuSpec& spec) {
  Fields compute = top.fields("compute");
  spec.sm_count = compute.integer("sm_count");
  compute.allow({"l2_mb", "boost_mhz", "max_clock_mhz", "tdp_w", "tdp_note", "dense_tops_int8", "fp32_matrix",
                 "fp8_fp16acc", "half_rate_fp32_accumulate", "infinity_cache_mb", "datasheet_cuda_cores", "variants",
                 "note", "kind", "source"});
  Fields dense = compute.fields("dense_tflops");
  const auto rate = [&](const char* key) { return FlopsPerSec{dense.optional_number(key).value_or(0) * 1e12}; };
  if (!dense.is_given("fp32")) dense.report("fp32", "is missing");
  spec.fp32 = rate("fp32");
  spec.tf32 = rate("tf32");
  spec.fp16 = rate("fp16_fp32acc");
  spec.bf16 = rate("bf16");
  spec.fp8 = rate("fp8");
  dense.allow({"fp16_fp16acc", "fp4"});
  dense.refuse_unknown();
  compute.refuse_unknown();
}

void read_best_gemms(Fields& top, GpuSpec& spec) {
  for (const char* block : {"measured", "estimated"}) {  // an estimate fills what was not measured
    auto figures = top.optional_fields(block);
    if (!figures || figures->optional_flag("of_another_product").value_or(false)) continue;
    const auto fill = [&](FlopsPerSec& rate, const char* key) {
      if (rate.value == 0) rate = FlopsPerSec{middle_of(*figures, key) * 1e12};
    };
    fill(spec.gemm_fp32, "gemm_fp32_tflops");
    fill(spec.gemm_fp16, "gemm_fp16_tflops");
    fill(spec.gemm_bf16, "gemm_bf16_tflops");
    if (spec.memory_share == 0)
      spec.memory_share = middle_of(*figures, "memory_gb_s") * 1e9 / spec.memory_bandwidth.value;
    figures->allow({"gemm_fp32_tflops", "gemm_fp16_tflops", "gemm_bf16_tflops", "gemm_fp8_tflops", "gemm_tf32_tflops",
                    "gemm_bf16_best_shape", "gemm_bf16_note", "gemm_bf16_square_tflops",
                    "gemm_fp16_square_16384_tflops", "h2d_gb_s", "d2h_gb_s", "flash_attention2_fwd_tflops", "note",
                    "kind", "source"});
    figures->refuse_unknown();
  }
}

void read_interconnect(Fields& top, GpuFile& gpu) {
  Fields links = top.fields("interconnect");
  if (auto nvlink = links.optional_fields("nvlink")) {
    gpu.spec.nvlink_per_direction = nvlink->optional_rate("per_direction_gb_s").value_or(BytesPerSec{});
    gpu.spec.nvlink_kind = nvlink->text("layout");
  }
  if (auto xgmi = links.optional_fields("infinity_fabric"))
    gpu.xgmi_per_pair = BytesPerSec{xgmi->number("per_pair_per_direction_gb_s") * 1e9};
  Fields pcie = links.fields("pcie");
  gpu.spec.pcie_generation = pcie.integer("generation", {.least = 1});
  gpu.spec.pcie_lanes = pcie.integer("lanes", {.least = 1});
  gpu.spec.has_p2p_over_pcie = links.optional_flag("p2p_over_pcie").value_or(false);
  links.allow({"kind", "source"});
  links.refuse_unknown();
}

void read_machine(Fields& top, UsualMachine& machine) {
  Fields fields = top.fields("usual_machine");
  machine.fabric = read_fabric(fields);
  machine.gpus_per_node = fields.integer("gpus_per_node", {.least = 1});
  machine.spans_hosts = fields.optional_flag("spans_hosts").value_or(false);
  machine.nic_per_gpu = BytesPerSec{fields.number("nic_gbit_s_per_gpu") * 1e9 / 8};
  machine.assumption = fields.optional_text("assumption").value_or("");
  machine.bridged = fields.optional_text("bridged").value_or("");
  machine.source = fields.text("source");
  fields.allow({"kind"});
  fields.refuse_unknown();
}

void read_rings(Fields& top, std::vector<RingFigure>& rings) {
  for (Fields& fields : top.list("collectives")) {
    RingFigure ring{.fabric = read_fabric(fields), .from_gpus = fields.integer("from_gpus", {.least = 2})};
    ring.bus = BytesPerSec{fields.number("busbw_gb_s") * 1e9};
    ring.all_reduce_bus = fields.optional_rate("all_reduce_busbw_gb_s").value_or(ring.bus);
    ring.source = fields.text("source");
    fields.allow({"kind"});
    fields.refuse_unknown();
    rings.push_back(std::move(ring));
  }
}

void read_prices(Fields& top, std::vector<GpuPrice>& prices) {
  for (Fields& fields : top.list("price")) {
    GpuPrice price{.provider = fields.text("provider"), .kind = fields.text("kind"), .source = fields.text("source")};
    const auto range = fields.numbers("usd_per_gpu_hour");
    if (range.empty())
      fields.report("usd_per_gpu_hour", "is missing");
    else
      price.usd_per_gpu_hour = *std::min_element(range.begin(), range.end());
    price.date = fields.text("date");
    if (price.kind != "range") price.vendor = price.provider.substr(0, price.provider.find(' '));
    price.is_approximate = fields.optional_flag("approximate").value_or(false);
    if (const auto note = fields.optional_text("note")) price.provider += fmt::format(" ({})", *note);
    fields.refuse_unknown();
    prices.push_back(std::move(price));
  }
}

/// The datasheet's figures are for the card; a card with several devices shares them out.
void share_out(GpuFile& gpu) {
  const double parts = double(gpu.devices_per_card);
  gpu.spec.memory_bandwidth = gpu.spec.memory_bandwidth / parts;
  scale_compute(gpu.spec, 1 / parts);
}

bool is_plan_only(const GpuSpec& spec, Fields& top) {
  if (spec.vendor != "nvidia") return true;
  return top.number("compute_capability") < kOldestRunnableCapability;
}

}  // namespace

GpuNames read_gpu_names(Fields& fields) {
  return {.id = fields.text("id"),
          .aliases = fields.texts("aliases"),
          .assumed_for = fields.texts("assumed_for"),
          .ambiguous = fields.texts("ambiguous")};
}

GpuFile read_gpu_file(const std::filesystem::path& path) {
  YamlFile file = YamlFile::read(path);
  Fields& top = file.top();
  GpuFile gpu{.names = read_gpu_names(top)};
  GpuSpec& spec = gpu.spec;
  spec.id = gpu.names.id;
  if (!spec.id.empty() && spec.id != path.stem().string()) top.report("id", "must be the name of the file");
  if (gpu.names.aliases.empty()) top.report("aliases", "is missing: how do people call it?");
  spec.name = top.text("name");
  spec.vendor = top.text("vendor");
  spec.architecture = gpu.names.architecture = top.text("architecture");
  spec.compute_capability = top.text("compute_capability");
  spec.form_factor = top.text("form_factor");
  spec.is_plan_only = is_plan_only(spec, top);
  gpu.devices_per_card = top.optional_integer("devices", {.least = 1}).value_or(1);
  read_memory(top, gpu);
  read_compute(top, spec);
  read_best_gemms(top, spec);
  read_interconnect(top, gpu);
  read_machine(top, gpu.machine);
  read_rings(top, gpu.rings);
  read_prices(top, gpu.prices);
  share_out(gpu);
  const bool is_shipped = path.parent_path() == data_dir() / "gpus";
  spec.source = is_shipped ? "data/gpus/" + path.filename().string() : path.string();
  top.allow({"year", "c2c", "notes"});
  top.refuse_unknown();
  file.finish("the fields are explained in data/gpus/README.md");
  return gpu;
}

bool runs_flash_attention_2(const GpuSpec& gpu) {
  constexpr double kAmpere = 8.0;
  if (gpu.vendor != "nvidia" || gpu.is_cpu || gpu.compute_capability.empty()) return true;
  return std::strtod(gpu.compute_capability.c_str(), nullptr) >= kAmpere;
}

constexpr double kHopper = 9.0;

bool is_hopper_or_later(const GpuSpec& gpu) {
  return gpu.vendor == "nvidia" && !gpu.is_cpu && std::strtod(gpu.compute_capability.c_str(), nullptr) >= kHopper;
}

bool runs_flash_attention_3(const GpuSpec& gpu) {
  return gpu.vendor == "nvidia" && !gpu.is_cpu &&
         (gpu.compute_capability.empty() || std::strtod(gpu.compute_capability.c_str(), nullptr) == kHopper);
}

void scale_compute(GpuSpec& gpu, double factor) {
  for (FlopsPerSec* rate :
       {&gpu.fp32, &gpu.tf32, &gpu.fp16, &gpu.bf16, &gpu.fp8, &gpu.gemm_fp32, &gpu.gemm_fp16, &gpu.gemm_bf16})
    *rate = *rate * factor;
  gpu.sm_count = std::llround(double(gpu.sm_count) * factor);
}

const RingFigure* find_ring(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus) {
  const RingFigure* found = nullptr;
  for (const RingFigure& ring : gpu.rings)
    if (ring.fabric == fabric && ring.from_gpus <= num_gpus) found = &ring;
  return found;
}

namespace {

bool is_dated(const GpuPrice& price) { return !price.date.empty() && price.date != "undated"; }

/// Order in which prices are taken, the least first.
auto rank_of(const GpuPrice& price, std::int64_t num_gpus) {
  return std::tuple(price.kind != "on-demand", !sells(price, num_gpus), !is_dated(price), price.usd_per_gpu_hour);
}

/// The usual price of `vendor`; of any vendor where none is given.
const GpuPrice* usual_of(const std::vector<GpuPrice>& prices, std::int64_t num_gpus, const std::string& vendor = {}) {
  const GpuPrice* best = nullptr;
  for (const GpuPrice& price : prices)
    if ((vendor.empty() || price.vendor == vendor) && (!best || rank_of(price, num_gpus) < rank_of(*best, num_gpus)))
      best = &price;
  return best;
}

/// Each product's price of one vendor; nothing when it does not offer one of them.
std::vector<GpuPrice> prices_of(const std::vector<GpuFile>& kinds, std::int64_t num_gpus, const std::string& vendor) {
  std::vector<GpuPrice> out;
  for (const GpuFile& kind : kinds) {
    const GpuPrice* price = usual_of(kind.prices, num_gpus, vendor);
    if (!price) return {};
    out.push_back(*price);
  }
  return out;
}

/// Says whether a price is no on-demand one, and gives the sum: of two vendors the one with less is taken.
std::pair<bool, double> total_of(const std::vector<GpuPrice>& prices) {
  std::pair<bool, double> total;
  for (const GpuPrice& price : prices) {
    total.first = total.first || price.kind != "on-demand";
    total.second += price.usd_per_gpu_hour;
  }
  return total;
}

using VendorPages = std::map<std::string, std::string>;

/// data/prices.yaml.
VendorPages read_vendor_pages() {
  const std::filesystem::path path = data_dir() / "prices.yaml";
  if (!is_there(path)) return {};
  YamlFile file = YamlFile::read(path);
  VendorPages pages;
  for (Fields& row : file.top().list("pages")) {
    std::string vendor = row.text("vendor");
    pages[std::move(vendor)] = row.text("address");
    row.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return pages;
}

}  // namespace

bool is_counts(std::string_view product) {
  return product.ends_with('x') && product.find_first_not_of("0123456789x,") == std::string_view::npos;
}

bool sells(const GpuPrice& price, std::int64_t num_gpus) {
  const std::size_t space = price.provider.find(' ');
  if (space == std::string::npos) return true;
  const std::string product = price.provider.substr(space + 1, price.provider.find(' ', space + 1) - space - 1);
  if (price.provider.find('(') != std::string::npos) return false;
  if (is_counts(product)) {
    const std::vector<std::string> counts = split(product, ',');
    return std::ranges::count(counts, fmt::format("{}x", num_gpus)) > 0;
  }
  return product.find('.') == std::string::npos || num_gpus == 1;
}

std::string price_page(const std::string& vendor) {
  const auto& pages = read_once<read_vendor_pages>();
  const auto page = pages.find(vendor);
  return page == pages.end() ? "" : page->second;
}

const GpuPrice* usual_price(const std::vector<GpuPrice>& prices, std::int64_t num_gpus) {
  return usual_of(prices, num_gpus);
}

std::vector<GpuPrice> compared_prices(const std::vector<GpuFile>& kinds, std::int64_t num_gpus) {
  if (kinds.empty()) return {};
  std::vector<GpuPrice> best;
  if (kinds.size() > 1)
    for (const GpuPrice& price : kinds.front().prices) {
      if (price.vendor.empty()) continue;
      std::vector<GpuPrice> all = prices_of(kinds, num_gpus, price.vendor);
      if (!all.empty() && (best.empty() || total_of(all) < total_of(best))) best = std::move(all);
    }
  return best.empty() ? prices_of(kinds, num_gpus, {}) : best;
}

std::string offer_of(const GpuPrice& price) {
  const bool says_kind = price.provider.find(price.kind) != std::string::npos;  // "runpod community"
  return says_kind ? price.provider : fmt::format("{} {}", price.provider, price.kind);
}

std::string describe_price(const GpuPrice& price) {
  return fmt::format("{}: {}{}", offer_of(price), price.source, price.is_approximate ? " (approximate)" : "");
}

}  // namespace gpuplan

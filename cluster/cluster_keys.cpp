#include "cluster/cluster_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/yaml_file.h"
#include "cluster/gpu_catalogue.h"

namespace gpuplan {
namespace {

constexpr NumberRange kRate{.least = 1e-3};  // GB/s, Gbit/s

/// Numbers of GPUs or adapters of this machine.
std::vector<std::size_t> indices(Fields& fields, const std::string& key, std::size_t count) {
  std::vector<std::size_t> out;
  for (const double number : fields.numbers(key)) {
    if (number < double(count) && number == double(std::size_t(number)))
      out.push_back(std::size_t(number));
    else
      fields.report(key, fmt::format("{:g} is not one of the {} of this machine, which count from 0", number, count));
  }
  return out;
}

BytesPerSec rate(Fields& fields, const std::string& key) {
  return fields.optional_rate(key, kRate).value_or(BytesPerSec{});
}

/// Everything in slots of the sockets, in order, before switches move some of it.
void place_in_slots(NodeLayout& layout, std::int64_t num_gpus, std::int64_t sockets) {
  if (!layout.gpus.empty()) return;
  layout.sockets = sockets;
  for (std::int64_t socket = 0; socket < sockets; ++socket) layout.bridges.push_back(socket);
  for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) layout.gpus.push_back({gpu * sockets / num_gpus, -1, {}, {}});
}

void read_switches(Fields& fields, NodeLayout& layout) {
  for (Fields& row : fields.list("pcie_switches")) {
    const auto gpus = indices(row, "gpus", layout.gpus.size());
    const auto nics = indices(row, "nics", layout.nics.size());
    PcieSwitchPlace place{.uplink = rate(row, "uplink_gb_s")};
    place.bridge = row.optional_integer("socket", {.most = layout.sockets - 1})
                       .value_or(gpus.empty() ? 0 : layout.gpus[gpus.front()].bridge);
    row.refuse_unknown();
    const auto index = std::int64_t(layout.switches.size());
    for (const std::size_t gpu : gpus) layout.gpus[gpu].bridge = place.bridge, layout.gpus[gpu].pcie_switch = index;
    for (const std::size_t nic : nics) layout.nics[nic].bridge = place.bridge, layout.nics[nic].pcie_switch = index;
    layout.switches.push_back(place);
  }
  const bool some =
      std::any_of(layout.nics.begin(), layout.nics.end(), [](const DevicePlace& nic) { return nic.bridge >= 0; });
  for (DevicePlace& nic : layout.nics)
    if (some && nic.bridge < 0) nic.bridge = 0;
}

void read_direct_links(Fields& fields, NodeLayout& layout, std::size_t num_gpus) {
  for (Fields& row : fields.list("nvlinks")) {
    const auto pair = indices(row, "gpus", num_gpus);
    const auto links = row.optional_integer("links", {.least = 1, .most = 64}).value_or(1);
    const BytesPerSec reached = rate(row, "busbw_gb_s");
    row.refuse_unknown();
    if (pair.size() != 2 || pair[0] == pair[1])
      row.report("gpus", "must be two GPUs, as in [0, 1]");
    else
      layout.direct_links.push_back({std::int64_t(pair[0]), std::int64_t(pair[1]), links, reached});
  }
}

std::int64_t index(Fields& fields, const std::string& key) {
  return fields.optional_integer(key, {.most = kMostDevices}).value_or(-1);
}

std::vector<DevicePlace> read_places(Fields& fields, const std::string& key) {
  std::vector<DevicePlace> out;
  for (Fields& row : fields.list(key)) {
    out.push_back({index(row, "bridge"), index(row, "switch"),
                   row.optional_rate("gbit_s", kRate).value_or(BytesPerSec{}), row.optional_text("name").value_or("")});
    row.refuse_unknown();
  }
  return out;
}

/// Everything by its place, as gpuplan writes it: nothing is filled in.
void read_exact(Fields& fields, NodeLayout& layout) {
  layout.sockets = fields.integer("sockets", {.most = kMostDevices});
  layout.bridges.clear();
  for (const double socket : fields.is_given("host_bridges")
                                 ? fields.numbers("host_bridges", {.most = double(kMostDevices)})
                                 : std::vector<double>{})
    layout.bridges.push_back(std::int64_t(socket));
  for (Fields& row : fields.list("switches")) {
    layout.switches.push_back({index(row, "bridge"), index(row, "above"), rate(row, "uplink_gb_s")});
    row.refuse_unknown();
  }
  layout.gpus = read_places(fields, "gpus");
  if (fields.is_given("nics")) layout.nics = read_places(fields, "nics");
}

}  // namespace

void read_layout(Fields& top, Machine& node) {
  auto fields = top.optional_fields("layout");
  if (!fields || node.gpus_per_node == 0) return;
  NodeLayout& layout = node.layout;
  const bool is_exact = fields->is_given("sockets");
  if (is_exact) {
    read_exact(*fields, layout);
  } else {
    const std::int64_t usual = node.gpus_per_node > 4 ? 2 : 1;
    place_in_slots(layout, node.gpus_per_node, layout.sockets > 0 ? layout.sockets : usual);
    read_switches(*fields, layout);
  }
  read_direct_links(*fields, layout, is_exact ? std::size_t(kMostDevices) : layout.gpus.size());
  layout.memory_bandwidth = rate(*fields, "memory_gb_s");
  layout.socket_link = rate(*fields, "socket_link_gb_s");
  layout.num_nvme = fields->optional_integer("nvme", {.least = 1, .most = 64}).value_or(0);
  layout.source = fields->optional_text("source").value_or("stated in the cluster file");
  fields->allow({"kind"});
  fields->refuse_unknown();
  if (const std::string problem = problem_of(layout, node.gpus_per_node); !problem.empty())
    top.report("layout", problem);
}

namespace {

/// Every field but the id by its key; a new one does not compile without.
template <class Spec, class Each>
void list_spec(Spec& spec, Each&& each) {
  auto& [id, name, vendor, architecture, compute_capability, form_factor, device_memory, framework_memory,
         memory_bandwidth, memory_share, fp32, tf32, fp16, bf16, fp8, gemm_fp32, gemm_fp16, gemm_bf16, sm_count,
         nvlink_per_direction, nvlink_kind, pcie_generation, pcie_lanes, has_p2p_over_pcie, is_plan_only, own_memory,
         collectives_memory, is_cpu, source] = spec;
  each("name", name);
  each("vendor", vendor);
  each("architecture", architecture);
  each("compute_capability", compute_capability);
  each("form_factor", form_factor);
  each("device_memory_mib", device_memory);
  each("framework_memory_mib", framework_memory);
  each("memory_bandwidth_gb_s", memory_bandwidth);
  each("memory_share", memory_share);
  each("fp32_tflops", fp32);
  each("tf32_tflops", tf32);
  each("fp16_tflops", fp16);
  each("bf16_tflops", bf16);
  each("fp8_tflops", fp8);
  each("gemm_fp32_tflops", gemm_fp32);
  each("gemm_fp16_tflops", gemm_fp16);
  each("gemm_bf16_tflops", gemm_bf16);
  each("sm_count", sm_count);
  each("nvlink_per_direction_gb_s", nvlink_per_direction);
  each("nvlink_kind", nvlink_kind);
  each("pcie_generation", pcie_generation);
  each("pcie_lanes", pcie_lanes);
  each("has_p2p_over_pcie", has_p2p_over_pcie);
  each("is_plan_only", is_plan_only);
  each("own_memory_mib", own_memory);
  each("collectives_memory_mib", collectives_memory);
  each("is_cpu", is_cpu);
  each("source", source);
  (void)id;
}

struct SpecReader {
  Fields& row;
  void operator()(const char* key, std::string& into) {
    if (auto v = row.optional_text(key)) into = *v;
  }
  void operator()(const char* key, Bytes& into) {
    if (auto v = row.optional_bytes(key)) into = *v;
  }
  void operator()(const char* key, BytesPerSec& into) {
    if (auto v = row.optional_rate(key)) into = *v;
  }
  void operator()(const char* key, FlopsPerSec& into) {
    if (auto v = row.optional_flops(key)) into = *v;
  }
  void operator()(const char* key, std::int64_t& into) {
    if (auto v = row.optional_integer(key, {.most = 1'000'000'000})) into = *v;
  }
  void operator()(const char* key, double& share) {
    if (auto v = row.optional_number(key, {.most = 1})) share = *v;
  }
  void operator()(const char* key, bool& into) {
    if (auto v = row.optional_flag(key)) into = *v;
  }
};

std::string text_of(const std::string& value) { return in_quotes(value); }
std::string text_of(Bytes value) { return in_mib(value); }
std::string text_of(BytesPerSec value) { return in_gb_s(value); }
std::string text_of(FlopsPerSec value) { return in_tflops(value); }
std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(bool value) { return value ? "true" : "false"; }

std::vector<std::pair<std::string, std::string>> texts_of(const GpuSpec& spec) {
  std::vector<std::pair<std::string, std::string>> out;
  list_spec(spec, [&](const char* key, const auto& value) { out.emplace_back(key, text_of(value)); });
  return out;
}

/// The product with exactly this id.
std::optional<GpuFile> in_catalogue(const std::string& id) {
  const auto all = list_gpu_names();
  const bool is_known = std::any_of(all.begin(), all.end(), [&](const GpuNames& gpu) { return gpu.id == id; });
  return is_known ? std::optional(read_gpu_file(gpu_path(id))) : std::nullopt;
}

/// Checks the numbers that a plan divides by.
void check(Fields& row, const GpuSpec& spec) {
  const auto need = [&](bool is_there, const char* key) {
    if (!is_there) row.report(key, "is missing, and the catalogue does not know this GPU");
  };
  need(!spec.name.empty(), "name");
  need(!spec.architecture.empty(), "architecture");
  need(spec.device_memory.count > 0, "device_memory_mib");
  need(spec.framework_memory.count > 0, "framework_memory_mib");
  need(spec.memory_bandwidth.value >= 1, "memory_bandwidth_gb_s");
  need(spec.fp32.value >= 1 || spec.gemm_fp32.value >= 1, "fp32_tflops");
  need(spec.pcie_generation > 0 || spec.is_cpu, "pcie_generation");
  need(spec.pcie_lanes > 0 || spec.is_cpu, "pcie_lanes");
}

}  // namespace

std::vector<StatedGpu> read_gpu_specs(Fields& top) {
  std::vector<StatedGpu> out;
  for (Fields& row : top.list("gpu_specs")) {
    StatedGpu stated{row.text("gpu"), {}, {}};
    const std::string id = row.optional_text("id").value_or(stated.name);
    if (auto known = in_catalogue(id)) stated.gpu = *std::move(known);
    stated.gpu.spec.id = stated.gpu.names.id = id;
    list_spec(stated.gpu.spec, SpecReader{row});
    if (row.is_given("device_memory_mib") && !row.is_given("framework_memory_mib"))
      row.report("device_memory_mib",
                 "is what nvidia-smi shows; plans use framework_memory_mib, what a framework may allocate: give both");
    check(row, stated.gpu.spec);
    row.refuse_unknown();
    out.push_back(std::move(stated));
  }
  return out;
}

std::string gpu_spec_row(const std::string& name, const GpuSpec& spec) {
  const auto known = in_catalogue(spec.id);
  const auto texts = texts_of(spec), usual = known ? texts_of(known->spec) : texts_of({});
  std::string out;
  if (spec.id != name) out += fmt::format("  id: {}\n", in_quotes(spec.id));
  const auto is_device = [](const auto& text) { return text.first == "device_memory_mib"; };
  const bool device_differs =
      *std::find_if(texts.begin(), texts.end(), is_device) != *std::find_if(usual.begin(), usual.end(), is_device);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i] != usual[i] || (texts[i].first == "framework_memory_mib" && device_differs))
      out += fmt::format("  {}: {}\n", texts[i].first, texts[i].second);
  return out.empty() ? out : fmt::format("- gpu: {}\n{}", in_quotes(name), out);
}

}  // namespace gpuplan

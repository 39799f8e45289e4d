#include "cluster/gpu_spec_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/yaml_file.h"
#include "cluster/gpu_names.h"

namespace gpuplan {
namespace {

/// Every field but the id by its key; a new one does not compile without.
template <class Spec, class Each>
void list_spec(Spec& spec, Each&& each) {
  auto& [id, name, vendor, architecture, compute_capability, form_factor, device_memory, framework_memory,
         memory_bandwidth, fp32, tf32, fp16, bf16, fp8, gemm_fp32, gemm_fp16, gemm_bf16, sm_count, nvlink_per_direction,
         nvlink_kind, pcie_generation, pcie_lanes, has_p2p_over_pcie, is_plan_only, own_memory, collectives_memory,
         is_cpu, source] = spec;
  each("name", name);
  each("vendor", vendor);
  each("architecture", architecture);
  each("compute_capability", compute_capability);
  each("form_factor", form_factor);
  each("device_memory_mib", device_memory);
  each("framework_memory_mib", framework_memory);
  each("memory_bandwidth_gb_s", memory_bandwidth);
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
  void operator()(const char* key, bool& into) {
    if (auto v = row.optional_flag(key)) into = *v;
  }
};

std::string text_of(const std::string& value) { return in_quotes(value); }
std::string text_of(Bytes value) { return in_mib(value); }
std::string text_of(BytesPerSec value) { return in_gb_s(value); }
std::string text_of(FlopsPerSec value) { return in_tflops(value); }
std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
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

/// What a plan divides by.
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
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i] != usual[i]) out += fmt::format("  {}: {}\n", texts[i].first, texts[i].second);
  return out.empty() ? out : fmt::format("- gpu: {}\n{}", in_quotes(name), out);
}

}  // namespace gpuplan

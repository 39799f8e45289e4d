#include "report/json/answers_json.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json entry_json(const CatalogueEntry& entry) {
  return {{"name", entry.name},
          {"id", entry.id},
          {"family", entry.family},
          {"model_type", entry.model_type},
          {"architecture", entry.architecture},
          {"parameters", entry.parameters},
          {"is_modelled", entry.is_modelled}};
}

Json tensors_json(const std::vector<WeightTensor>& tensors) {
  Json out = Json::array();
  for (const WeightTensor& tensor : tensors)
    out.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"elements", tensor.elements()}});
  return out;
}

template <class Rate>
Json rate_or_null(Rate rate) {
  return rate.value > 0 ? Json(rate.value) : Json();
}

Json prices_json(const std::vector<GpuPrice>& prices) {
  Json out = Json::array();
  for (const GpuPrice& price : prices)
    out.push_back({{"provider", price.provider},
                   {"vendor", price.vendor.empty() ? Json() : Json(price.vendor)},
                   {"kind", price.kind},
                   {"date", price.date},
                   {"usd_per_gpu_hour", price.usd_per_gpu_hour},
                   {"is_approximate", price.is_approximate},
                   {"source", price.source}});
  return out;
}

Json gpu_json(const GpuReport& report) {
  const GpuSpec& g = report.gpu;
  return {{"id", g.id},
          {"name", g.name},
          {"vendor", g.vendor},
          {"architecture", g.architecture},
          {"compute_capability", g.compute_capability.empty() ? Json() : Json(g.compute_capability)},
          {"form_factor", g.form_factor},
          {"device_memory_bytes", g.device_memory.count},
          {"framework_memory_bytes", g.framework_memory.count},
          {"memory_bandwidth_bytes_per_second", g.memory_bandwidth.value},
          {"fp32_flops_per_second", rate_or_null(g.fp32)},
          {"tf32_flops_per_second", rate_or_null(g.tf32)},
          {"fp16_flops_per_second", rate_or_null(g.fp16)},
          {"bf16_flops_per_second", rate_or_null(g.bf16)},
          {"fp8_flops_per_second", rate_or_null(g.fp8)},
          {"gemm_fp32_flops_per_second", rate_or_null(g.gemm_fp32)},
          {"gemm_fp16_flops_per_second", rate_or_null(g.gemm_fp16)},
          {"gemm_bf16_flops_per_second", rate_or_null(g.gemm_bf16)},
          {"sm_count", g.sm_count},
          {"nvlink_per_direction_bytes_per_second", rate_or_null(g.nvlink_per_direction)},
          {"nvlink_kind", g.nvlink_kind.empty() ? Json() : Json(g.nvlink_kind)},
          {"pcie_generation", g.pcie_generation},
          {"pcie_lanes", g.pcie_lanes},
          {"has_p2p_over_pcie", g.has_p2p_over_pcie},
          {"is_plan_only", g.is_plan_only},
          {"price_per_gpu_hour", report.usual ? Json(report.usual->usd_per_gpu_hour) : Json()},
          {"prices", prices_json(report.prices)},
          {"source", g.source}};
}

Json layer_kinds_json(const ModelWeights& weights) {
  Json out = Json::array();
  for (std::size_t k = 0; k < weights.kinds.size(); ++k)
    out.push_back({{"name", weights.kinds[k].name},
                   {"count", weights.num_of_kind(k)},
                   {"prefix", weights.kinds[k].prefix},
                   {"tensors", tensors_json(weights.kinds[k].tensors)}});
  return out;
}

Json shape_json(const ModelSpec& m) {
  return {{"hidden_size", m.hidden_size},
          {"num_hidden_layers", m.num_hidden_layers},
          {"num_attention_heads", m.num_attention_heads},
          {"num_key_value_heads", m.num_key_value_heads},
          {"head_dim", m.head_dim},
          {"intermediate_size", m.intermediate_size},
          {"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_position_embeddings},
          {"sliding_window", m.sliding_window > 0 ? Json(m.sliding_window) : Json()},
          {"tie_word_embeddings", m.tie_word_embeddings}};
}

}  // namespace

Json models_json(const std::vector<CatalogueEntry>& entries) {
  Json out{{"models", Json::array()}};
  for (const CatalogueEntry& entry : entries) out["models"].push_back(entry_json(entry));
  return out;
}

Json model_json(const ModelReport& report) {
  Json out = entry_json(report.entry);
  out["parameters"] = report.parameters;
  out["recorded_parameters"] = report.entry.parameters;
  out["published_source"] = report.published.empty() ? Json() : Json(report.published);
  out["is_verified"] = report.is_verified;
  out["notes"] = report.notes;
  out["shape"] = report.spec ? shape_json(*report.spec) : Json();
  if (report.spec)
    out["tensors"] = {{"before", tensors_json(report.weights.before)},
                      {"layers", layer_kinds_json(report.weights)},
                      {"after", tensors_json(report.weights.after)},
                      {"num_layers", report.weights.num_layers()}};
  return out;
}

Json gpus_json(const std::vector<GpuReport>& reports) {
  Json out{{"gpus", Json::array()}};
  for (const GpuReport& report : reports) out["gpus"].push_back(gpu_json(report));
  return out;
}

}  // namespace gpuplan

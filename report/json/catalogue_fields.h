// The fields of the answers of `gpuplan gpus` and `gpuplan models`, listed once: report/json/estimate_fields.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/archive.h"
#include "report/catalogue_report.h"
#include "report/json/common_fields.h"

namespace gpuplan {

template <class Archive>
void list_fields(Archive& f, const WeightTensor& tensor) {
  f("name", tensor.name);
  f("shape", tensor.shape);
  f("elements", tensor.elements());
}

/// Null where the card has no such rate.
template <class Rate>
std::optional<Rate> rate_or_null(Rate rate) {
  return rate.value > 0 ? std::optional(rate) : std::nullopt;
}

template <class Archive>
void list_fields(Archive& f, const GpuPrice& price) {
  f("provider", price.provider);
  f("vendor", text_or_null(price.vendor), "null: a range of many");
  f("kind", price.kind);
  f("date", price.date);
  f("usd_per_gpu_hour", price.usd_per_gpu_hour);
  f("is_approximate", price.is_approximate);
  f("source", price.source);
}

template <class Archive>
void list_fields(Archive& f, const GpuReport& report) {
  const GpuSpec& g = report.gpu;
  f("id", g.id);
  f("name", g.name);
  f("vendor", g.vendor);
  f("architecture", g.architecture);
  f("compute_capability", text_or_null(g.compute_capability));
  f("form_factor", g.form_factor);
  f("device_memory_bytes", g.device_memory);
  f("framework_memory_bytes", g.framework_memory, "what the framework sees as total");
  f("memory_bandwidth_bytes_per_second", g.memory_bandwidth);
  f("memory_share", g.memory_share > 0 ? std::optional(g.memory_share) : std::nullopt,
    "of it that copies reach, measured");
  f("fp32_flops_per_second", rate_or_null(g.fp32));
  f("tf32_flops_per_second", rate_or_null(g.tf32));
  f("fp16_flops_per_second", rate_or_null(g.fp16));
  f("bf16_flops_per_second", rate_or_null(g.bf16));
  f("fp8_flops_per_second", rate_or_null(g.fp8));
  f("gemm_fp32_flops_per_second", rate_or_null(g.gemm_fp32), "measured");
  f("gemm_fp16_flops_per_second", rate_or_null(g.gemm_fp16), "measured");
  f("gemm_bf16_flops_per_second", rate_or_null(g.gemm_bf16), "measured");
  f("sm_count", g.sm_count);
  f("nvlink_per_direction_bytes_per_second", rate_or_null(g.nvlink_per_direction));
  f("nvlink_kind", text_or_null(g.nvlink_kind));
  f("pcie_generation", g.pcie_generation);
  f("pcie_lanes", g.pcie_lanes);
  f("has_p2p_over_pcie", g.has_p2p_over_pcie);
  f("is_plan_only", g.is_plan_only, "too old for `gpuplan run`");
  f("price_per_gpu_hour", report.usual ? std::optional(report.usual->usd_per_gpu_hour) : std::nullopt,
    "in USD; what estimates use");
  f("prices", report.prices);
  f("source", g.source);
}

template <class Archive>
void list_gpus(Archive& f, const std::vector<GpuReport>& reports) {
  f("gpus", reports);
}

template <class Archive>
void list_shape(Archive& f, const ModelSpec& m) {
  f("hidden_size", m.hidden_size);
  f("num_hidden_layers", m.num_hidden_layers);
  f("num_attention_heads", m.num_attention_heads);
  f("num_key_value_heads", m.num_key_value_heads);
  f("head_dim", m.head_dim);
  f("intermediate_size", m.intermediate_size);
  f("vocab_size", m.vocab_size);
  f("max_position_embeddings", m.max_position_embeddings);
  f("sliding_window", m.sliding_window > 0 ? std::optional(m.sliding_window) : std::nullopt);
  f("tie_word_embeddings", m.tie_word_embeddings);
}

template <class Archive>
void list_weights_of(Archive& f, const ModelWeights& weights) {
  std::vector<std::pair<LayerKind, std::int64_t>> kinds;
  for (std::size_t k = 0; k < weights.kinds.size(); ++k) kinds.emplace_back(weights.kinds[k], weights.num_of_kind(k));
  f("before", weights.before);
  f.objects("layers", kinds, [](auto& inner, const std::pair<LayerKind, std::int64_t>& kind) {
    inner("name", std::string(kind.first.name));
    inner("count", kind.second);
    inner("prefix", kind.first.prefix, "of the names in `tensors`");
    inner("tensors", kind.first.tensors);
  });
  f("after", weights.after);
  f("num_layers", weights.num_layers());
}

/// Holds what the index says; where the model `is_looked_at`, also what its config and its tensors say.
template <class Archive>
void list_model(Archive& f, const ModelReport& report, bool is_looked_at) {
  f("name", report.entry.name);
  f("id", report.entry.id);
  f("family", report.entry.family);
  f("model_type", report.entry.model_type);
  f("architecture", report.entry.architecture);
  f("parameters", is_looked_at ? report.parameters : report.entry.parameters);
  f("is_modelled", report.entry.is_modelled);
  f.all_if(is_looked_at, [&](auto& inner) {
    inner("recorded_parameters", report.entry.parameters);
    inner("published_source", text_or_null(report.published));
    inner("is_verified", report.is_verified, "the published count is the recorded one");
    inner("notes", report.notes);
    inner.nullable_object("shape", report.spec.has_value(),
                          [&](auto& one) { list_shape(one, report.spec.value_or(ModelSpec{})); });
    inner.optional_object("tensors", report.spec.has_value(), [&](auto& one) { list_weights_of(one, report.weights); });
  });
}

template <class Archive>
void list_models(Archive& f, const std::vector<ModelReport>& reports, bool are_looked_at) {
  f.objects("models", reports,
            [&](auto& inner, const ModelReport& report) { list_model(inner, report, are_looked_at); });
}

}  // namespace gpuplan

#include "models/families/experts.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuplan {
namespace {

// Of all routed experts: 16 bytes each are 2^62; shared ones stay below 2^57.6 parameters, the rest below 2^54
// (decoder.h).
constexpr double kMostParameters = 0x1p58;

/// A whole number, or a list of one that is the same for every layer.
std::int64_t read_or_require(Fields& config, const char* key, std::optional<std::int64_t> otherwise, IntRange range) {
  if (const nlohmann::json* list = config.find(key); list && list->is_array() && !list->empty()) {
    const nlohmann::json& first = list->front();
    const bool is_one = first.is_number_integer() && first >= range.least && first <= range.most &&
                        std::ranges::all_of(*list, [&](const nlohmann::json& other) { return other == first; });
    if (is_one) return first.get<std::int64_t>();
    config.report(key, "numbers that differ from layer to layer are not modelled");
    return range.least;
  }
  return otherwise ? config.optional_integer(key, range).value_or(*otherwise) : config.integer(key, range);
}

/// The layers named by `mlp_only_layers`: 0 to k - 1, or the list is refused.
std::int64_t read_leading_layers(Fields& config) {
  const nlohmann::json* list = config.find("mlp_only_layers");
  if (!list) return 0;
  std::int64_t next = 0;
  const auto is_next = [&](const nlohmann::json& layer) { return layer.is_number_integer() && layer == next++; };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_next))
    config.report("mlp_only_layers", "only leading layers, [0, 1, …], are modelled");
  return std::ssize(*list);
}

/// The parameters of a whole model must stay countable.
void check_size(Fields& config, const ModelSpec& spec, const char* count_key) {
  const double experts =
      3.0 * double(spec.moe.num_experts) * double(spec.hidden_size) * double(spec.moe.intermediate_size);
  if (experts * double(spec.num_hidden_layers) > kMostParameters)
    config.report(count_key, fmt::format("{} experts in {} layers are more parameters than can be counted",
                                         spec.moe.num_experts, spec.num_hidden_layers));
}

}  // namespace

void read_experts(Fields& config, ModelSpec& spec, const char* count_key, const char* width_key,
                  const ExpertDefaults& defaults, const char* chosen_key) {
  spec.moe.num_experts = read_or_require(config, count_key, defaults.num_experts, kExpertRange);
  spec.moe.experts_per_token = read_or_require(config, chosen_key, defaults.experts_per_token, kExpertRange);
  spec.moe.intermediate_size = read_or_require(config, width_key, defaults.intermediate_size, kFfnRange);
  if (spec.moe.experts_per_token > spec.moe.num_experts && spec.moe.num_experts > 0)
    config.report(chosen_key,
                  fmt::format("{} is more than the {} experts", spec.moe.experts_per_token, spec.moe.num_experts));
  check_size(config, spec, count_key);
}

void read_moe_layers(Fields& config, ModelSpec& spec, const char* step_key) {
  spec.moe.layer_step = config.optional_integer(step_key, kLayerRange).value_or(1);
  spec.moe.num_dense_layers = read_leading_layers(config);
}

void add_experts(Tensors& tensors, const ModelSpec& spec, const std::string& module, ExpertNames names) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size;
  const auto first = std::ssize(tensors);
  add_linear(tensors, LinearSlot::ExpertGate, module + ".{}." + names.gate, hidden, width);
  add_linear(tensors, LinearSlot::ExpertUp, module + ".{}." + names.up, hidden, width);
  add_linear(tensors, LinearSlot::ExpertDown, module + ".{}." + names.down, width, hidden);
  std::for_each(tensors.begin() + first, tensors.end(), [&](WeightTensor& tensor) {
    tensor.copies = spec.moe.num_experts;
    tensor.is_routed = true;
  });
}

void add_stacked_experts(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t experts,
                         std::int64_t in, std::int64_t out) {
  tensors.push_back({.name = name,
                     .shape = {experts, in, out},
                     .role = WeightRole::Stacked,
                     .in = in,
                     .out = out,
                     .slot = slot,
                     .is_routed = true});
}

void add_shared_expert(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.shared_intermediate_size;
  if (width == 0) return;
  add_linear(tensors, LinearSlot::SharedGate, module + ".gate_proj", hidden, width);
  add_linear(tensors, LinearSlot::SharedUp, module + ".up_proj", hidden, width);
  add_linear(tensors, LinearSlot::SharedDown, module + ".down_proj", width, hidden);
}

void add_moe_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, Tensors dense,
                    Tensors sparse) {
  std::int64_t num_sparse = 0;
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i) num_sparse += spec.moe.is_moe_layer(i);
  const bool has_dense = num_sparse < spec.num_hidden_layers;
  if (has_dense) weights.kinds.push_back({.name = "dense layer", .prefix = prefix, .tensors = std::move(dense)});
  if (num_sparse > 0)
    weights.kinds.push_back({.name = "MoE layer", .prefix = prefix, .tensors = std::move(sparse), .is_moe = true});
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i)
    weights.order.push_back(has_dense && spec.moe.is_moe_layer(i) ? 1 : 0);
}

ModelWeights moe_weights(const ModelSpec& spec, Tensors common, Tensors sparse) {
  Tensors dense = common;
  add_gated_mlp(dense, spec);
  common.insert(common.end(), sparse.begin(), sparse.end());
  ModelWeights weights;
  add_moe_layers(weights, spec, "model.layers.{}.", std::move(dense), std::move(common));
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

void add_sparse_mlp(Tensors& sparse, const ModelSpec& spec, const std::string& module, ExpertNames names) {
  add_linear(sparse, LinearSlot::Router, module + ".gate", spec.hidden_size, spec.moe.num_experts);
  add_experts(sparse, spec, module + ".experts", names);
  if (!spec.moe.has_shared_gate) return;
  add_shared_expert(sparse, spec, module + ".shared_expert");
  add_linear(sparse, LinearSlot::SharedSwitch, module + ".shared_expert_gate", spec.hidden_size, 1);
}

ModelWeights pre_norm_moe_weights(const ModelSpec& spec, const std::string& module, ExpertNames names) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_sparse_mlp(sparse, spec, module, names);
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace gpuplan

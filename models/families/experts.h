// Mixture-of-experts layers: which layers have experts, and the tensors of router, experts and shared expert.
#pragma once

#include "models/families/decoder.h"

namespace gpuplan {

// Far above any model; one layer stays below 3 2^13 2^18 2^20 < 2^53 elements, and the sum over layers is checked.
inline constexpr IntRange kExpertRange{1, 1 << 13};
inline constexpr IntRange kOptionalExpertRange{0, kExpertRange.most};  // of classes that may have none

struct ExpertDefaults {
  std::optional<std::int64_t> num_experts, experts_per_token, intermediate_size;  // unset: the config must say it
};

/// The number of experts (under `count_key`), how many a token goes to (under `chosen_key`), and the width of one
/// (under `width_key`). Reports experts that are fewer than a token needs.
void read_experts(Fields& config, ModelSpec& spec, const char* count_key, const char* width_key,
                  const ExpertDefaults& defaults, const char* chosen_key = "num_experts_per_tok");
/// `step_key`: of how many layers one has experts; `mlp_only_layers`: those without, which must be the first ones.
void read_moe_layers(Fields& config, ModelSpec& spec, const char* step_key);

struct ExpertNames {
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

/// Three linears of every expert: "<module>.{}.gate_proj.weight".
void add_experts(Tensors& tensors, const ModelSpec& spec, const std::string& module, ExpertNames names = {});
/// One linear of all experts in one tensor [experts, in, out].
void add_stacked_experts(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t experts,
                         std::int64_t in, std::int64_t out);
/// A gated MLP under `module` that every token passes.
void add_shared_expert(Tensors& tensors, const ModelSpec& spec, const std::string& module);
/// Layers with the tensors `dense` or `sparse`, as the spec's rule says which. A kind without layers is left out.
void add_moe_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, Tensors dense,
                    Tensors sparse);
/// model.embed_tokens, `common` (attention and norms) with a dense MLP or with `sparse`, model.norm, lm_head unless
/// tied.
ModelWeights moe_weights(const ModelSpec& spec, Tensors common, Tensors sparse);
/// Router, experts, and a shared expert behind a switch where the spec has one, under `module`.
void add_sparse_mlp(Tensors& tensors, const ModelSpec& spec, const std::string& module, ExpertNames names = {});
/// As moe_weights, with norms before attention and MLP; router, experts and a shared expert behind a switch under
/// `module`.
ModelWeights pre_norm_moe_weights(const ModelSpec& spec, const std::string& module = "mlp", ExpertNames names = {});

}  // namespace gpuplan

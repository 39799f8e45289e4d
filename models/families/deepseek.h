// Parts of DeepSeek's models that other families have too.
#pragma once

#include "models/families/decoder.h"

namespace gpuplan {

/// Ranks and head sizes of latent attention (V2 and later).
void read_latent(Fields& config, ModelSpec& spec);
/// q_proj or its two factors, kv_a_proj_with_mqa, its norm, kv_b_proj and o_proj under self_attn.
void add_latent_attention(Tensors& tensors, const ModelSpec& spec);
/// A router that is a bare parameter, with the correction of its scores where the model has it, under `module`.
void add_bare_router(Tensors& tensors, const ModelSpec& spec, const std::string& module);

}  // namespace gpuplan

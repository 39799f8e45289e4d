// The values of flags that describe a recipe in a small language of their own: adapters and offload.
#pragma once

#include <string>

#include "models/recipe.h"

namespace gpuplan {

/// The value of --lora and --qlora: "r=8,alpha=16,dropout=0.05,targets=q_proj+v_proj,dtype=bf16,save=lm_head,dora".
struct AdapterFlag {
  LoraSpec lora;
  QuantSpec quant;
};

/// "" gives the defaults; alpha is 2 r unless given. Throws InputError for an unknown key (with the nearest) or a bad
/// value.
AdapterFlag parse_lora(const std::string& spec);

/// The same, and block=64, double=yes|no, storage=u8|bf16 for the 4-bit base.
AdapterFlag parse_qlora(const std::string& spec);

/// The value of --offload: "optimizer,params:nvme,activations" or "none". Each part goes to the host unless ":nvme"
/// follows. Throws InputError naming the part.
Offload parse_offload_list(const std::string& text);

}  // namespace gpuplan

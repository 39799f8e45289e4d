// The value of --lora and --qlora: "r=8,alpha=16,dropout=0.05,targets=q_proj+v_proj,dtype=bf16,save=lm_head,dora".
#pragma once

#include <string>

#include "models/recipe.h"

namespace gpuplan {

struct AdapterFlag {
  LoraSpec lora;
  QuantSpec quant;
};

/// "" gives the defaults; alpha is 2 r unless given. Throws InputError for an unknown key (with the nearest) or a bad
/// value.
AdapterFlag parse_lora(const std::string& spec);

/// The same, and block=64, double=yes|no, storage=u8|bf16 for the 4-bit base.
AdapterFlag parse_qlora(const std::string& spec);

}  // namespace gpuplan

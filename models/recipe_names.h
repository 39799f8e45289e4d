// How the choices of a recipe are spelt, on the command line, in plan files and in help alike; and the flags that
// describe a recipe in a small language of their own: adapters and offload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/name_table.h"
#include "models/recipe.h"

namespace gpuplan {

NameTable<Method> names_of(Method);                    // full, lora, qlora
NameTable<BaseQuant> names_of(BaseQuant);              // none, nf4, int8
NameTable<Precision> names_of(Precision);              // bf16-true, bf16-mixed, fp16-mixed, fp32
NameTable<AttentionKernel> names_of(AttentionKernel);  // eager, sdpa, flash
NameTable<LossKernel> names_of(LossKernel);            // plain, inplace, chunked, fused
NameTable<LayerKernels> names_of(LayerKernels);        // plain, fused
NameTable<Checkpointing> names_of(Checkpointing);      // none, full, selective, every-k
NameTable<OffloadTarget> names_of(OffloadTarget);      // none, cpu, nvme
NameTable<Packing> names_of(Packing);                  // packed, padded, dynamic
NameTable<TrainVision> names_of(TrainVision);          // no, projector, all, whole
NameTable<Reference> names_of(Reference);              // copy, adapter, precomputed, host, none
NameTable<Qat> names_of(Qat);                          // none, int4, int8-int4, …

/// A kind of checkpointing with its k, as the flag spells it: "full", "every=4", "every-4".
struct CheckpointingChoice {
  Checkpointing kind = Checkpointing::None;
  std::int64_t every = 1;
};
CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where);

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

/// The value of --lora or --qlora that says these adapters: what parse_lora and parse_qlora read, without what is
/// usual.
std::string adapter_spec(const LoraSpec& lora, const QuantSpec& quant);

/// The value of --offload: "optimizer,params:nvme,activations" or "none". Each part goes to the host unless ":nvme"
/// follows. Throws InputError naming the part.
Offload parse_offload_list(const std::string& text);
std::string offload_list(const Offload& offload);

/// The values of --checkpointing and --loss: "every=4", "chunked=8".
std::string checkpointing_text(const Recipe& recipe);
std::string loss_text(const Recipe& recipe);

}  // namespace gpuplan

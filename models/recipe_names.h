// How the choices of a recipe are spelt, on the command line, in plan files and in help alike.
#pragma once

#include <cstdint>
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

/// A kind of checkpointing with its k, as the flag spells it: "full", "every=4", "every-4".
struct CheckpointingChoice {
  Checkpointing kind = Checkpointing::None;
  std::int64_t every = 1;
};
CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where);

}  // namespace gpuplan

// How the choices of a recipe are spelt: one table per enum, read by the command line, plan files and help alike. The
// first spelling of a value is the canonical one, which is printed and stored; the others are what people type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "models/recipe.h"

namespace gpuplan {

/// One spelling of one value.
template <class Enum>
struct NameRow {
  std::string_view name;
  Enum value;
};

/// The canonical spelling; "?" for a value that is not in the table.
template <class Enum>
std::string_view name_in(std::span<const NameRow<Enum>> rows, Enum value) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const NameRow<Enum>& r) { return r.value == value; });
  return row == rows.end() ? "?" : row->name;
}

/// The row of any spelling; case and separators do not matter. nullptr when there is none.
template <class Enum>
const NameRow<Enum>* find_name(std::span<const NameRow<Enum>> rows, std::string_view text) {
  const std::string wanted = squash(text);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const NameRow<Enum>& r) { return squash(r.name) == wanted; });
  return row == rows.end() ? nullptr : &*row;
}

/// The canonical spellings, in the order of the table.
template <class Enum>
std::vector<std::string> canonical_names(std::span<const NameRow<Enum>> rows) {
  std::vector<std::string> names;
  for (const NameRow<Enum>& row : rows)
    if (name_in(rows, row.value) == row.name) names.emplace_back(row.name);
  return names;
}

std::span<const NameRow<Method>> method_names();                // full, lora, qlora
std::span<const NameRow<BaseQuant>> quant_names();              // none, nf4, int8
std::span<const NameRow<Precision>> precision_names();          // bf16-true, bf16-mixed, fp16-mixed, fp32
std::span<const NameRow<AttentionKernel>> attention_names();    // eager, sdpa, flash
std::span<const NameRow<LossKernel>> loss_names();              // plain, inplace, chunked, fused
std::span<const NameRow<LayerKernels>> kernels_names();         // plain, fused
std::span<const NameRow<Checkpointing>> checkpointing_names();  // none, full, selective, every-k
std::span<const NameRow<OffloadTarget>> offload_names();        // none, cpu, nvme
std::span<const NameRow<Packing>> packing_names();              // packed, padded, dynamic

std::string_view to_string(Method value);
std::string_view to_string(BaseQuant value);
std::string_view to_string(Precision value);
std::string_view to_string(AttentionKernel value);
std::string_view to_string(LossKernel value);
std::string_view to_string(LayerKernels value);
std::string_view to_string(Checkpointing value);
std::string_view to_string(OffloadTarget value);
std::string_view to_string(Packing value);

/// Any spelling, forgivingly. Each throws InputError naming `where` (a flag or a key) with the nearest or all names.
Method parse_method(std::string_view text, std::string_view where);
BaseQuant parse_quant(std::string_view text, std::string_view where);
Precision parse_precision(std::string_view text, std::string_view where);
AttentionKernel parse_attention(std::string_view text, std::string_view where);
LossKernel parse_loss(std::string_view text, std::string_view where);
LayerKernels parse_kernels(std::string_view text, std::string_view where);
Checkpointing parse_checkpointing(std::string_view text, std::string_view where);
OffloadTarget parse_offload(std::string_view text, std::string_view where);
Packing parse_packing(std::string_view text, std::string_view where);

/// A kind of checkpointing with its k, as the flag spells it: "full", "every=4", "every-4".
struct CheckpointingChoice {
  Checkpointing kind = Checkpointing::None;
  std::int64_t every = 1;
};
CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where);

}  // namespace gpuplan

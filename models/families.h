// The families of models that gpuplan can build: a file in models/families each, or one with their next of kin, and one
// row in the table of families.cpp. A family reads a Hugging Face config into a ModelSpec, writes it back, and lists
// the weight tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/families/rows.h"

namespace gpuplan {

/// Every row, in the order they are listed to people.
std::span<const Family* const> families();

/// The row of a config's `model_type` and `architectures[0]`; an empty one is taken from the other. nullptr when no row
/// has this pair.
const Family* find_family(std::string_view model_type, std::string_view architecture);

/// The row that built `spec`. Throws InputError naming the model when there is none.
const Family& family_of(const ModelSpec& spec);

/// "llama, mistral, …": what a refusal offers instead.
std::string modelled_families();

}  // namespace gpuplan

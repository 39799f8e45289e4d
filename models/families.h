// The families of models that gpuplan can build, and those that it knows and does not model.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/families/rows.h"

namespace gpuplan {

// The families of models that gpuplan can build: a file in models/families each, or one with their next of kin, and one
// row in the table of families.cpp. A family reads a Hugging Face config into a ModelSpec and lists the weight
// tensors.

/// Every row, in the order they are listed to people.
std::span<const Family* const> families();

/// The row of a config's `model_type` and `architectures[0]`; an empty one is taken from the other. nullptr when no row
/// has this pair.
const Family* find_family(std::string_view model_type, std::string_view architecture);

/// The row that built `spec`. Throws InputError naming the model when there is none.
const Family& family_of(const ModelSpec& spec);

/// "llama, mistral, …": what a refusal offers instead.
std::string modelled_families();

// Families that are known and not modelled, each with the reason, so that a refusal says more than "unknown".

/// Says why models of this `model_type` (of a config.json) are not modelled; empty when the table has no such type.
std::string why_type_is_not_modelled(std::string_view model_type);

/// The same by a model's name, with or without its organisation, where its config.json is not at hand; empty when no
/// row of the table begins the name.
std::string why_name_is_not_modelled(std::string_view name);

}  // namespace gpuplan

// Families that are known and not modelled, each with the reason, so that a refusal says more than "unknown".
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// Why models of this `model_type` (of a config.json) are not modelled; empty when the table has no such type.
std::string why_type_is_not_modelled(std::string_view model_type);

/// The same by a model's name, with or without its organisation, where its config.json is not at hand; empty when no
/// row of the table begins the name.
std::string why_name_is_not_modelled(std::string_view name);

}  // namespace gpuplan

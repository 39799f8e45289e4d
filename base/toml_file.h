// TOML 1.0 as values with their lines, for configuration files of other programs, and as text. Dates and times are
// texts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/value_tree.h"

namespace gpuplan {

/// Throws InputError with file and line where the text is no TOML. Places hold lines alone.
std::shared_ptr<ValueTree> parse_toml(std::string_view text, const std::string& file);

/// A mapping as TOML. Throws InputError for null, which TOML has not.
std::string toml_text(const nlohmann::ordered_json& mapping);

}  // namespace gpuplan

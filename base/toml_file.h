// TOML 1.0 as values with their lines, for configuration files of other programs. Dates and times are texts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/value_tree.h"

namespace gpuplan {

/// Throws InputError with file and line where the text is no TOML. Places hold lines alone.
std::shared_ptr<ValueTree> parse_toml(std::string_view text, const std::string& file);

}  // namespace gpuplan

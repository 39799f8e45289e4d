// Changes of single values in a TOML text; comments, order and unknown keys stay as they are.
#pragma once

#include <optional>
#include <string>

#include "ecosystem/emit.h"

namespace gpuplan {

/// `text` with another value of a key ("trainer.model.ac.mode"): in place where it is there, else as a line of its
/// table, or in a table that is new. null takes the line away. Nothing where the text has no place for it. Requires:
/// `text` is TOML.
std::optional<std::string> toml_with(const std::string& text, const std::string& key, const OrderedJson& value);

}  // namespace gpuplan

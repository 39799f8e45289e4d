// Where the values of a JSON text stand.
#pragma once

#include <string>
#include <unordered_map>

#include "base/value_tree.h"

namespace gpuplan {

/// The places of keys and values by path ("zero_optimization.stage"; "" is the whole), as base/yaml_file notes those of
/// YAML. Requires: `text` is JSON.
std::unordered_map<std::string, ValueTree::Place> json_places(const std::string& text);

/// Returns the place behind the value that begins at `begin`. Requires: as above.
std::size_t json_end(const std::string& text, std::size_t begin);

}  // namespace gpuplan

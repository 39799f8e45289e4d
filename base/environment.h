// The variables of the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

/// Its value, which may be empty; nothing where it is not set.
std::optional<std::string> variable(const std::string& name);
/// Its value; "" where it is not set.
std::string text_of_variable(const std::string& name);
bool has_variable(const std::string& name);

/// All of them, as "NAME=value": what a child process gets.
std::vector<std::string> all_variables();

}  // namespace gpuplan

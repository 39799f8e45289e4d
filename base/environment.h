// The variables of the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

/// Returns its value, which may be empty; nothing where it is not set.
std::optional<std::string> variable(const std::string& name);
/// Returns its value; "" where it is not set.
std::string text_of_variable(const std::string& name);
bool has_variable(const std::string& name);

/// Returns all of them as "NAME=value", as a child process gets them.
std::vector<std::string> all_variables();

}  // namespace gpuplan

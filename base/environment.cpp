#include "base/environment.h"

#include <cstdlib>

#include <unistd.h>

#include "base/surroundings.h"

namespace gpuplan {

std::optional<std::string> variable(const std::string& name) {
  if (const Surroundings* const given = given_surroundings()) {
    const auto found = given->variables.find(name);
    return found == given->variables.end() ? std::nullopt : std::optional(found->second);
  }
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string text_of_variable(const std::string& name) { return variable(name).value_or(""); }

bool has_variable(const std::string& name) { return variable(name).has_value(); }

std::vector<std::string> all_variables() {
  std::vector<std::string> out;
  if (const Surroundings* const given = given_surroundings())
    for (const auto& [name, value] : given->variables) out.push_back(name + "=" + value);
  else
    for (char** at = environ; *at; ++at) out.emplace_back(*at);
  return out;
}

}  // namespace gpuplan

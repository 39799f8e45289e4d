// Reading a value by its name, for enumerations with a to_string: what is unknown is refused with the nearest name and
// all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {

/// The value of `all` that to_string calls `text`. Throws InputError: "unknown <what> '<text>'".
template <class Values>
typename Values::value_type parse_named(const Values& all, std::string_view text, std::string_view where,
                                        const std::string& what) {
  std::vector<std::string> names;
  for (const auto value : all) {
    if (to_string(value) == text) return value;
    names.emplace_back(to_string(value));
  }
  std::string known = "known: ";
  for (const std::string& name : names) known += (&name == &names.front() ? "" : ", ") + name;
  throw InputError(std::string(where), "unknown " + what + " '" + std::string(text) + "'",
                   did_you_mean(text, names, known));
}

}  // namespace gpuplan

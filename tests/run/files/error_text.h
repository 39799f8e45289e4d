// What an error says, for checks of its parts.
#pragma once

#include <string>

#include <doctest/doctest.h>

namespace gpuplan::test {

/// The text of the Error that `action` throws; empty when it throws none.
template <class Error, class Action>
std::string error_text(Action action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  return {};
}

inline void check_mentions(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace gpuplan::test

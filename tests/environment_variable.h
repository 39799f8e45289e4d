// A variable of the environment that a test sets for a while.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace gpuplan::test {

/// Set while this lives, or unset with nullptr; then as it was before.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace gpuplan::test

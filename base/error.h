// The three ways a command can end badly. An answer "no" is a value, never an exception.
//   InputError  the user's input is wrong            exit code 2
//   EnvError    environment error (files, devices)   exit code 3
//   BugError    we are wrong (GPUPLAN_CHECK)         exit code 4
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace gpuplan {

/// Exit codes of a bad end, by who was wrong.
inline constexpr int kWrongInput = 2, kWorldFailed = 3, kOurBug = 4;

/// A mistake of the user: what was wrong, where (flag, file:line or key), and what would be right. `what()` joins the
/// three.
class InputError : public std::runtime_error {
 public:
  InputError(std::string where, std::string problem, std::string hint = {});
  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }
  const std::string& hint() const { return hint_; }
  /// The same error, seen from further out: "context: where".
  InputError add_context(std::string_view context) const;

 private:
  std::string where_, problem_, hint_;
};

/// Text that may quote a file or a flag, whose line feeds begin no line of ours: those are indented.
std::string in_our_lines(std::string text);

/// Arithmetic that passed the end of its numbers (base/units.h). What asked for less may still be answered.
class AmountTooLarge : public InputError {
 public:
  using InputError::InputError;
};

class EnvError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class BugError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* message, const char* file, int line);

}  // namespace gpuplan

/// Holds for every input, however wrong; if not, the bug is ours.
#define GPUPLAN_CHECK(condition, message)                                             \
  do {                                                                                \
    if (!(condition)) ::gpuplan::fail_check(#condition, message, __FILE__, __LINE__); \
  } while (0)

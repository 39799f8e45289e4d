#include "base/error.h"

#include <fmt/format.h>

#include "base/narrow.h"
#include "base/units.h"

namespace gpuplan {
namespace {

std::string join(const std::string& where, const std::string& problem, const std::string& hint) {
  std::string text = where.empty() ? problem : fmt::format("{}: {}", where, problem);
  if (!hint.empty()) text += fmt::format("\n  {}", hint);
  return text;
}

}  // namespace

std::string in_our_lines(std::string text) {
  for (std::size_t at = 0; (at = text.find_first_of("\n\r", at)) != std::string::npos; ++at)
    if (text.compare(at, 3, "\n  ") != 0) text.replace(at, 1, text[at] == '\n' ? "\\n" : "\\r");
  return text;
}

InputError::InputError(std::string where, std::string problem, std::string hint)
    : std::runtime_error(join(in_our_lines(where), in_our_lines(problem), in_our_lines(hint))),
      where_(in_our_lines(std::move(where))),
      problem_(in_our_lines(std::move(problem))),
      hint_(in_our_lines(std::move(hint))) {}

InputError InputError::add_context(std::string_view context) const {
  return {where_.empty() ? std::string(context) : fmt::format("{}: {}", context, where_), problem_, hint_};
}

void fail_check(const char* condition, const char* message, const char* file, int line) {
  throw BugError(fmt::format("{} (check `{}` failed at {}:{})", message, condition, file, line));
}

void fail_to_narrow(const char* file, int line) {
  throw BugError(fmt::format("a number does not fit its field ({}:{})", file, line));
}

void refuse_overflow() {
  throw AmountTooLarge("", "an amount is too large to compute with",
                       "bytes are counted to 2^63, simulated time to 106 days: ask for less");
}

}  // namespace gpuplan

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

InputError::InputError(std::string where, std::string problem, std::string hint)
    : std::runtime_error(join(where, problem, hint)),
      where_(std::move(where)),
      problem_(std::move(problem)),
      hint_(std::move(hint)) {}

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

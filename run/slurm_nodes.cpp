#include "run/slurm_nodes.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostNodes = 1 << 20;  // more is no list of nodes

[[noreturn]] void refuse(std::string_view list, std::string_view where) {
  throw InputError(std::string(where), fmt::format("'{}' in the environment is no list of Slurm's", list),
                   "set MASTER_ADDR to the host of rank 0");
}

/// At commas outside brackets.
std::vector<std::string_view> parts_of(std::string_view list, std::string_view where) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (depth < 0 || depth > 1) refuse(list, where);
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i == begin) refuse(list, where);
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  if (depth != 0) refuse(list, where);
  return parts;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::int64_t number_of(std::string_view text, std::string_view list, std::string_view where) {
  if (!is_number(text)) refuse(list, where);
  return parse_integer(text, where, 0);
}

/// What is between brackets: "01-03,7" is 01, 02, 03, 7: as wide as the first of a range.
std::vector<std::string> numbers_in(std::string_view ranges, std::string_view list, std::string_view where) {
  std::vector<std::string> out;
  for (const std::string_view range : parts_of(ranges, where)) {
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash),
                           last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    const std::int64_t from = number_of(first, list, where), to = number_of(last, list, where);
    if (to < from || to - from >= kMostNodes) refuse(list, where);
    for (std::int64_t n = from; n <= to; ++n) out.push_back(fmt::format("{:0{}}", n, first.size()));
  }
  return out;
}

/// One name with any number of brackets.
std::vector<std::string> expand_name(std::string_view name, std::string_view list, std::string_view where) {
  std::vector<std::string> out{""};
  while (!name.empty()) {
    const std::size_t open = name.find('['), close = name.find(']');
    for (std::string& text : out) text += name.substr(0, open);
    if (open == std::string_view::npos) return out;
    const auto numbers = numbers_in(name.substr(open + 1, close - open - 1), list, where);
    std::vector<std::string> longer;
    if (std::ssize(out) * std::ssize(numbers) > kMostNodes) refuse(list, where);
    for (const std::string& text : out)
      for (const std::string& number : numbers) longer.push_back(text + number);
    out = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

std::vector<std::string> expand_nodes(std::string_view list, std::string_view where) {
  std::vector<std::string> out;
  for (const std::string_view part : parts_of(list, where))
    for (std::string& name : expand_name(part, list, where)) out.push_back(std::move(name));
  return out;
}

std::vector<std::int64_t> expand_counts(std::string_view list, std::string_view where) {
  std::vector<std::int64_t> out;
  for (const std::string_view part : parts_of(list, where)) {
    const std::size_t open = part.find("(x");
    const std::int64_t count = number_of(part.substr(0, open), list, where);
    std::int64_t times = 1;
    if (open != std::string_view::npos) {
      if (part.back() != ')') refuse(list, where);
      times = number_of(part.substr(open + 2, part.size() - open - 3), list, where);
    }
    if (times > kMostNodes) refuse(list, where);
    out.insert(out.end(), std::size_t(times), count);
  }
  return out;
}

}  // namespace gpuplan

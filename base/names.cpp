#include "base/names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/utf8.h"

namespace gpuplan {

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string squash(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text)
    if (c != ' ' && c != '-' && c != '_' && c != '.' && c != '/')
      out += c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c;
  return out;
}

std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates, std::size_t most) {
  const std::string wanted = squash(text);
  struct Scored {
    std::size_t distance, order;
  };
  std::vector<Scored> scored;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string candidate = squash(candidates[i]);
    const auto [shorter, longer] = std::minmax({wanted.size(), candidate.size()});
    const std::size_t farthest = std::max<std::size_t>(1, longer / 3);
    // As many insertions as the lengths differ are needed: the distance to what is much longer need not be known.
    std::size_t distance = longer - shorter > farthest ? farthest + 1 : edit_distance(wanted, candidate);
    if (wanted.size() >= 3 && candidate.find(wanted) != std::string::npos)
      distance = std::min<std::size_t>(distance, 1);
    if (distance <= farthest) scored.push_back({distance, i});
  }
  std::ranges::stable_sort(scored, [](const Scored& a, const Scored& b) { return a.distance < b.distance; });
  std::vector<std::string> out;
  for (const Scored& s : scored) {
    if (out.size() == most) break;
    if (std::find(out.begin(), out.end(), candidates[s.order]) == out.end()) out.push_back(candidates[s.order]);
  }
  return out;
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates, std::string otherwise) {
  const auto near = nearest(text, candidates);
  if (near.empty()) return otherwise;
  if (near.size() == 1) return fmt::format("did you mean '{}'?", near[0]);
  return fmt::format("did you mean one of '{}'?", fmt::join(near, "', '"));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    out.emplace_back(trim(text.substr(begin, end == std::string_view::npos ? end : end - begin)));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

void require_plain_name(std::string_view name, const std::string& where, std::string hint) {
  if (const std::string shown = printable_line(name); shown != name)
    throw InputError(where, fmt::format("'{}' holds a control character", shown), std::move(hint));
}

long long parse_integer(std::string_view text, std::string_view where, long long at_least, long long at_most) {
  const std::string_view digits = trim(text);
  long long value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range && end == digits.data() + digits.size())
    throw InputError(std::string(where), fmt::format("{} is out of range", digits));
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty())
    throw InputError(std::string(where), fmt::format("'{}' is not a whole number", text),
                     fmt::format("write a whole number, {} or more", at_least));
  if (value < at_least)
    throw InputError(std::string(where), fmt::format("{} is too small", value),
                     fmt::format("must be {} or more", at_least));
  if (value > at_most)
    throw InputError(std::string(where), fmt::format("{} is out of range", value),
                     fmt::format("{} to {}", at_least, at_most));
  return value;
}

std::optional<double> as_number(std::string_view text) {
  const std::string digits(trim(text));
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  if (digits.empty() || end != digits.c_str() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

double parse_number(std::string_view text, std::string_view where) {
  if (const auto value = as_number(text)) return *value;
  throw InputError(std::string(where), fmt::format("'{}' is not a number", text));
}

}  // namespace gpuplan

#include "models/version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fields.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::size_t kLongestVersion = 40, kMostDigits = 9;

bool looks_like_version(std::string_view text) {
  constexpr std::string_view kMarks = ".+-_";
  return !text.empty() && is_digit(text.front()) && text.size() < kLongestVersion &&
         std::ranges::all_of(text, [&](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != std::string_view::npos;
         });
}

/// The numbers at the beginnings of the parts, up to a part that is more than one.
std::vector<long> numbers_of(std::string_view text) {
  std::vector<long> numbers;
  numbers.reserve(4);
  while (true) {
    const std::string_view part = text.substr(0, text.find('.'));
    const std::size_t num_digits = std::min(part.find_first_not_of("0123456789"), part.size());
    if (num_digits == 0) return numbers;
    std::from_chars(part.data(), part.data() + std::min(num_digits, kMostDigits), numbers.emplace_back());
    if (num_digits < part.size() || part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

// The longer signs come first: ">=" begins with ">".
constexpr std::array<std::string_view, 6> kSigns{">=", "<=", "==", "!=", ">", "<"};

bool meets(const Version& version, std::string_view sign, const Version& bound) {
  if (sign == ">=") return version >= bound;
  if (sign == "<=") return version <= bound;
  if (sign == ">") return version > bound;
  if (sign == "<") return version < bound;
  const bool is_it = bound.text.ends_with(".*") ? version.is_a(bound) : version == bound;
  return is_it == (sign == "==");
}

}  // namespace

std::weak_ordering Version::operator<=>(const Version& other) const {
  for (std::size_t i = 0; i < std::max(numbers.size(), other.numbers.size()); ++i) {
    const long a = i < numbers.size() ? numbers[i] : 0, b = i < other.numbers.size() ? other.numbers[i] : 0;
    if (a != b) return a <=> b;
  }
  return std::weak_ordering::equivalent;
}

bool Version::is_a(const Version& request) const {
  return numbers.size() >= request.numbers.size() &&
         std::equal(request.numbers.begin(), request.numbers.end(), numbers.begin());
}

bool Version::has_suffix() const { return text.find_first_not_of("0123456789.") != std::string::npos; }

std::optional<Version> as_version(std::string_view text) {
  if (text == kNoVersion) return Version{.numbers = {0}, .text = std::string(text)};
  if (!looks_like_version(text)) return std::nullopt;
  return Version{.numbers = numbers_of(text), .text = std::string(text)};
}

Version to_version(std::string_view text, const std::string& where) {
  if (auto version = as_version(text)) return *std::move(version);
  throw InputError(where, fmt::format("'{}' is no version", text), "for example 4.57.1");
}

bool read_field(Fields& fields, std::string_view key, const nlohmann::json& from, Version& version) {
  const auto text = fields.to_text(from, key);  // 5.10 without quotes would be the number 5.1
  if (!text) return false;
  if (auto found = as_version(*text)) return version = *std::move(found), true;
  fields.report(key, fmt::format("'{}' is no version", *text));
  return false;
}

bool VersionRange::holds(const Version& version) const {
  return std::ranges::all_of(bounds_, [&](const Bound& bound) { return meets(version, bound.sign, bound.version); });
}

bool read_field(Fields& fields, std::string_view key, const nlohmann::json& from, VersionRange& range) {
  const auto text = fields.to_text(from, key);
  if (!text) return false;
  range = VersionRange();
  range.text_ = *text;
  for (const std::string& item : split(*text, ',')) {
    std::string_view rest = trim(item), sign = "==";
    for (const std::string_view known : kSigns)
      if (rest.starts_with(known)) {
        sign = known;
        rest = trim(rest.substr(known.size()));
        break;
      }
    const auto bound = as_version(rest.ends_with(".*") ? rest.substr(0, rest.size() - 2) : rest);
    if (!bound) return fields.report(key, fmt::format("'{}' is no bound of versions", item)), false;
    range.bounds_.push_back({sign, {.numbers = bound->numbers, .text = std::string(rest)}});
  }
  return true;
}

std::vector<std::pair<std::string, Version>> version_pairs(std::string_view text) {
  std::vector<std::pair<std::string, Version>> pairs;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos)
      throw InputError("--versions", fmt::format("'{}' has no version", item), "for example accelerate=1.10,torch=2.6");
    std::string package = to_lower(trim(std::string_view(item).substr(0, equals)));
    const std::string_view given = trim(std::string_view(item).substr(equals + 1));
    auto version = as_version(given);
    if (!version)
      throw InputError("--versions", fmt::format("'{}' is no version of {}", given, package),
                       fmt::format("for example {}=1.10", package));
    if (std::ranges::any_of(pairs, [&](const auto& pair) { return pair.first == package; }))
      throw InputError("--versions", package + " is given twice", "give it once");
    pairs.emplace_back(std::move(package), *std::move(version));
  }
  return pairs;
}

}  // namespace gpuplan

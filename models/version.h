// Versions of other programs as people and their package managers write them, and ranges of them.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

class Fields;

/// "2.6.0+cu124": the numbers before anything that is none decide the order, so that "2.6" and "2.6.0" are equal.
struct Version {
  std::vector<long> numbers;
  std::string text;

  std::weak_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return (*this <=> other) == 0; }
  /// Says whether its numbers begin with those of `request`: 4.57.6 is a 4.57.
  bool is_a(const Version& request) const;
  bool has_suffix() const;  // of a pre-release, a build or a local version
};

/// Holds what stands for a version of a library that is not there; it is before every release.
inline constexpr std::string_view kNoVersion = "none";

/// Nothing where the text is no version, nor kNoVersion.
std::optional<Version> as_version(std::string_view text);
/// A text that is known to be one. Throws InputError naming `where` otherwise.
Version to_version(std::string_view text, const std::string& where);
bool read_field(Fields& fields, std::string_view key, const nlohmann::json& from, Version& version);

/// As requirements state it: ">=4.51.0,<=4.57.1,!=4.52.0,!=4.56.*", or "4.57.1" for that version alone.
class VersionRange {
 public:
  bool holds(const Version& version) const;
  const std::string& text() const { return text_; }

 private:
  friend bool read_field(Fields& fields, std::string_view key, const nlohmann::json& from, VersionRange& range);

  struct Bound {
    std::string_view sign;
    Version version;
  };
  std::string text_;
  std::vector<Bound> bounds_;
};

/// Pairs of a package, in lower case, and a version: "accelerate=1.10.1,torch=2.5". Throws InputError naming --versions
/// for an item without a version, what is no version, and a package that is given twice.
std::vector<std::pair<std::string, Version>> version_pairs(std::string_view text);

}  // namespace gpuplan

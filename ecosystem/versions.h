// The versions of other programs that files are written for: which keys they know, and what they cannot do
// (data/ecosystem/versions.yaml).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecosystem/setup.h"

namespace gpuplan {

/// Pairs of a package, in lower case, and its version: {"accelerate", "1.10.1"}.
using Versions = std::vector<std::pair<std::string, std::string>>;

/// "accelerate=1.10.1,torch=2.5". Throws InputError naming --versions for an unknown package, a package given twice,
/// what is no version, and a version older than the keys that are known.
Versions parse_versions(std::string_view text);

/// The version of a package; nothing where it is not given.
std::optional<std::string> version_of(const Versions& versions, std::string_view package);

/// Compares numbers part by part: "1.9" is older than "1.10", "2.6.0+cu124" is not older than "2.6".
bool is_older(std::string_view version, std::string_view than);

/// Holds what a version of a package cannot do.
struct VersionRule {
  std::string id, package, before, reason, nearest;
  std::vector<std::pair<const SetupField*, nlohmann::json>> when;  // facts that must all hold; "*": any value
};

/// The first rule that a set-up breaks under the given versions; nullptr when it breaks none.
const VersionRule* broken_version_rule(const Setup& setup, const Versions& versions);

}  // namespace gpuplan

// The software stack as an axis: which releases of other programs there are, which of them a trainer is used with, and
// what holds from which version on (data/stack, one file per library). A stack is one version of each library; whoever
// needs a fact asks the stack for it and never compares versions itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/version.h"

namespace gpuplan {

struct Release {
  Version version;
  std::string date;  // "2026-08-10"
};

/// The ranges of other libraries that a version of a trainer asks for; they hold until the next pin.
struct Pin {
  Version version;
  std::map<std::string, VersionRange> ranges;  // by library
};

/// A fact that holds of a library from one version on and before another, for all types of models or some.
struct StackFact {
  std::string path;  // of a field of a trainer's record, "defaults.loss", or of the stack's own, "experts.layout"
  std::optional<Version> since, before;             // since is inside, before outside
  std::map<std::string, VersionRange> others;       // it holds with these versions of other libraries alone
  std::optional<std::vector<std::string>> records;  // of data/frameworks; unset: those of the library
  std::vector<std::string> families;                // `model_type`s; none: all
  nlohmann::json value;
  bool awaits = false;  // nothing reads it yet
  std::string source;

  bool is_about(std::string_view family) const;
};

struct Library {
  std::string name, repository, source;
  bool is_trainer = false;
  bool is_optional = false;  // a trainer runs without it
  /// Records of data/frameworks: a trainer's own, or those that stand on the library; unset: all of them.
  std::optional<std::vector<std::string>> records;
  std::vector<Release> releases;              // by version
  std::vector<Pin> pins;                      // by version
  std::map<std::string, std::string> models;  // the version that has a `model_type` first, where one is listed
  std::vector<StackFact> facts;               // a later row wins over an earlier one

  bool is_under(std::string_view record) const;
  const Release& newest() const { return releases.back(); }
};

/// All of data/stack, by name.
const std::vector<Library>& libraries();
/// Throws InputError naming --versions with the nearest names.
const Library& find_library(std::string_view name);

/// A version of each library.
using StackVersions = std::map<std::string, Version, std::less<>>;

/// The newest release of every library under a trainer's record ("" is all libraries), unless `given` has one; not
/// after `date`, where one is given. Pins of the trainer's version bound the others: the newest that they allow.
StackVersions stack_versions(const StackVersions& given = {}, std::string_view record = {}, std::string_view date = {});
inline StackVersions newest_versions(std::string_view record = {}) { return stack_versions({}, record); }
inline StackVersions versions_at(std::string_view date, std::string_view record = {}) {
  return stack_versions({}, record, date);
}

/// "transformers=4.57,trl=0.24", or "installed"; "flash-linear-attention=none" of a library that may be missing. 4.57
/// is the newest 4.57.x; a version that is newer than the newest known, or that has a suffix
/// (5.16.0.dev0, 2.6.0+cu124), is taken as it is. Throws InputError naming --versions for an unknown library and for a
/// release that there is not, with the nearest ones.
StackVersions parse_stack_versions(std::string_view text);

/// "peft=0.20.0,transformers=5.15.0": what parse_stack_versions() reads.
std::string versions_text(const StackVersions& versions);

/// "peft 0.20.0, transformers 5.15.0": those that facts acting under a trainer's record depend on.
std::string deciding_versions(const StackVersions& versions, std::string_view record);

/// The rows that hold under a trainer's record, those of libraries before those of trainers.
std::vector<const StackFact*> facts_for(const StackVersions& versions, std::string_view record = {});

/// The value that holds for a type of models; nullptr where no row states one. Rows that await a reader do not act.
const nlohmann::json* fact(const std::vector<const StackFact*>& rows, std::string_view path,
                           std::string_view family = {});
/// The rows' changes of a trainer's record, as an object that can be merged over it.
nlohmann::json record_facts(const std::vector<const StackFact*>& rows, std::string_view family = {});
/// Says whether a path belongs to the stack itself rather than to a trainer's record.
bool is_own_fact(std::string_view path);

}  // namespace gpuplan

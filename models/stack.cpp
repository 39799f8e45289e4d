#include "models/stack.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"
#include "base/names.h"
#include "base/packed_fields.h"
#include "base/surroundings.h"
#include "models/installed_packages.h"

namespace gpuplan {

using nlohmann::json;

// Found by argument-dependent lookup.
static bool read_field(Fields&, std::string_view, const json& from, json& value) { return value = from, true; }
static void read_packed(PackedValue from, Version& version) { version = to_version(from.text(), "data/stack"); }
static void read_packed(PackedValue from, VersionRange& range) {
  static const json kNone = json::object();
  static thread_local Fields none(kNone, "data/stack");  // where a problem would be noted
  read_field(none, "", json(from.text()), range);
}

namespace {

template <class Archive>
std::map<std::string, VersionRange> ranges_at(Archive& fields, std::string_view key) {
  std::map<std::string, VersionRange> ranges;
  if (auto inner = fields.optional_fields(key))
    for (const std::string& library : inner->keys()) (*inner)(library, ranges[library]);
  return ranges;
}

template <class Archive>
StackFact fact_from(Archive& fields) {
  StackFact fact{.path = fields.text("fact"), .others = ranges_at(fields, "with"), .source = fields.text("source")};
  fields.optional("since", fact.since);
  fields.optional("before", fact.before);
  fields.optional("records", fact.records);
  fields.optional("families", fact.families);
  fields.optional("awaits", fact.awaits);
  fields("value", fact.value);
  fields.refuse_unknown();
  return fact;
}

/// A day and the versions that were released on it.
template <class Archive>
void read_releases(Archive days, std::vector<Release>& releases) {
  for (const std::string& day : days.keys())
    for (const std::string& version : days.texts(day)) releases.push_back({to_version(version, days.file()), day});
  std::ranges::stable_sort(releases, {}, &Release::version);
}

template <class Archive>
void read_pins(Archive pins, std::vector<Pin>& out) {
  for (const std::string& version : pins.keys())
    out.push_back({.version = to_version(version, pins.file()), .ranges = ranges_at(pins, version)});
  std::ranges::sort(out, {}, &Pin::version);
}

/// Reads who is asked at all: no releases, pins, models and facts.
template <class Archive>
Library read_head(Archive& fields) {
  Library library{
      .name = fields.text("library"), .repository = fields.text("repository"), .source = fields.text("source")};
  library.is_trainer = fields.text("kind") == "trainer";
  fields.optional("optional", library.is_optional);
  fields.optional("records", library.records);
  return library;
}

template <class Archive>
Library read_library(Archive& fields) {
  Library library = read_head(fields);
  read_releases(fields.fields("releases"), library.releases);
  if (auto pins = fields.optional_fields("pins")) read_pins(*pins, library.pins);
  if (auto models = fields.optional_fields("models"))
    for (const std::string& type : models->keys()) library.models[type] = models->text(type);
  for (auto& row : fields.list("facts")) library.facts.push_back(fact_from(row));
  fields.refuse_unknown();
  return library;
}

/// A file of data/stack, of which a question needs those under its record.
struct Shelved {
  std::filesystem::path file;
  Library head;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  mutable std::unique_ptr<const Library> read;

  const Library& whole() const {
    const std::lock_guard lock(*mutex);
    if (!read) read = std::make_unique<Library>(read_shipped(file, [](auto& fields) { return read_library(fields); }));
    if (read->releases.empty()) throw InputError(file.string(), "no release");
    return *read;
  }
};

std::vector<Shelved> read_shelf() {
  std::vector<Shelved> out;
  for (const auto& file : files_in(data_dir() / "stack", ".json"))
    out.push_back({.file = file, .head = read_shipped(file, [](auto& fields) { return read_head(fields); })});
  return out;
}

const std::vector<Shelved>& shelf() { return read_once<read_shelf>(); }

std::vector<Library> read_libraries() {
  std::vector<Library> out;
  for (const Shelved& one : shelf()) out.push_back(one.whole());
  return out;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Shelved& one : shelf()) out.push_back(one.head.name);
  return out;
}

const Library* known_library(std::string_view name) {
  for (const Shelved& one : shelf())
    if (one.head.name == name) return &one.whole();
  return nullptr;
}

bool is_under(const std::optional<std::vector<std::string>>& records, std::string_view record) {
  return record.empty() || !records || std::ranges::find(*records, record) != records->end();
}

/// The ranges that the trainers of a record ask for, by library.
using Bounds = std::map<std::string, std::vector<const VersionRange*>, std::less<>>;

bool is_allowed(const Bounds& bounds, const std::string& library, const Version& version) {
  const auto asked = bounds.find(library);
  return asked == bounds.end() ||
         std::ranges::all_of(asked->second, [&](const VersionRange* range) { return range->holds(version); });
}

/// The newest release that is allowed and not after `date`; without one, the newest that is allowed, since what a
/// trainer asks for was there with it.
const Release* newest_allowed(const Library& library, const Bounds& bounds, std::string_view date) {
  const Release* found = nullptr;
  for (const Release& release : library.releases)
    if ((date.empty() || release.date <= date) && is_allowed(bounds, library.name, release.version)) found = &release;
  if (found || !bounds.contains(library.name)) return found;
  for (const Release& release : library.releases)
    if (is_allowed(bounds, library.name, release.version)) found = &release;
  return found;
}

void add_pins(const Library& trainer, const Version& version, Bounds& bounds) {
  const Pin* held = nullptr;
  for (const Pin& pin : trainer.pins)
    if (pin.version <= version) held = &pin;
  if (!held) return;
  for (const auto& [library, range] : held->ranges) bounds[library].push_back(&range);
}

bool holds(const StackFact& row, const Version& version, const StackVersions& versions) {
  if ((row.since && version < *row.since) || (row.before && version >= *row.before)) return false;
  return std::ranges::all_of(row.others, [&](const auto& other) {
    const auto found = versions.find(other.first);
    return found != versions.end() && other.second.holds(found->second);
  });
}

void add_facts(const Library& library, const StackVersions& versions, std::string_view record,
               std::vector<const StackFact*>& rows) {
  const auto version = versions.find(library.name);
  if (version == versions.end()) return;
  for (const StackFact& row : library.facts)
    if (is_under(row.records, record) && holds(row, version->second, versions)) rows.push_back(&row);
}

/// Releases around a version that is none.
std::string near_releases(const Library& library, const Version& wanted) {
  const auto after = std::ranges::lower_bound(library.releases, wanted, {}, &Release::version);
  std::vector<std::string> near;
  if (after != library.releases.begin()) near.push_back(std::prev(after)->version.text);
  if (after != library.releases.end()) near.push_back(after->version.text);
  return fmt::format("nearest: {}; the newest is {}", fmt::join(near, " and "), library.newest().version.text);
}

Version release_of(const Library& library, const Version& wanted) {
  if (wanted.text == kNoVersion && library.is_optional) return wanted;
  if (wanted.text == kNoVersion)
    throw InputError("--versions", fmt::format("{} is always there", library.name),
                     fmt::format("the newest is {}", library.newest().version.text));
  const Release* found = nullptr;
  for (const Release& release : library.releases)
    if (release.version.is_a(wanted)) found = &release;
  if (found && !wanted.has_suffix()) return found->version;
  const Version& newest = library.newest().version;
  // A version after the data were written has the facts of the newest; "40.57" is a slip.
  const bool is_newer = wanted > newest && wanted.numbers.front() <= newest.numbers.front() + 1;
  const bool is_build = wanted.has_suffix() && wanted >= library.releases.front().version && wanted <= newest;
  if (is_newer || is_build) return wanted;
  throw InputError("--versions", fmt::format("there is no release {} of {}", wanted.text, library.name),
                   near_releases(library, wanted));
}

/// First parts of the paths that belong to no trainer's record.
constexpr std::array<std::string_view, 6> kOwnFacts{"target_parameters", "checkpoint", "leaf_modules",
                                                    "wrap_classes",      "kernels",    "load"};

}  // namespace

bool StackFact::is_about(std::string_view family) const {
  return families.empty() || std::ranges::find(families, family) != families.end();
}

bool Library::is_under(std::string_view record) const { return gpuplan::is_under(records, record); }

const std::vector<Library>& libraries() { return read_once<read_libraries>(); }

const Library& find_library(std::string_view name) {
  const std::string lower = to_lower(name);
  if (const Library* library = known_library(lower)) return *library;
  throw InputError("--versions", fmt::format("unknown library '{}'", name),
                   did_you_mean(lower, names(), fmt::format("known: {}", fmt::join(names(), ", "))));
}

StackVersions stack_versions(const StackVersions& given, std::string_view record, std::string_view date) {
  StackVersions out;
  Bounds bounds;
  for (const bool is_trainer : {true, false})
    for (const Shelved& one : shelf()) {
      if (one.head.is_trainer != is_trainer || !one.head.is_under(record)) continue;
      const Library& library = one.whole();
      const auto stated = given.find(library.name);
      const Release* const newest = newest_allowed(library, bounds, date);
      if (stated != given.end())
        out[library.name] = stated->second;
      else if (newest)
        out[library.name] = newest->version;
      // Without a record, trainers that exclude one another stand side by side.
      if (is_trainer && !record.empty() && out.contains(library.name)) add_pins(library, out[library.name], bounds);
    }
  return out;
}

StackVersions parse_stack_versions(std::string_view text) {
  if (trim(text) == "installed") return installed_versions();
  StackVersions versions;
  for (const auto& [name, version] : version_pairs(text)) versions[name] = release_of(find_library(name), version);
  return versions;
}

std::string versions_text(const StackVersions& versions) {
  std::string text;
  for (const auto& [library, version] : versions)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", library, version.text);
  return text;
}

std::vector<const StackFact*> facts_for(const StackVersions& versions, std::string_view record) {
  std::vector<const StackFact*> rows;
  for (const bool is_trainer : {false, true})
    for (const Shelved& one : shelf())
      if (one.head.is_trainer == is_trainer && one.head.is_under(record))
        add_facts(one.whole(), versions, record, rows);
  return rows;
}

std::string deciding_versions(const StackVersions& versions, std::string_view record) {
  std::set<std::string, std::less<>> deciding;
  for (const auto& [name, version] : versions)
    for (const StackFact& row : find_library(name).facts) {
      if (row.awaits || is_own_fact(row.path) || !is_under(row.records, record)) continue;
      deciding.insert(name);
      for (const auto& [other, range] : row.others) deciding.insert(other);
    }
  std::string text;
  for (const auto& [name, version] : versions)
    if (deciding.contains(name)) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, version.text);
  return text;
}

const json* fact(const std::vector<const StackFact*>& rows, std::string_view path, std::string_view family) {
  const json* value = nullptr;
  for (const StackFact* row : rows)
    if (!row->awaits && row->path == path && row->is_about(family)) value = &row->value;
  return value;
}

json record_facts(const std::vector<const StackFact*>& rows, std::string_view family) {
  json changes = json::object();
  for (const StackFact* row : rows) {
    if (row->awaits || is_own_fact(row->path) || !row->is_about(family)) continue;
    json* at = &changes;
    for (const std::string& part : split(row->path, '.')) at = &(*at)[part];
    *at = row->value;
  }
  return changes;
}

bool is_own_fact(std::string_view path) {
  return std::ranges::find(kOwnFacts, path.substr(0, path.find('.'))) != kOwnFacts.end();
}

}  // namespace gpuplan

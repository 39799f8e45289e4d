// Facts of a set-up stated otherwise in the files that were read: by the rows of each format's key table, as export
// writes them, and by the places of the keys.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/config_reader.h"

namespace gpuplan {

/// A fact and the value that the files shall state; null: none any more.
struct WantedFact {
  std::string_view name;
  nlohmann::json value;
};

/// One key that changes, as the program spells it.
struct KeyChange {
  std::string file, key;
  std::string before, after;  // as text; empty: it is not there
};

/// A file whose text changes, or one that is new (`before` is empty).
struct MendedFile {
  std::string name, before, after;
};

struct MendedFiles {
  std::vector<MendedFile> files;
  std::vector<KeyChange> keys;
  std::string why_not;  // the files cannot be mended so; empty: they can
};

/// The given files with these facts. A fact that no key states is stated by the first format among them that has a
/// word for it. Only `given` files change.
MendedFiles state_facts(const std::vector<ConfigFile>& given, const std::vector<SettingsPart>& parts,
                        const std::vector<WantedFact>& wanted);

}  // namespace gpuplan

// The files of a question, and those that they name: a script is read first, since it says how the others go together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ecosystem/file_kind.h"
#include "ecosystem/launcher.h"

namespace gpuplan {

/// The text of a file that another one names, by its path as written; nothing where it is not found.
using FindConfig = std::function<std::optional<ConfigFile>(const std::string& named, const std::string& by)>;

class GivenFiles {
 public:
  /// `num_gpus`: those that are asked about; 0: not said.
  GivenFiles(std::vector<ConfigFile> files, const FindConfig& find, std::int64_t num_gpus = 0)
      : files_(std::move(files)),
        find_(find),
        num_gpus_(num_gpus) {}

  /// The first of the files that are not taken yet; nothing where none is left.
  std::optional<ConfigFile> take_next();

  /// The command or the Python source among the files, the command where there are both. Throws InputError for two of
  /// one kind.
  std::optional<ConfigFile> take_script();

  /// Reads the training that it starts. Where a command starts a Python script without flags that tell, that script is
  /// read too.
  Launch read_script(const ConfigFile& script);

  /// The file that a part of a command changes by its flags: the one that it names, from among the given files, from
  /// those that the script writes itself, or beside it, or one that its program ships; else a given file of the same
  /// program. Throws InputError where the one that it names is nowhere. `notes` receives what stands in.
  std::optional<ConfigFile> take_below(const std::string& script, const LaunchPart& part, const KeyTable* table,
                                       std::vector<std::string>& notes);

  /// A file that another one names: one that the script writes itself, else one that is there.
  std::optional<ConfigFile> find_named(const std::string& named, const std::string& by) const;

  /// The same, and before these a given file of that name.
  std::optional<ConfigFile> take_or_find(const std::string& named, const std::string& by);

  /// The file by its own keys; where they are of no program, by those of the file that it names as its base. Throws
  /// InputError as parse_config does.
  ParsedConfig parse_with_base(const ConfigFile& file) const;

  /// Puts the values of the file that `parsed` names as its base (KeyTable::base_key), and of that one's base, where it
  /// says nothing itself. Throws InputError for one that is nowhere.
  void put_base_files(const ConfigFile& file, const ParsedConfig& parsed);

  /// The folder in which the script's commands run; empty: the current one.
  const std::string& folder() const { return folder_; }

 private:
  /// Puts what the files that `key` names say below what the root says; theirs stand beside the file `by`.
  void merge_bases(nlohmann::json& root, const std::string& by, const KeyTable& table, int depth);

  /// The format of the file that this one names as its base, or of that one's; null: of none. Throws InputError for
  /// one that is nowhere.
  const KeyTable* table_of_base(const ConfigFile& file, int depth) const;

  std::optional<ConfigFile> take_named(const std::string& named);

  /// The source of the script or module that a command starts.
  std::optional<ConfigFile> find_source(const Launch& launch, const std::string& by);

  /// The given file that a Python script beside it reads its settings from; empty: there is none.
  std::string settings_file() const;

  std::vector<ConfigFile> files_;
  const FindConfig& find_;
  std::int64_t num_gpus_;
  std::map<std::string, std::string> written_;  // by the script
  std::string folder_;                          // of its commands
};

}  // namespace gpuplan

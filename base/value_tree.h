// What every format is parsed into: the values of a file, where they stand, and what is wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

enum class FileFormat : std::uint8_t { Json, Yaml };

/// Names, most often a handful, which need no nodes.
class KeySet {
 public:
  bool contains(std::string_view key) const;
  void insert(std::string_view key);
  std::vector<std::string> all() const;

 private:
  std::vector<std::string> few_;
  std::set<std::string, std::less<>> many_;
};

/// An object that is read: where it stands, and the keys that any of its readers asked for.
struct AskedObject {
  const AskedObject* inside = nullptr;
  std::string name;                  // in that; of the top, what stands before its keys: "text_config."
  std::optional<std::size_t> index;  // of an item of the list `name`
  KeySet keys;

  std::string prefix() const;  // before its keys in messages: "", "gpus[0]."
};

/// A scalar of YAML is a text: what it means is known where it is read.
struct ValueTree {
  static constexpr std::size_t kNowhere = ~std::size_t(0);
  struct Place {
    int line = 1, key_line = 1;
    std::size_t order = 0;                               // in the file
    std::string file;                                    // another one than the tree's; else empty
    std::size_t begin = kNowhere, key_begin = kNowhere;  // bytes of the text before the value and before its key
  };
  struct Problem {
    int line = 0;  // 0: not known
    std::string key, text, hint;
  };

  std::string file;
  FileFormat format = FileFormat::Json;
  bool is_checked = false;  // of the archive: tests read its files with every key, so that none is noted here
  nlohmann::json root;      // null where someone else keeps the values
  std::unordered_map<std::string, Place> places;  // by key path, "gpus[0].name"; YAML only
  std::string_view packed_places;                 // of base/data_archive.h, until one is asked for
  std::vector<Problem> problems;
  std::unordered_map<const nlohmann::json*, AskedObject> asked;
  std::vector<Problem> repeated;  // keys that come twice, where the last one counts

  /// Place of a value; nullptr where it is not known.
  const Place* find_place(const std::string& key);

  /// Throws InputError listing the problems by line, when there are any.
  void finish(std::string hint) const;
};

}  // namespace gpuplan

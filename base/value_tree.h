// What every format is parsed into: the values of a file, where they stand, and what is wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

enum class FileFormat : std::uint8_t { Json, Yaml };

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
  nlohmann::json root;                            // null where someone else keeps the values
  std::unordered_map<std::string, Place> places;  // by key path, "gpus[0].name"; YAML only
  std::string_view packed_places;                 // of base/data_archive.h, until one is asked for
  std::vector<Problem> problems;
  /// The keys that were asked for, by what stands before them: "", "gpus[0].".
  std::unordered_map<std::string, std::set<std::string, std::less<>>> asked;
  std::vector<Problem> repeated;  // keys that come twice, where the last one counts

  /// Place of a value; nullptr where it is not known.
  const Place* find_place(const std::string& key);

  /// Throws InputError listing the problems by line, when there are any.
  void finish(std::string hint) const;
};

}  // namespace gpuplan

// Defaults of programs, where no file says something and releases differ: at the versions that are asked about, else as
// the newest do, with a note on the older ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "ecosystem/key_table.h"
#include "ecosystem/setup.h"
#include "models/stack.h"

namespace gpuplan {

class VersionedDefaults {
 public:
  explicit VersionedDefaults(const StackVersions& versions) : versions_(versions) {}

  /// The value of a row's fact that nobody states: the trainer's at those versions, else `row.otherwise`.
  nlohmann::json usual(const KeyTable& table, const KeyRow& row);
  /// Replaces the dtype "unstated", of weights that a script loads without a word on it: "auto", or "fp32" where
  /// the stack says so: `load.quantised_dtype` of a quantised base, else `load.dtype`.
  void settle_loaded(Setup& setup, const std::string& record);
  /// Empty where no default that was taken differs in older releases.
  std::string note() const;

 private:
  void note_older(const std::string& key, std::string_view path, const std::string& record);

  StackVersions versions_;
  std::vector<std::string> older_;
};

}  // namespace gpuplan

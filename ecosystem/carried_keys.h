// Keys of a trainer's file that a plan carries from the file that was read to the file that is written: learning rate,
// data, template, logging. Everything that the plan decides is written from the plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ecosystem/emit.h"
#include "ecosystem/key_table.h"
#include "planner/plan/carried.h"

namespace gpuplan {

/// Says whether a key that is read for data or for rules of a trainer stands in the written file as in the read one.
bool is_kept_as_written(const KeyRow& row);

/// Says whether the program has several words for one fact at the key, of which the user's stays.
bool has_other_words(const KeyRow& row);

/// Adds a key of a file, with dots below mappings, unless it holds a secret or says nothing.
void carry(nlohmann::json& carried, const std::string& path, const nlohmann::json& value);

/// Puts carried keys into a file of the same format, in which the facts of a plan are `decided`. `replaces_data`:
/// another data set is written.
void put_carried(OrderedJson& file, const nlohmann::json& carried, const KeyTable& table, bool replaces_data,
                 const Setup& decided);

/// Divides the settings of a file of `from` into those whose keys mean the same to `to`, as both have them of one
/// program, or have keys of their own for them (data/ecosystem/shared_words.yaml), and the others. Data stays with the
/// others. `method`: the row of data/methods.yaml that is trained.
struct SharedSettings {
  nlohmann::json shared = nlohmann::json::object(), rest = nlohmann::json::object();
};
SharedSettings shared_settings(const nlohmann::json& settings, const KeyTable& from, const KeyTable& to,
                               std::string_view method);

/// Says whether a program has a setting of another's file: what such a file leaves out, it leaves to a default.
bool knows_setting(const KeyTable& from, const KeyTable& to, const std::string& key, std::string_view method);

/// The same with texts that name a file of this machine given another path: `relocated` has it, or nothing for others.
CarriedSettings with_paths(CarriedSettings carried,
                           const std::function<std::optional<std::string>(const std::string&)>& relocated);

/// The same with a key for the length of sequences: the plan's are as long as the longest row, and the file allows
/// more. `key`: as the trainer's file spells it.
CarriedSettings with_length(CarriedSettings carried, const std::string& key, std::int64_t tokens);
/// That length, with which files are written; 0: that of the plan is the file's.
std::int64_t length_of(const CarriedSettings& carried);
/// The same without it, where the plan's length was asked for.
CarriedSettings without_length(CarriedSettings carried);

/// The keys at the top, for people: "datasets, learning_rate".
std::string names_of_carried(const nlohmann::json& carried);

}  // namespace gpuplan

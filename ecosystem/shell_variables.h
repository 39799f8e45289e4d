// Variables of a shell script while it is read: their values, and what branches of it make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan {

/// A variable, or what an expansion gives: an array has several items, any other one.
struct ShellValue {
  std::vector<std::string> items;
  std::vector<std::string> unknown;  // what it would take to know it
  bool is_array = false;
  std::size_t begin = 0, end = 0;  // of the word that it was set to, in the script's text; alike where it is none
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of an array, those of its items; empty: not known

  std::string joined() const;
  /// The same value, wherever it was set.
  bool operator==(const ShellValue& other) const {
    return items == other.items && unknown == other.unknown && is_array == other.is_array;
  }
};

/// A value that is not known stands as it was written, as one word.
ShellValue unknown_value(const std::string& written);

/// Adds the names that are new, up to sixteen.
void add_names(std::vector<std::string>& to, const std::vector<std::string>& more);

/// Says whether a branch of a script is taken.
enum class BranchIs : std::uint8_t { Open, Taken, Skipped };

class ShellVariables {
 public:
  /// nullptr where it is not set.
  const ShellValue* find(const std::string& name);
  /// Items that were asked for; of a script of a person a few hundred.
  std::size_t num_items_found() const { return num_items_found_; }
  void assign(const std::string& name, ShellValue value);
  void forget(const std::string& name) { variables_.erase(name); }

  /// Begins a branch of `if` or `case`, or the body of a loop; false where they are nested too deeply.
  bool open_branch();
  /// Ends it. What one that is taken set stays, and what one that is skipped set is forgotten. After an open one a
  /// variable that was set before and got another value there is not known, but an array that grew keeps the items
  /// before. One that got a word of the script's own command line ($1) keeps the value before, or stays unset, as the
  /// script is started without words.
  void close_branch(BranchIs branch = BranchIs::Open);

 private:
  using Branch = std::map<std::string, std::optional<ShellValue>>;  // what it changed: the values before

  std::map<std::string, ShellValue> variables_;
  std::vector<Branch> branches_;
  std::size_t num_items_found_ = 0;
};

}  // namespace gpuplan

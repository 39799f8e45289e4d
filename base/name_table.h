// How the values of an enumeration are spelt: one table each, read by flags, files and help alike. An enumeration has
// one by `names_of(Enum)`, declared beside it; to_string and parse_name then work for it.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {

/// One spelling of one value.
template <class Enum>
struct NameRow {
  std::string_view name;
  Enum value;
};

/// The first spelling of a value is the canonical one, which is printed and stored; the others are what people type.
template <class Enum>
struct NameTable {
  std::string_view what;  // "precision", in messages
  std::span<const NameRow<Enum>> rows;

  /// The canonical spelling; "?" for a value that is not in the table.
  constexpr std::string_view name_of(Enum value) const {
    for (const NameRow<Enum>& row : rows)
      if (row.value == value) return row.name;
    return "?";
  }
  /// The row of any spelling; case and separators do not matter. nullptr when there is none.
  const NameRow<Enum>* find(std::string_view text) const {
    const std::string wanted = squash(text);
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const NameRow<Enum>& r) { return squash(r.name) == wanted; });
    return row == rows.end() ? nullptr : &*row;
  }
  /// The canonical spellings, in the order of the table.
  std::vector<std::string> canonical() const {
    std::vector<std::string> names;
    for (const NameRow<Enum>& row : rows)
      if (name_of(row.value) == row.name) names.emplace_back(row.name);
    return names;
  }
};

template <class Enum>
concept Named = std::is_enum_v<Enum> && requires(Enum value) {
  names_of(value);
};

template <Named Enum>
constexpr std::string_view to_string(Enum value) {
  return names_of(value).name_of(value);
}

/// "did you mean 'x'?", or all names.
template <Named Enum>
std::string name_hint(std::string_view text) {
  const auto names = names_of(Enum{}).canonical();
  std::string all = "use one of ";
  for (const std::string& name : names) all += (&name == &names.front() ? "" : ", ") + name;
  return did_you_mean(text, names, all);
}

/// The value of any spelling. Throws InputError naming `where` (a flag or a key) with the nearest name or all of them.
template <Named Enum>
Enum parse_name(std::string_view text, std::string_view where) {
  if (const NameRow<Enum>* row = names_of(Enum{}).find(text)) return row->value;
  throw InputError(std::string(where), "unknown " + std::string(names_of(Enum{}).what) + " '" + std::string(text) + "'",
                   name_hint<Enum>(text));
}

}  // namespace gpuplan

#include "ecosystem/python_data.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"

namespace gpuplan {
namespace {

using Names = std::vector<std::string>;

bool is_one_of(const Names& names, const std::string& name) { return std::ranges::count(names, name) > 0; }

/// An argument by its name or its place; nullptr: it is left out.
const PythonValue* argument(const PythonCall& call, std::string_view name, std::size_t place) {
  const auto named = std::ranges::find_if(call.keywords, [&](const auto& own) { return own.first == name; });
  if (named != call.keywords.end()) return named->second.is_unset ? nullptr : &named->second;
  return place < call.positional.size() ? &call.positional[place] : nullptr;
}

/// "[:500]" is "#500" and "[10%:30%]" is "#20%"; nullopt: the number of rows depends on the set.
std::optional<std::string> part_of(std::string_view slice) {
  if (slice.empty()) return "";
  const std::size_t colon = slice.find(':');
  if (colon == std::string_view::npos || slice.back() != ']') return {};
  std::string from(trim(slice.substr(1, colon - 1))), to(trim(slice.substr(colon + 1, slice.size() - colon - 2)));
  if (from.empty()) from = to.ends_with('%') ? "0%" : "0";
  if (from.ends_with('%') != to.ends_with('%')) return {};
  const std::string sign = to.ends_with('%') ? "%" : "";
  if (!sign.empty()) from.pop_back(), to.pop_back();
  const auto begin = as_number(from), end = as_number(to);
  if (!begin || !end || *begin < 0 || *end <= *begin) return {};
  return fmt::format("#{:.0f}{}", *end - *begin, sign);
}

/// Texts of a list or of one text; nullopt: one of them is not known.
std::optional<Names> texts_of(const PythonValue& value) {
  if (value.kind == PythonValue::Kind::Literal) return value.is_text ? std::optional(Names{value.text}) : std::nullopt;
  if (value.kind != PythonValue::Kind::List || value.items.empty()) return {};
  Names out;
  for (const PythonValue& item : value.items) {
    if (!item.is_text) return {};
    out.push_back(item.text);
  }
  return out;
}

/// The files of a split: of data_files as a dict those of its key.
std::optional<Names> files_of(const PythonValue& files, const std::string& split) {
  if (files.kind != PythonValue::Kind::Dict) return texts_of(files);
  const PythonValue* own = find_item(files, python_literal(split, true));
  return own ? texts_of(*own) : std::nullopt;
}

std::optional<Names> sets_of(const PythonCall& call, const DataCalls& rows) {
  const PythonValue *path = argument(call, "path", 0), *split = argument(call, "split", 4);
  if (is_one_of(rows.from_files, call.name)) {
    const PythonValue* named = argument(call, "path_or_paths", 0);
    return named ? texts_of(*named) : std::nullopt;
  }
  if (!path || !path->is_text || (split && !split->is_text)) return {};
  const std::string whole = split ? split->text : "train", name = whole.substr(0, whole.find('['));
  const auto part = part_of(std::string_view(whole).substr(name.size()));
  if (!name.starts_with("train") || name.find('+') != std::string::npos || !part) return {};
  const PythonValue* const files = argument(call, "data_files", 3);
  std::optional<Names> out = Names{path->text};
  if (files || is_one_of(rows.readers, path->text)) out = files ? files_of(*files, name) : std::nullopt;
  if (!out || (out->size() > 1 && !part->empty())) return {};
  for (std::string& set : *out) set += *part;
  return out;
}

}  // namespace

Names data_of_calls(const std::vector<PythonCall>& calls, const DataCalls& rows, std::string_view code,
                    const std::string& script, Names& notes) {
  Names out;
  const bool joins =
      std::ranges::any_of(rows.joins, [&](const std::string& name) { return code.find(name + "(") != code.npos; });
  for (const PythonCall& call : calls) {
    if (!is_one_of(rows.loads, call.name) && !is_one_of(rows.from_files, call.name)) continue;
    const auto sets = sets_of(call, rows);
    if (!sets || (!out.empty() && !joins)) continue;
    for (const std::string& set : *sets)
      if (!is_one_of(out, set)) out.push_back(set);
  }
  Names cuts;
  for (const std::string& name : rows.cuts)
    if (code.find("." + name + "(") != code.npos) cuts.push_back(name);
  if (!out.empty() && !cuts.empty())
    notes.push_back(fmt::format("{}: rows are those of {}; {} may leave fewer: --rows says them", script,
                                fmt::join(out, " and "), fmt::join(cuts, " and ")));
  return out;
}

}  // namespace gpuplan

#include "ecosystem/open_flags.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/launch_rows.h"
#include "ecosystem/methods.h"

namespace gpuplan {
namespace {

bool says_length(const KeyTable& table, const std::string& flag) {
  const KeyRow* const row = table.find(flag);
  return row && row->field && row->field->name == "seq_len";
}

}  // namespace

bool is_length_elsewhere(const std::string& flag) {
  return std::ranges::any_of(
      key_tables(), [&](const KeyTable& table) { return table.role == FileRole::Trainer && says_length(table, flag); });
}

bool has_unknown_flags(const LaunchPart& part, const KeyTable& table) {
  return table.refuses_unknown && std::ranges::any_of(part.flags, [&](const LaunchFlag& flag) {
           return !table.find(table.whole_key(flag.name)) && !table.has_below(flag.name) &&
                  !names_foreign_method(table.name, flag.name);
         });
}

void refuse_open_flags(const std::string& script, const LaunchPart& part, const KeyTable& table,
                       const std::string& started) {
  const bool has_length =
      std::ranges::any_of(part.flags, [&](const LaunchFlag& flag) { return says_length(table, flag.name); });
  std::vector<std::string> open;
  int line = 1;
  for (const LaunchFlag& flag : part.flags) {
    const bool may_count =
        flag.values.size() == 1 && (as_number(flag.values[0].text) || !flag.values[0].unknown.empty());
    if (!may_count || table.find(table.whole_key(flag.name)) || !command_rows().looks_deciding(flag.name)) continue;
    if ((!has_length && is_length_elsewhere(flag.name)) || names_foreign_method(table.name, flag.name)) continue;
    if (open.empty()) line = flag.line;
    open.push_back("--" + flag.name);
  }
  if (!open.empty())
    throw InputError(fmt::format("{}:{}", script, line),
                     fmt::format("{} is no program that gpuplan knows, and what {} says is not known", started,
                                 fmt::join(open, " and ")),
                     "give the settings as flags (--model, --micro-batch, --seq-len ...) in the file's place");
}

}  // namespace gpuplan

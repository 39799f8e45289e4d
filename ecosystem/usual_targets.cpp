#include "ecosystem/usual_targets.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

struct KindRow {
  Words kinds;
  std::vector<std::pair<Words, Words>> targets;  // modules, and the types of models that have them
};

std::vector<KindRow> read_rows() {
  const std::string where = (data_dir() / "ecosystem" / "usual_targets.yaml").string();
  const auto tree = read_yaml11(where);
  try {
    std::vector<KindRow> rows;
    for (const json& from : tree->root.at("rows")) {
      KindRow& row = rows.emplace_back(KindRow{.kinds = from.at("kinds"), .targets = from.at("targets")});
      for (const std::string& kind : row.kinds) find_adapter_kind(kind);  // throws where it is none
    }
    return rows;
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
}

}  // namespace

std::vector<std::string> usual_targets(const AdapterKind& kind, std::string_view model_type) {
  const auto& rows = read_once<read_rows>();
  const auto own = std::ranges::find_if(
      rows, [&](const KindRow& row) { return std::ranges::find(row.kinds, kind.name) != row.kinds.end(); });
  for (const auto& [modules, types] : (own == rows.end() ? rows.front() : *own).targets)
    if (std::ranges::find(types, model_type) != types.end()) return modules;
  return {};
}

}  // namespace gpuplan

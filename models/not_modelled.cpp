#include "models/families.h"

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

/// A row of data/not_modelled.json.
struct NotModelled {
  std::vector<std::string> model_types, names;  // names: how lower-case names without organisation begin
  std::string reason;
};

std::vector<NotModelled> read_not_modelled() {
  const std::filesystem::path file = data_dir() / "not_modelled.json";
  const nlohmann::json list = read_json_file(file);
  std::vector<NotModelled> rows;
  for (const nlohmann::json& item : list) {
    Fields fields(item, file.string());
    rows.push_back({fields.texts("model_types"), fields.texts("names"), fields.text("reason")});
    fields.refuse_unknown();
    fields.finish();
  }
  return rows;
}

}  // namespace

std::string why_type_is_not_modelled(std::string_view model_type) {
  for (const NotModelled& row : read_not_modelled())
    if (std::ranges::find(row.model_types, model_type) != row.model_types.end()) return row.reason;
  return {};
}

std::string why_name_is_not_modelled(std::string_view name) {
  const std::string tail = to_lower(name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  for (const NotModelled& row : read_not_modelled())
    for (const std::string& start : row.names)
      if (tail.starts_with(start)) return row.reason;
  return {};
}

}  // namespace gpuplan

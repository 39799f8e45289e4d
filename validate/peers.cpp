#include "validate/peers.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<Peer> read_list(JsonFields& fields, const char* key, const std::string& where) {
  std::vector<Peer> out;
  const json* list = fields.find(key);
  if (!list || !list->is_array()) fields.report(key, "expected a list");
  if (!list || !list->is_array()) return out;
  for (const json& row : *list) {
    JsonFields one(row, fmt::format("{}: {}", where, key));
    out.push_back({one.require_string("tool"), one.require_string("scope"), one.require_number("median"),
                   one.require_number("p90")});
    one.finish();
  }
  return out;
}

}  // namespace

Peers read_peers(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  JsonFields fields(content, file.string());
  Peers peers{.source = fields.require_string("source"),
              .memory = read_list(fields, "memory", file.string()),
              .speed = read_list(fields, "speed", file.string())};
  fields.finish();
  return peers;
}

Peers read_peers() { return read_peers(data_dir() / "validation" / "peers.json"); }

}  // namespace gpuplan

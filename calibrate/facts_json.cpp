#include "calibrate/facts_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/name_table.h"
#include "device/backend.h"

namespace gpuplan {
namespace {

using nlohmann::json;

json device_json(const DeviceFacts& facts) {
  json types = json::array(), versions = json::array();
  for (const GemmType type : facts.gemm_types) types.push_back(to_string(type));
  for (const auto& [name, version] : facts.versions) versions.push_back({name, version});
  return {{"kind", to_string(facts.kind)},
          {"name", facts.name},
          {"architecture", facts.architecture},
          {"memory", facts.memory.count},
          {"memory_free", facts.memory_free.count},
          {"num_cores", facts.num_cores},
          {"gemm_types", types},
          {"versions", versions},
          {"warnings", facts.warnings}};
}

DeviceFacts device_from(const json& j) {
  DeviceFacts facts{.kind = parse_name<DeviceKind>(j.at("kind").get<std::string>(), "kind"),
                    .name = j.at("name"),
                    .architecture = j.at("architecture"),
                    .memory = {j.at("memory").get<std::int64_t>()},
                    .memory_free = {j.at("memory_free").get<std::int64_t>()},
                    .num_cores = j.at("num_cores")};
  for (const json& type : j.at("gemm_types"))
    facts.gemm_types.push_back(parse_name<GemmType>(type.get<std::string>(), "gemm_types"));
  for (const json& row : j.at("versions")) facts.versions.emplace_back(row.at(0), row.at(1));
  facts.warnings = j.at("warnings").get<std::vector<std::string>>();
  return facts;
}

}  // namespace

WorkerFacts WorkerFacts::identity() const {
  WorkerFacts out = *this;
  out.device.memory_free = {};
  return out;
}

WorkerFacts read_worker_facts(DeviceKind kind) {
  DeviceBackend& backend = device_backend(kind);
  WorkerFacts facts{.num_devices = backend.num_devices()};
  facts.device = backend.open({})->facts();
  try {
    collective_backend(kind);
    facts.has_collectives = true;
  } catch (const EnvError& error) { facts.collectives_problem = error.what(); }
  return facts;
}

std::string to_json_line(const WorkerFacts& facts) {
  return json{{"device", device_json(facts.device)},
              {"num_devices", facts.num_devices},
              {"has_collectives", facts.has_collectives},
              {"collectives_problem", facts.collectives_problem}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

WorkerFacts worker_facts_from_json(const std::string& line, const std::string& where) {
  try {
    const json j = json::parse(line);
    return {device_from(j.at("device")), j.at("num_devices"), j.at("has_collectives"), j.at("collectives_problem")};
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
}

}  // namespace gpuplan

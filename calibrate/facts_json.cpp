#include "calibrate/facts_json.h"

#include "base/archive.h"
#include "base/error.h"
#include "base/json_file.h"
#include "device/backend.h"

namespace gpuplan {
namespace {

template <class Archive, class Facts>
void list_device(Archive& f, Facts& facts) {
  std::vector<std::vector<std::string>> versions;  // [name, version]
  for (const auto& [name, version] : facts.versions) versions.push_back({name, version});
  f("kind", facts.kind);
  f("name", facts.name);
  f("architecture", facts.architecture);
  f("memory", facts.memory);
  f("memory_free", facts.memory_free);
  f("num_cores", facts.num_cores);
  f("gemm_types", facts.gemm_types);
  f("versions", versions);
  f("warnings", facts.warnings);
  if constexpr (Archive::kReads) {
    for (const auto& row : versions) {
      if (row.size() == 2)
        facts.versions.emplace_back(row[0], row[1]);
      else
        f.report("versions", "must be pairs of a name and a version");
    }
  }
}

template <class Archive, class Facts>
void list_facts(Archive& f, Facts& facts) {
  f.object("device", [&](auto& device) { list_device(device, facts.device); });
  f("num_devices", facts.num_devices);
  f("has_collectives", facts.has_collectives);
  f("collectives_problem", facts.collectives_problem);
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
  FieldWriter out;
  list_facts(out, facts);
  return json_line(out.take());
}

WorkerFacts worker_facts_from_json(const std::string& line, const std::string& where) {
  const nlohmann::json object = parse_json(line, where);
  Fields fields(object, where);
  WorkerFacts facts;
  list_facts(fields, facts);
  fields.finish();
  return facts;
}

}  // namespace gpuplan

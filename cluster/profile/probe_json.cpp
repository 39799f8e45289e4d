// Probes and samples as lines of JSON.
#include "base/json_file.h"
#include "cluster/profile/probe_fields.h"

namespace gpuplan {
namespace {

constexpr auto kListProbe = [](auto& f, auto& probe) { list_probe(f, probe); };
constexpr auto kListSample = [](auto& f, auto& sample) { list_sample(f, sample); };

template <class T, class List>
std::string line_of(const T& value, List list) {
  FieldWriter out;
  list(out, value);
  return json_line(out.take());
}

template <class T, class List>
T read_line(const std::string& line, const std::string& where, List list) {
  const nlohmann::json object = parse_json(line, where, DuplicateKeys::Refuse);
  Fields fields(object, where);
  T value;
  list(fields, value);
  fields.refuse_unknown();
  fields.finish();
  return value;
}

}  // namespace

std::string to_json_line(const Probe& probe) { return line_of(probe, kListProbe); }
std::string to_json_line(const Sample& sample) { return line_of(sample, kListSample); }

Probe probe_from_json(const std::string& line, const std::string& where) {
  return read_line<Probe>(line, where, kListProbe);
}

Sample sample_from_json(const std::string& line, const std::string& where) {
  Sample sample = read_line<Sample>(line, where, kListSample);
  if (!sample.is_ok()) sample.is_converged = false;
  return sample;
}

}  // namespace gpuplan

// Probes and samples as lines of JSON: one description of the fields of each family serves both directions.
#include <array>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/json_file.h"
#include "base/named_values.h"
#include "calibrate/probe.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMost = std::int64_t(1) << 50;  // of any count in a line: what is more is a torn or foreign file

template <class Json>
class Writer {
 public:
  explicit Writer(Json& object) : object_(object) {}
  void count(const char* key, std::int64_t value) { object_[key] = value; }
  void count(const char* key, int value) { object_[key] = value; }
  void bytes(const char* key, Bytes value) { object_[key] = value.count; }
  template <class Enum, class Values>
  void name(const char* key, Enum value, const Values& /*all*/) {
    object_[key] = to_string(value);
  }
  void dtype(const char* key, Dtype value) { object_[key] = to_string(value); }

 private:
  Json& object_;
};

class Reader {
 public:
  explicit Reader(JsonFields& fields) : fields_(fields) {}
  void count(const char* key, std::int64_t& value) { value = fields_.require_int(key, {0, kMost}); }
  void count(const char* key, int& value) { value = int(fields_.require_int(key, {0, 1 << 20})); }
  void bytes(const char* key, Bytes& value) { value.count = fields_.require_int(key, {0, kMost}); }
  template <class Values>
  void name(const char* key, typename Values::value_type& value, const Values& all) {
    parse(key, value, [&](const std::string& text) { return parse_named(all, text, key, "name"); });
  }
  void dtype(const char* key, Dtype& value) {
    parse(key, value, [&](const std::string& text) { return parse_dtype(text, key); });
  }

 private:
  template <class Value, class Parse>
  void parse(const char* key, Value& value, Parse text_to_value) {
    const std::string text = fields_.require_string(key);
    if (fields_.has_problems()) return;
    try {
      value = text_to_value(text);
    } catch (const InputError& error) {
      fields_.report(key, error.problem() + (error.hint().empty() ? "" : "; " + error.hint()));
    }
  }

  JsonFields& fields_;
};

template <class Archive, class P>
void product_fields(Archive& archive, P& probe) {
  archive.name("type", probe.type, kGemmTypes);
  archive.name("layout", probe.layout, kGemmLayouts);
  archive.count("m", probe.shape.m);
  archive.count("n", probe.shape.n);
  archive.count("k", probe.shape.k);
  archive.count("batch", probe.shape.batch);
}

template <class Archive, class P>
void attention_fields(Archive& archive, P& probe) {
  archive.name("attention", probe.attention, kAttentionWorks);
  archive.dtype("dtype", probe.dtype);
  archive.count("heads", probe.shape.batch);
  archive.count("length", probe.shape.m);
  archive.count("head_size", probe.shape.k);
}

template <class Archive, class P>
void kernel_fields(Archive& archive, P& probe) {
  archive.name("kernel", probe.kernel, kMemoryKernels);
  archive.dtype("dtype", probe.dtype);
  archive.count("rows", probe.rows);
  archive.count("width", probe.width);
}

template <class Archive, class P>
void copy_fields(Archive& archive, P& probe) {
  archive.name("path", probe.path, kCopyPaths);
  archive.count("peer", probe.peer);
  archive.bytes("bytes", probe.bytes);
}

template <class Archive, class P>
void collective_fields(Archive& archive, P& probe) {
  archive.name("collective", probe.collective, kCollectiveKinds);
  archive.name("scope", probe.scope, kRankScopes);
  archive.count("group_ranks", probe.group_ranks);
  archive.dtype("dtype", probe.dtype);
  archive.bytes("bytes", probe.bytes);
}

/// Every field that the probe's family uses, and no other.
template <class Archive, class P>
void fields_of(Archive& archive, P& probe) {
  archive.name("family", probe.family, kProbeFamilies);
  archive.count("ranks", probe.num_ranks);
  switch (probe.family) {
    case ProbeFamily::Gemm: return product_fields(archive, probe);
    case ProbeFamily::Attention: return attention_fields(archive, probe);
    case ProbeFamily::Memory: return kernel_fields(archive, probe);
    case ProbeFamily::Dispatch: return archive.name("dispatch", probe.dispatch, kDispatchKinds);
    case ProbeFamily::Copy: return copy_fields(archive, probe);
    case ProbeFamily::Overhead: return archive.name("overhead", probe.overhead, kOverheadKinds);
    case ProbeFamily::Collective: return collective_fields(archive, probe);
    case ProbeFamily::Overlap: product_fields(archive, probe); return archive.bytes("bytes", probe.bytes);
  }
}

nlohmann::ordered_json to_json(const Probe& probe) {
  auto object = nlohmann::ordered_json::object();
  Writer writer(object);
  fields_of(writer, probe);
  return object;
}

Probe probe_from(JsonFields fields) {
  Probe probe;
  Reader reader(fields);
  fields_of(reader, probe);
  fields.refuse_unknown();
  fields.finish();
  return probe;
}

/// A time that is no number would poison every fit.
double require_amount(JsonFields& fields, const char* key) {
  const double value = fields.require_number(key);
  if (!std::isfinite(value) || value < 0) fields.report(key, "must be a finite number, not below 0");
  return value;
}

template <class Json>
std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

nlohmann::json parse_object(const std::string& line, const std::string& where) {
  nlohmann::json object = parse_json(line, where, DuplicateKeys::Refuse);
  if (!object.is_object()) throw InputError(where, "not a JSON object");
  return object;
}

}  // namespace

std::string to_json_line(const Probe& probe) { return line_of(to_json(probe)); }

Probe probe_from_json(const std::string& line, const std::string& where) {
  const nlohmann::json object = parse_object(line, where);
  return probe_from(JsonFields(object, where));
}

std::string to_json_line(const Sample& sample) {
  auto object = nlohmann::ordered_json::object();
  object["probe"] = to_json(sample.probe);
  if (!sample.is_ok()) return object["failure"] = sample.failure, line_of(object);
  object["median"] = sample.median;
  object["low"] = sample.low;
  object["high"] = sample.high;
  object["runs"] = sample.num_runs;
  object["outliers"] = sample.num_outliers;
  object["converged"] = sample.is_converged;
  if (sample.probe.family == ProbeFamily::Overlap) object["overlapped"] = sample.overlapped;
  return line_of(object);
}

Sample sample_from_json(const std::string& line, const std::string& where) {
  const nlohmann::json object = parse_object(line, where);
  JsonFields fields(object, where);
  Sample sample{.probe = probe_from(fields.object("probe")), .is_converged = false};
  sample.failure = fields.optional_string("failure").value_or("");
  if (sample.is_ok()) {
    sample.median = require_amount(fields, "median");
    sample.low = require_amount(fields, "low");
    sample.high = require_amount(fields, "high");
    sample.num_runs = fields.require_int("runs", {0, kMost});
    sample.num_outliers = fields.require_int("outliers", {0, kMost});
    sample.is_converged = fields.optional_bool("converged").value_or(true);
    if (sample.probe.family == ProbeFamily::Overlap) sample.overlapped = require_amount(fields, "overlapped");
  }
  fields.refuse_unknown();
  fields.finish();
  return sample;
}

}  // namespace gpuplan

// Probes and samples as lines of JSON.
#include "base/archive.h"
#include "base/json_file.h"
#include "cluster/profile/probe.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMost = std::int64_t(1) << 50;  // of any count in a line: what is more is a torn or foreign file

constexpr IntRange kCount{0, kMost};

template <class Archive, class P>
void product_fields(Archive& f, P& probe) {
  f("type", probe.type);
  f("layout", probe.layout);
  f("m", probe.shape.m, kCount);
  f("n", probe.shape.n, kCount);
  f("k", probe.shape.k, kCount);
  f("batch", probe.shape.batch, kCount);
}

template <class Archive, class P>
void attention_fields(Archive& f, P& probe) {
  f("attention", probe.attention);
  f("dtype", probe.dtype);
  f("heads", probe.shape.batch, kCount);
  f("length", probe.shape.m, kCount);
  f("head_size", probe.shape.k, kCount);
}

template <class Archive, class P>
void kernel_fields(Archive& f, P& probe) {
  f("kernel", probe.kernel);
  f("dtype", probe.dtype);
  f("rows", probe.rows, kCount);
  f("width", probe.width, kCount);
}

template <class Archive, class P>
void copy_fields(Archive& f, P& probe) {
  f("path", probe.path);
  f("peer", probe.peer, IntRange{0, 1 << 20});
  f("bytes", probe.bytes);
}

template <class Archive, class P>
void collective_fields(Archive& f, P& probe) {
  f("collective", probe.collective);
  f("scope", probe.scope);
  f("group_ranks", probe.group_ranks, kCount);
  f("dtype", probe.dtype);
  f("bytes", probe.bytes);
}

/// Every field that the probe's family uses, and no other.
template <class Archive, class P>
void list_probe(Archive& f, P& probe) {
  const bool knows_family = f("family", probe.family);
  f("ranks", probe.num_ranks, kCount);
  if (!knows_family) return;
  switch (probe.family) {
    case ProbeFamily::Gemm: return product_fields(f, probe);
    case ProbeFamily::Attention: return attention_fields(f, probe);
    case ProbeFamily::Memory: return kernel_fields(f, probe);
    case ProbeFamily::Dispatch: return void(f("dispatch", probe.dispatch));
    case ProbeFamily::Copy: return copy_fields(f, probe);
    case ProbeFamily::Overhead: return void(f("overhead", probe.overhead));
    case ProbeFamily::Collective: return collective_fields(f, probe);
    case ProbeFamily::Overlap: product_fields(f, probe); return void(f("bytes", probe.bytes));
  }
}

template <class Archive, class S>
void list_sample(Archive& f, S& sample) {
  constexpr NumberRange kAmount;
  f.object("probe", [&](auto& inner) { list_probe(inner, sample.probe); });
  f.optional("failure", sample.failure);
  if (!sample.is_ok()) return;
  f("median", sample.median, kAmount);
  f("low", sample.low, kAmount);
  f("high", sample.high, kAmount);
  f("runs", sample.num_runs, kCount);
  f("outliers", sample.num_outliers, kCount);
  f.optional("converged", sample.is_converged);
  if (sample.probe.family == ProbeFamily::Overlap) f("overlapped", sample.overlapped, kAmount);
}

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

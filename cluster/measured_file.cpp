#include "cluster/measured_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

// Every list below names the fields of one struct for a reader and for a writer alike.

/// Fields of one mapping.
class FieldWriter {
 public:
  void operator()(const char* key, const Fitted& v) { add(key, fmt::format("[{:.6g}, {:.6g}, {:.6g}]", v.value, v.low, v.high)); }
  void operator()(const char* key, std::int64_t v) { add(key, fmt::format("{}", v)); }
  void operator()(const char* key, Bytes v) { add(key, fmt::format("{}", v.count)); }
  void operator()(const char* key, double v) { add(key, fmt::format("{:.6g}", v)); }
  void operator()(const char* key, bool v) { add(key, v ? "true" : "false"); }
  void operator()(const char* key, const std::string& v) { add(key, quoted(v)); }
  void operator()(const char* key, GemmType v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, GemmLayout v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, GemmRegime v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, CollectiveKind v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, RankScope v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, Dtype v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, const GemmShape& v) { add(key, fmt::format("[{}, {}, {}, {}]", v.m, v.n, v.k, v.batch)); }
  std::string flow() const { return fmt::format("{{{}}}", fmt::join(fields_, ", ")); }
  std::string block() const { return fmt::format("  {}\n", fmt::join(fields_, "\n  ")); }

 private:
  void add(const char* key, const std::string& value) { fields_.push_back(fmt::format("{}: {}", key, value)); }
  std::vector<std::string> fields_;
};

class FieldReader {
 public:
  explicit FieldReader(YamlFields& fields) : fields_(fields) {}
  void operator()(const char* key, Fitted& v) {
    if (const auto n = numbers(key, 3)) v = {(*n)[0], (*n)[1], (*n)[2]};
  }
  void operator()(const char* key, std::int64_t& v) { v = fields_.integer(key); }
  void operator()(const char* key, Bytes& v) { v = {fields_.integer(key)}; }
  void operator()(const char* key, double& v) { v = fields_.number(key); }
  void operator()(const char* key, bool& v) { v = fields_.optional_flag(key).value_or(false); }
  void operator()(const char* key, std::string& v) { v = fields_.text(key); }
  void operator()(const char* key, GemmType& v) { parse(key, v, parse_gemm_type); }
  void operator()(const char* key, GemmLayout& v) { parse(key, v, parse_gemm_layout); }
  void operator()(const char* key, GemmRegime& v) { parse(key, v, parse_gemm_regime); }
  void operator()(const char* key, CollectiveKind& v) { parse(key, v, parse_collective_kind); }
  void operator()(const char* key, RankScope& v) { parse(key, v, parse_rank_scope); }
  void operator()(const char* key, Dtype& v) { parse(key, v, parse_dtype); }
  void operator()(const char* key, GemmShape& v) {
    if (const auto n = numbers(key, 4))
      v = {std::int64_t((*n)[0]), std::int64_t((*n)[1]), std::int64_t((*n)[2]), std::int64_t((*n)[3])};
  }

 private:
  std::optional<std::vector<double>> numbers(const char* key, std::size_t count) {
    auto out = fields_.numbers(key, {0, 1e18});
    if (out.size() == count) return out;
    fields_.report(key, fmt::format("must be a list of {} numbers", count));
    return std::nullopt;
  }
  template <class T, class Parse>
  void parse(const char* key, T& value, Parse parse_text) {
    try {
      value = parse_text(fields_.text(key), key);
    } catch (const InputError& error) { fields_.report(key, error.problem()); }
  }
  YamlFields& fields_;
};

template <class Fields, class Quality>
void list_quality(Fields& f, Quality& q) {
  f("points", q.num_points);
  f("outliers", q.num_outliers);
  f("median_error", q.median_error);
  f("p90_error", q.p90_error);
  f("held_out_median", q.held_out_median);
  f("held_out_p90", q.held_out_p90);
}

template <class Fields, class Surface>
void list_surface(Fields& f, Surface& s) {
  f("type", s.type);
  f("layout", s.layout);
  f("regime", s.regime);
  for (const GemmParameter& parameter : kGemmParameters) f(parameter.name.data(), s.*parameter.member);
  f("tile_m", s.tile_m);
  f("tile_n", s.tile_n);
  f("num_units", s.num_units);
  f("least", s.range.least);
  f("most", s.range.most);
  list_quality(f, s.quality);
}

template <class Fields, class Rate>
void list_kernel(Fields& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("launch_s", r.launch);
  f("bandwidth_byte_s", r.bandwidth);
  f("least_bytes", r.least);
  f("most_bytes", r.most);
  list_quality(f, r.quality);
}

template <class Fields, class Rate>
void list_attention(Fields& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("head_size", r.head_size);
  f("launch_s", r.launch);
  f("rate_flop_s", r.rate);
  list_quality(f, r.quality);
}

template <class Fields, class Scalar>
void list_scalar(Fields& f, Scalar& s) {
  f("name", s.name);
  f("unit", s.unit);
  f("ranks", s.num_ranks);
  f("value", s.value);
  list_quality(f, s.quality);
}

template <class Fields, class Segment>
void list_segment(Fields& f, Segment& s) {
  f("from_bytes", s.from);
  f("alpha_s", s.alpha);
  f("bandwidth_byte_s", s.bandwidth);
}

template <class Fields, class Curve>
void list_curve(Fields& f, Curve& c) {
  f("kind", c.kind);
  f("ranks", c.num_ranks);
  f("scope", c.scope);
  f("least_bytes", c.least);
  f("most_bytes", c.most);
  list_quality(f, c.quality);
}

template <class Fields, class On>
void list_machine(Fields& f, On& on) {
  f("kind", on.kind);
  f("device", on.device);
  f("gpu", on.gpu);
  f("architecture", on.architecture);
  f("fabric", on.fabric);
  f("num_devices", on.num_devices);
  f("num_cores", on.num_cores);
  f("memory_bytes", on.memory);
  f("date", on.date);
}

template <class T, class List>
std::vector<T> read_list(YamlFields& owner, const char* key, List list) {
  std::vector<T> out;
  for (YamlFields& row : owner.list(key)) {
    FieldReader reader(row);
    list(reader, out.emplace_back());
    row.refuse_unknown();
  }
  return out;
}

template <class T, class List>
std::string list_text(const std::string& indent, const char* key, const std::vector<T>& rows, List list) {
  if (rows.empty()) return {};
  std::string out = fmt::format("{}{}:\n", indent, key);
  for (const T& row : rows) {
    FieldWriter writer;
    list(writer, row);
    out += fmt::format("{}- {}\n", indent, writer.flow());
  }
  return out;
}

constexpr auto kSurface = [](auto& f, auto& s) { list_surface(f, s); };
constexpr auto kKernel = [](auto& f, auto& r) { list_kernel(f, r); };
constexpr auto kAttention = [](auto& f, auto& r) { list_attention(f, r); };
constexpr auto kScalar = [](auto& f, auto& s) { list_scalar(f, s); };
constexpr auto kSegment = [](auto& f, auto& s) { list_segment(f, s); };

MeasuredOn read_machine(YamlFields& fields) {
  MeasuredOn on;
  FieldReader reader(fields);
  list_machine(reader, on);
  YamlFields versions = fields.fields("versions");
  for (const std::string& name : versions.keys()) on.versions.emplace_back(name, versions.text(name));
  on.warnings = fields.texts("warnings");
  fields.refuse_unknown();
  return on;
}

std::vector<MachineLoad> read_loads(YamlFields& top) {
  std::vector<MachineLoad> out;
  for (YamlFields& row : top.list("loads")) {
    MachineLoad& load = out.emplace_back();
    load.num_ranks = row.integer("ranks", {1, 1e6});
    load.gemm = read_list<GemmSurface>(row, "gemm", kSurface);
    load.kernels = read_list<KernelRate>(row, "kernels", kKernel);
    load.attention = read_list<AttentionRate>(row, "attention", kAttention);
    row.refuse_unknown();
  }
  return out;
}

std::vector<CollectiveCurve> read_curves(YamlFields& top) {
  std::vector<CollectiveCurve> out;
  for (YamlFields& row : top.list("collectives")) {
    CollectiveCurve& curve = out.emplace_back();
    FieldReader reader(row);
    list_curve(reader, curve);
    curve.segments = read_list<CurveSegment>(row, "segments", kSegment);
    if (curve.segments.empty()) row.report("segments", "must not be empty");
    row.refuse_unknown();
  }
  return out;
}

std::string machine_text(const MeasuredOn& on) {
  FieldWriter fields;
  list_machine(fields, on);
  std::string out = "measured_on:\n" + fields.block() + "  versions:\n";
  for (const auto& [name, version] : on.versions) out += fmt::format("    {}: {}\n", quoted(name), quoted(version));
  if (on.warnings.empty()) return out;
  out += "  warnings:\n";
  for (const std::string& warning : on.warnings) out += fmt::format("  - {}\n", quoted(warning));
  return out;
}

std::string load_text(const MachineLoad& load) {
  return fmt::format("- ranks: {}\n", load.num_ranks) + list_text("  ", "gemm", load.gemm, kSurface) +
         list_text("  ", "kernels", load.kernels, kKernel) + list_text("  ", "attention", load.attention, kAttention);
}

std::string curve_text(const CollectiveCurve& curve) {
  FieldWriter fields;
  list_curve(fields, curve);
  std::string out = fields.block();
  out[0] = '-';
  return out + list_text("  ", "segments", curve.segments, kSegment);
}

/// JSON lines as a literal block.
std::string samples_text(const std::string& samples) {
  if (samples.empty()) return {};
  std::string out = "samples: |\n";
  for (const std::string& line : split(samples, '\n'))
    if (!line.empty()) out += fmt::format("  {}\n", line);
  return out;
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  }
  return out + "\"";
}

std::optional<Measured> read_measured(YamlFields& top) {
  auto machine = top.optional_fields("measured_on");
  if (!machine) return std::nullopt;
  Measured out{.on = read_machine(*machine), .loads = read_loads(top), .collectives = read_curves(top)};
  out.scalars = read_list<ScalarFit>(top, "scalars", kScalar);
  out.samples = top.optional_text("samples").value_or("");
  return out;
}

std::string measured_text(const Measured& measured) {
  std::string out = machine_text(measured.on);
  if (!measured.loads.empty()) out += "loads:\n";
  for (const MachineLoad& load : measured.loads) out += load_text(load);
  if (!measured.collectives.empty()) out += "collectives:\n";
  for (const CollectiveCurve& curve : measured.collectives) out += curve_text(curve);
  out += list_text("", "scalars", measured.scalars, kScalar);
  return out + samples_text(measured.samples);
}

}  // namespace gpuplan

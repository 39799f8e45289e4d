#include "cluster/profile/measured.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"
#include "base/yaml_file.h"
#include "cluster/profile/measured_fields.h"

namespace gpuplan {
namespace {

double ratio_between(std::int64_t a, std::int64_t b) { return double(std::max(a, b)) / double(std::min(a, b)); }

}  // namespace

Seconds KernelRate::time(double traffic) const {
  if (curve.empty() || traffic <= 0) return {traffic > 0 ? launch.value + traffic / bandwidth.value : 0};
  const auto after = std::find_if(curve.begin(), curve.end(),
                                  [&](const KernelPoint& p) { return double(p.traffic.count) >= traffic; });
  const KernelPoint& end = after == curve.end() ? curve.back() : *after;
  const Seconds in_proportion = traffic / double(end.traffic.count) * end.time;
  if (after == curve.end()) return in_proportion;
  if (after == curve.begin()) return std::max(in_proportion, std::min(end.time, Seconds{launch.value}));
  const KernelPoint& begin = *(after - 1);
  const double share = std::log(traffic / double(begin.traffic.count)) /
                       std::log(double(end.traffic.count) / double(begin.traffic.count));
  return begin.time * std::pow(end.time / begin.time, share);
}

const GemmSurface* MeasurementsAtRanks::surface_of(GemmType type, GemmLayout layout, GemmRegime regime) const {
  const auto nearness = [&](const GemmSurface& s) {
    const bool may_stand_in = s.regime == GemmRegime::Wide && regime != GemmRegime::Batched;
    return s.type != type       ? 0
           : s.regime == regime ? 4 + int(s.layout == layout)
           : may_stand_in       ? 2 + int(s.layout == layout)
                                : 0;
  };
  const GemmSurface* best = nullptr;
  for (const GemmSurface& s : gemm)
    if (nearness(s) > (best ? nearness(*best) : 0)) best = &s;
  return best;
}

const MeasurementsAtRanks* Measured::load_of(std::int64_t num_ranks) const {
  if (on.kind == "cpu") num_ranks = std::min(num_ranks, std::max<std::int64_t>(1, on.num_cores));
  const MeasurementsAtRanks* best = nullptr;
  for (const MeasurementsAtRanks& load : loads)
    if (!best || ratio_between(load.num_ranks, num_ranks) < ratio_between(best->num_ranks, num_ranks)) best = &load;
  return best;
}

const CollectiveCurve* Measured::curve_of(CollectiveKind kind, std::int64_t num_ranks) const {
  const CollectiveCurve* best = nullptr;
  for (const CollectiveCurve& curve : collectives) {
    if (curve.kind != kind) continue;
    if (!best || ratio_between(curve.num_ranks, num_ranks) < ratio_between(best->num_ranks, num_ranks)) best = &curve;
  }
  return best;
}

const ScalarFit* Measured::sync_latency_of(std::int64_t num_ranks) const {
  const auto takes_turns = [&](std::int64_t n) { return on.kind == "cpu" && n > on.num_cores; };
  const auto distance = [&](const ScalarFit& s) {
    constexpr double kOther = 1e6;  // ranks that wait for a core meet in another way than those that do not
    return ratio_between(s.num_ranks, num_ranks) + (takes_turns(s.num_ranks) == takes_turns(num_ranks) ? 0 : kOther);
  };
  const ScalarFit* best = nullptr;
  for (const ScalarFit& scalar : scalars)
    if (scalar.name == "dispatch meeting" && (!best || distance(scalar) < distance(*best))) best = &scalar;
  return best;
}

using OrderedJson = FieldWriter::Json;
using nlohmann::json;

// Found by argument-dependent lookup, so they stand in the structs' namespace.

static OrderedJson write_field(const Fitted& v) { return {v.value, v.low, v.high}; }

static bool read_field(Fields& fields, std::string_view key, const json&, GemmShape& v) {
  const auto n = read_numbers(fields, key, 4);
  const ProfileRange& range = profile_range("gemm", key);
  if (!n || !std::all_of(n->begin(), n->end(), [&](double size) { return check_range(fields, key, size, range); }))
    return false;
  v = {std::int64_t((*n)[0]), std::int64_t((*n)[1]), std::int64_t((*n)[2]), std::int64_t((*n)[3])};
  return true;
}
static OrderedJson write_field(const GemmShape& v) { return {v.m, v.n, v.k, v.batch}; }

/// [reach, alignment, then four sizes and a weight of each point]
static bool read_field(Fields& fields, std::string_view key, const json&, LocalCorrection& v) {
  const std::vector<double> n = fields.numbers(key, kAnyNumber);
  constexpr std::size_t kHead = 2, kSizes = std::tuple_size_v<CorrectionSizes>, kRow = kSizes + 1;
  if (n.size() < kHead || (n.size() - kHead) % kRow != 0) {
    fields.report(key, fmt::format("must be a reach, an alignment, and {} numbers for each point", kRow));
    return false;
  }
  const auto is_good = [&](std::size_t i, std::string_view name) {
    return check_range(fields, key, n[i], profile_range("correction", name));
  };
  if (!is_good(0, "reach") || !is_good(1, "alignment")) return false;
  std::vector<LocalCorrection::Point> points;
  for (std::size_t row = kHead; row < n.size(); row += kRow) {
    LocalCorrection::Point& point = points.emplace_back(LocalCorrection::Point{.weight = n[row + kSizes]});
    for (std::size_t i = 0; i < kSizes; ++i) {
      if (!is_good(row + i, "size")) return false;
      point.sizes[i] = std::int64_t(n[row + i]);
    }
    if (!is_good(row + kSizes, "weight")) return false;
  }
  v = LocalCorrection({n[0], n[1]}, std::move(points));
  return true;
}
static OrderedJson write_field(const LocalCorrection& v) {
  OrderedJson out = OrderedJson::array();
  if (v.is_empty()) return out;
  out = {v.metric().reach, v.metric().alignment};
  for (const LocalCorrection::Point& p : v.points()) {
    for (const std::int64_t size : p.sizes) out.push_back(size);
    out.push_back(p.weight);
  }
  return out;
}

/// [bytes, seconds, …], rising in bytes
static bool read_field(Fields& fields, std::string_view key, const json&, std::vector<KernelPoint>& v) {
  const std::vector<double> n = fields.numbers(key, kAnyNumber);
  const auto is_good = [&](const char* what, double number) {
    return check_range(fields, key, number, profile_range("kernels", what));
  };
  bool is_rising = n.size() % 2 == 0;
  for (std::size_t i = 0; is_rising && i < n.size(); i += 2) {
    if (!is_good("bytes of curve_bytes_s", n[i]) || !is_good("seconds of curve_bytes_s", n[i + 1]) ||
        !is_good("bytes over seconds of curve_bytes_s", n[i] / n[i + 1]))
      return false;
    is_rising = i == 0 || n[i] > n[i - 2];
    v.push_back({{std::int64_t(n[i])}, {n[i + 1]}});
  }
  if (!is_rising) fields.report(key, "must be pairs of bytes and seconds, rising in bytes");
  return is_rising;
}
static OrderedJson write_field(const std::vector<KernelPoint>& v) {
  OrderedJson out = OrderedJson::array();
  for (const KernelPoint& p : v) out.push_back(p.traffic.count), out.push_back(p.time.value);
  return out;
}

namespace {

template <class Archive, class Quality>
void list_quality(Archive& f, Quality& q) {
  list_number(f, "fit", "points", q.num_points);
  list_number(f, "fit", "outliers", q.num_outliers);
  list_number(f, "fit", "median_error", q.median_error);
  list_number(f, "fit", "p90_error", q.p90_error);
  list_number(f, "fit", "held_out_median", q.held_out_median);
  list_number(f, "fit", "held_out_p90", q.held_out_p90);
}

template <class Archive, class Surface>
void list_surface(Archive& f, Surface& s) {
  f("type", s.type);
  f("layout", s.layout);
  f("regime", s.regime);
  for (const GemmParameter& parameter : kGemmParameters)
    if (parameter.is_in_all_profiles || f.has(parameter.name))
      list_number(f, "gemm", parameter.name, s.*parameter.member);
  list_number(f, "gemm", "tile_m", s.tile_m);
  list_number(f, "gemm", "tile_n", s.tile_n);
  list_number(f, "gemm", "num_units", s.num_units);
  f.optional("correction", s.correction);
  f("least", s.range.least);
  f("most", s.range.most);
  list_quality(f, s.quality);
}

template <class Archive, class Rate>
void list_kernel(Archive& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  list_number(f, "kernels", "launch_s", r.launch);
  list_number(f, "kernels", "bandwidth_byte_s", r.bandwidth);
  list_number(f, "kernels", "least_bytes", r.least);
  list_number(f, "kernels", "most_bytes", r.most);
  list_quality(f, r.quality);
  f.optional("curve_bytes_s", r.curve);
}

template <class Archive, class Rate>
void list_attention(Archive& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  list_number(f, "attention", "head_size", r.head_size);
  list_number(f, "attention", "launch_s", r.launch);
  list_number(f, "attention", "rate_flop_s", r.rate);
  list_quality(f, r.quality);
}

template <class Archive, class Scalar>
void list_scalar(Archive& f, Scalar& s) {
  f("name", s.name);
  f("unit", s.unit);
  list_number(f, "scalars", "ranks", s.num_ranks);
  if constexpr (Archive::kReads) {
    constexpr std::array<std::string_view, 4> kUnits{"s", "B/s", "B", ""};
    if (std::find(kUnits.begin(), kUnits.end(), s.unit) == kUnits.end())
      return f.report("unit", "must be s, B/s, B, or an empty text for a ratio");
  }
  list_number(f, "value", s.value, profile_range("scalars", s.unit));
  list_quality(f, s.quality);
}

template <class Archive, class Errors>
void list_held_out(Archive& f, Errors& e) {
  f("what", e.what);
  list_number(f, "fit", "points", e.num_points);
  list_number(f, "fit", "median", e.median);
  list_number(f, "fit", "p90", e.p90);
}

template <class Archive, class Segment>
void list_segment(Archive& f, Segment& s) {
  list_number(f, "collectives", "from_bytes", s.from);
  list_number(f, "collectives", "alpha_s", s.alpha);
  list_number(f, "collectives", "bandwidth_byte_s", s.bandwidth);
}

constexpr auto kSegment = [](auto& f, auto& s) { list_segment(f, s); };

template <class Archive, class Curve>
void list_curve(Archive& f, Curve& c) {
  f("kind", c.kind);
  list_number(f, "collectives", "ranks", c.num_ranks);
  f("scope", c.scope);
  f.optional("correction", c.correction);
  list_number(f, "collectives", "least_bytes", c.least);
  list_number(f, "collectives", "most_bytes", c.most);
  list_quality(f, c.quality);
  f.optional_objects("segments", c.segments, kSegment);
  if constexpr (Archive::kReads) {
    const auto is_wrong = [](const CurveSegment& a, const CurveSegment& b) { return b.from <= a.from; };
    if (c.segments.empty()) f.report("segments", "must not be empty");
    if (std::adjacent_find(c.segments.begin(), c.segments.end(), is_wrong) != c.segments.end())
      f.report("segments", "must rise in from_bytes");
  }
}

constexpr auto kMachine = [](auto& f, auto& on) {
  list_machine(f, on);
  f.optional("warnings", on.warnings);
};

template <class Archive, class Load>
void list_load(Archive& f, Load& load) {
  list_number(f, "loads", "ranks", load.num_ranks);
  f.optional_objects("gemm", load.gemm, [](auto& row, auto& s) { list_surface(row, s); });
  f.optional_objects("kernels", load.kernels, [](auto& row, auto& r) { list_kernel(row, r); });
  f.optional_objects("attention", load.attention, [](auto& row, auto& r) { list_attention(row, r); });
}

template <class Archive, class M>
void list_fits(Archive& f, M& m) {
  f.optional_objects("loads", m.loads, [](auto& row, auto& load) { list_load(row, load); });
  f.optional_objects("collectives", m.collectives, [](auto& row, auto& c) { list_curve(row, c); });
  f.optional_objects("scalars", m.scalars, [](auto& row, auto& s) { list_scalar(row, s); });
  f.optional_objects("held_out", m.held_out, [](auto& row, auto& e) { list_held_out(row, e); });
}

/// A word needs no quotes: "all-gather".
std::string yaml_word(const std::string& text) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  const bool is_word = !text.empty() && text[0] >= 'a' && text[0] <= 'z' && text != "null" && text != "true" &&
                       text != "false" && std::all_of(text.begin(), text.end(), is_plain);
  return is_word ? text : in_quotes(text);
}

/// Writes it on one line.
std::string flow_text(const OrderedJson& value) {
  if (value.is_string()) return yaml_word(value.get_ref<const std::string&>());
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, item] : value.items())
    parts.push_back(value.is_object() ? fmt::format("{}: {}", yaml_word(key), flow_text(item)) : flow_text(item));
  return fmt::format("{}{}{}", value.is_object() ? "{" : "[", fmt::join(parts, ", "), value.is_object() ? "}" : "]");
}

bool is_list_of(const OrderedJson& value, bool (OrderedJson::*is_wanted)() const noexcept) {
  return value.is_array() && !value.empty() && (value.front().*is_wanted)();
}

/// The fields of an object, one on a line. A list of objects or texts has one item on a line, unless an item holds such
/// a list itself.
std::string block_text(const OrderedJson& object, const std::string& indent) {
  std::string out;
  for (const auto& [key, value] : object.items()) {
    out += fmt::format("{}{}:", indent, yaml_word(key));
    if (value.is_object()) {
      out += "\n" + block_text(value, indent + "  ");
    } else if (is_list_of(value, &OrderedJson::is_object) || is_list_of(value, &OrderedJson::is_string)) {
      out += "\n";
      for (const OrderedJson& item : value) {
        const bool is_nested = item.is_object() && std::any_of(item.begin(), item.end(), [](const OrderedJson& inner) {
                                 return is_list_of(inner, &OrderedJson::is_object);
                               });
        out += indent + "- " +
               (is_nested ? block_text(item, indent + "  ").substr(indent.size() + 2) : flow_text(item) + "\n");
      }
    } else {
      out += " " + flow_text(value) + "\n";
    }
  }
  return out;
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

std::optional<MeasuredOn> read_machine(Fields& top) {
  MeasuredOn on;
  if (!top.optional_object("measured_on", [&](Fields& f) { kMachine(f, on); })) return std::nullopt;
  return on;
}

std::optional<Measured> read_measured(Fields& top) {
  auto machine = read_machine(top);
  if (!machine) return std::nullopt;
  Measured out{.on = *std::move(machine)};
  list_fits(top, out);
  out.samples = top.optional_lines("samples").value_or("");
  return out;
}

std::string measured_text(const Measured& measured) {
  FieldWriter out;
  out.object("measured_on", [&](auto& f) { kMachine(f, measured.on); });
  list_fits(out, measured);
  return block_text(out.take(), "") + samples_text(measured.samples);
}

}  // namespace gpuplan

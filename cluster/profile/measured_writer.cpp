#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"
#include "base/yaml_text.h"
#include "cluster/profile/measured_fields.h"
#include "cluster/profile/measured_file.h"

namespace gpuplan {
namespace {

/// Fields of one mapping.
class FieldWriter {
 public:
  bool has(const char*) const { return true; }
  void operator()(const char* key, const Fitted& v) {
    add(key, fmt::format("[{:.6g}, {:.6g}, {:.6g}]", v.value, v.low, v.high));
  }
  void operator()(const char* key, std::int64_t v) { add(key, fmt::format("{}", v)); }
  void operator()(const char* key, Bytes v) { add(key, fmt::format("{}", v.count)); }
  void operator()(const char* key, double v) { add(key, fmt::format("{:.6g}", v)); }
  void operator()(const char* key, const std::string& v) { add(key, in_quotes(v)); }
  void operator()(const char* key, GemmType v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, GemmLayout v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, GemmRegime v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, CollectiveKind v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, RankScope v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, Dtype v) { add(key, std::string(to_string(v))); }
  void operator()(const char* key, const GemmShape& v) {
    add(key, fmt::format("[{}, {}, {}, {}]", v.m, v.n, v.k, v.batch));
  }
  void operator()(const char* key, const LocalCorrection& v) {
    if (v.is_empty()) return;
    std::string numbers = fmt::format("{}, {}", v.metric().reach, v.metric().alignment);
    for (const LocalCorrection::Point& p : v.points())
      numbers += fmt::format(", {}, {:.5g}", fmt::join(p.sizes, ", "), p.weight);
    add(key, "[" + numbers + "]");
  }
  void operator()(const char* key, const std::vector<KernelPoint>& v) {
    std::string numbers;
    for (const KernelPoint& p : v)
      numbers += fmt::format("{}{}, {:.6g}", numbers.empty() ? "" : ", ", p.traffic.count, p.time.value);
    if (!v.empty()) add(key, "[" + numbers + "]");
  }
  std::string flow() const { return fmt::format("{{{}}}", fmt::join(fields_, ", ")); }
  std::string block() const { return fmt::format("  {}\n", fmt::join(fields_, "\n  ")); }

 private:
  void add(const char* key, const std::string& value) { fields_.push_back(fmt::format("{}: {}", key, value)); }
  std::vector<std::string> fields_;
};

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

std::string machine_text(const MeasuredOn& on) {
  FieldWriter fields;
  list_machine(fields, on);
  std::string out = "measured_on:\n" + fields.block() + "  versions:\n";
  for (const auto& [name, version] : on.versions)
    out += fmt::format("    {}: {}\n", in_quotes(name), in_quotes(version));
  if (on.warnings.empty()) return out;
  out += "  warnings:\n";
  for (const std::string& warning : on.warnings) out += fmt::format("  - {}\n", in_quotes(warning));
  return out;
}

std::string load_text(const MeasurementsAtRanks& load) {
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

std::string measured_text(const Measured& measured) {
  std::string out = machine_text(measured.on);
  if (!measured.loads.empty()) out += "loads:\n";
  for (const MeasurementsAtRanks& load : measured.loads) out += load_text(load);
  if (!measured.collectives.empty()) out += "collectives:\n";
  for (const CollectiveCurve& curve : measured.collectives) out += curve_text(curve);
  out += list_text("", "scalars", measured.scalars, kScalar) + list_text("", "held_out", measured.held_out, kHeldOut);
  return out + samples_text(measured.samples);
}

}  // namespace gpuplan

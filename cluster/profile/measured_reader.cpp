#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/profile/measured_fields.h"
#include "cluster/profile/measured_file.h"

namespace gpuplan {
namespace {

class FieldReader {
 public:
  explicit FieldReader(YamlFields& fields) : fields_(fields) {}
  bool has(const char* key) const { return fields_.has(key); }
  void operator()(const char* key, Fitted& v) {
    if (const auto n = numbers(key, 3)) v = {(*n)[0], (*n)[1], (*n)[2]};
  }
  void operator()(const char* key, std::int64_t& v) { v = fields_.integer(key); }
  void operator()(const char* key, Bytes& v) { v = {fields_.integer(key)}; }
  void operator()(const char* key, double& v) { v = fields_.number(key); }
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
  /// [reach, alignment, then four sizes and a weight of each point]
  void operator()(const char* key, LocalCorrection& v) {
    const std::vector<double> n = fields_.numbers(key, {-1e18, 1e18});
    if (n.empty()) return;
    constexpr std::size_t kHead = 2, kSizes = std::tuple_size_v<CorrectionSizes>, kRow = kSizes + 1;
    if (n.size() < kHead || (n.size() - kHead) % kRow != 0 || n[0] <= 0 || n[1] < 0)
      return fields_.report(key,
                            fmt::format("must be a reach above 0, an alignment, and {} numbers for each point", kRow));
    std::vector<LocalCorrection::Point> points;
    for (std::size_t row = kHead; row < n.size(); row += kRow) {
      LocalCorrection::Point& point = points.emplace_back(LocalCorrection::Point{.weight = n[row + kSizes]});
      std::transform(&n[row], &n[row] + kSizes, point.sizes.begin(), [](double size) { return std::int64_t(size); });
    }
    v = LocalCorrection({n[0], n[1]}, std::move(points));
  }

  /// [bytes, seconds, …], rising in bytes
  void operator()(const char* key, std::vector<KernelPoint>& v) {
    const std::vector<double> n = fields_.numbers(key, {0, 1e18});
    for (std::size_t i = 0; i + 1 < n.size(); i += 2) v.push_back({{std::int64_t(n[i])}, {n[i + 1]}});
    const auto is_wrong = [](const KernelPoint& a, const KernelPoint& b) {
      return b.traffic <= a.traffic || !(b.time.value > 0);
    };
    if (n.size() % 2 != 0 || (!v.empty() && !(v.front().time.value > 0 && v.front().traffic.count > 0)) ||
        std::adjacent_find(v.begin(), v.end(), is_wrong) != v.end())
      fields_.report(key, "must be pairs of bytes and seconds above 0, rising in bytes");
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

MeasuredOn read_machine_fields(YamlFields& fields) {
  MeasuredOn on;
  FieldReader reader(fields);
  list_machine(reader, on);
  YamlFields versions = fields.fields("versions");
  for (const std::string& name : versions.keys()) on.versions.emplace_back(name, versions.text(name));
  on.warnings = fields.texts("warnings");
  fields.refuse_unknown();
  return on;
}

std::vector<MeasurementsAtRanks> read_loads(YamlFields& top) {
  std::vector<MeasurementsAtRanks> out;
  for (YamlFields& row : top.list("loads")) {
    MeasurementsAtRanks& load = out.emplace_back();
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

}  // namespace

std::optional<MeasuredOn> read_machine(YamlFields& top) {
  auto machine = top.optional_fields("measured_on");
  if (!machine) return std::nullopt;
  return read_machine_fields(*machine);
}

std::optional<Measured> read_measured(YamlFields& top) {
  auto machine = read_machine(top);
  if (!machine) return std::nullopt;
  Measured out{.on = *std::move(machine), .loads = read_loads(top), .collectives = read_curves(top)};
  out.scalars = read_list<ScalarFit>(top, "scalars", kScalar);
  out.held_out = read_list<HeldOut>(top, "held_out", kHeldOut);
  out.samples = top.optional_text("samples").value_or("");
  return out;
}

}  // namespace gpuplan

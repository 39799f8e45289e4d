#include "report/profile_numbers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/names.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

/// The number of products with a surface of their own.
std::string regime_suffix(GemmRegime regime) {
  return regime == GemmRegime::Wide ? "" : fmt::format(", {}", to_string(regime));
}

}  // namespace

std::string gemm_name(const GemmSurface& surface) {
  return fmt::format("{} {} GEMM{}", to_string(surface.type), to_string(surface.layout), regime_suffix(surface.regime));
}

std::string kernel_name(const KernelRate& rate) { return fmt::format("{} {}", rate.kernel, to_string(rate.dtype)); }

std::string attention_name(const AttentionRate& rate) {
  return fmt::format("{} attention {}, head size {}", rate.kernel, to_string(rate.dtype), rate.head_size);
}

std::string collective_name(const CollectiveCurve& curve) {
  const char* const scope = curve.scope == RankScope::All ? "" : ", in pairs";
  return fmt::format("{} of {} ranks{}", to_string(curve.kind), curve.num_ranks, scope);
}

std::string ranks_suffix(std::int64_t num_ranks) {
  return num_ranks == 1 ? "" : fmt::format(", {} ranks at once", num_ranks);
}

std::string error_percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0); }

std::string quality_text(const FitQuality& q) {
  if (q.num_points == 0) return "";
  std::string out = fmt::format("off by {} (p90 {})", error_percent(q.median_error), error_percent(q.p90_error));
  if (q.held_out_median > 0 || q.held_out_p90 > 0)
    out += fmt::format(", held out {} (p90 {})", error_percent(q.held_out_median), error_percent(q.held_out_p90));
  return out + fmt::format("; {} samples, {} outlier{}", q.num_points, q.num_outliers, q.num_outliers == 1 ? "" : "s");
}

namespace {

/// The numbers of one fit after the other.
struct NumberList {
  std::vector<ProfileNumber> numbers;
  std::string fit;

  void add(std::string_view what, FitUnit unit, const Fitted& number) {
    numbers.push_back({fmt::format("{}: {}", fit, what), unit, {}, number});
  }
};

void add_load(NumberList& list, const MeasurementsAtRanks& load) {
  const std::string suffix = ranks_suffix(load.num_ranks);
  for (const GemmSurface& surface : load.gemm) {
    list.fit = gemm_name(surface) + suffix;
    for (const GemmParameter& parameter : kGemmParameters)
      list.add(parameter.name, parameter.unit, surface.*parameter.member);
  }
  for (const KernelRate& rate : load.kernels) {
    list.fit = kernel_name(rate) + suffix;
    list.add("launch", FitUnit::Time, rate.launch);
    list.add("bandwidth", FitUnit::ByteRate, rate.bandwidth);
  }
  for (const AttentionRate& rate : load.attention) {
    list.fit = attention_name(rate) + suffix;
    list.add("launch", FitUnit::Time, rate.launch);
    list.add("rate", FitUnit::FlopRate, rate.rate);
  }
}

void add_curve(NumberList& list, const CollectiveCurve& curve) {
  for (const CurveSegment& segment : curve.segments) {
    const std::string from = segment.from.count > 0 ? fmt::format(" from {}", format_bytes(segment.from)) : "";
    list.fit = collective_name(curve) + from;
    list.add("alpha", FitUnit::Time, segment.alpha);
    list.add("bandwidth", FitUnit::ByteRate, segment.bandwidth);
  }
}

const ProfileNumber* find(const std::vector<ProfileNumber>& numbers, const std::string& name) {
  const auto at = std::find_if(numbers.begin(), numbers.end(), [&](const ProfileNumber& n) { return n.name == name; });
  return at == numbers.end() ? nullptr : &*at;
}

ComparedNumber compared(const ProfileNumber& a, const ProfileNumber& b) {
  ComparedNumber out{.first = a, .second = b, .ratio = {}, .do_intervals_overlap = {}};
  if (a.number.value != 0) out.ratio = b.number.value / a.number.value;
  if (a.has_interval && b.has_interval)
    out.do_intervals_overlap = a.number.low <= b.number.high && b.number.low <= a.number.high;
  return out;
}

bool is_shipped(const ComparedNumber& row) {
  return !row.first.has_interval && !row.second.has_interval && row.first.number.value == row.second.number.value;
}

}  // namespace

FitUnit unit_of(const ScalarFit& scalar) {
  if (scalar.unit == "B/s") return FitUnit::ByteRate;
  if (scalar.unit == "B") return FitUnit::ByteCount;
  return scalar.unit == "s" ? FitUnit::Time : FitUnit::Plain;
}

std::vector<ProfileNumber> numbers_of(const Profile& profile) {
  NumberList list;
  for (const auto& [name, v] : profile.values)
    list.numbers.push_back(
        {name, std::nullopt, v.unit, {v.value, v.low.value_or(v.value), v.high.value_or(v.value)}, v.low && v.high});
  if (!profile.measured) return list.numbers;
  for (const MeasurementsAtRanks& load : profile.measured->loads) add_load(list, load);
  for (const CollectiveCurve& curve : profile.measured->collectives) add_curve(list, curve);
  for (const ScalarFit& scalar : profile.measured->scalars)
    list.numbers.push_back({scalar.name + ranks_suffix(scalar.num_ranks), unit_of(scalar), {}, scalar.value});
  return list.numbers;
}

std::string unit_name(const ProfileNumber& number) {
  constexpr std::array<const char*, 5> kNames{"FLOP/s", "B/s", "s", "B", ""};
  return number.unit ? kNames[std::size_t(*number.unit)] : number.own_unit;
}

ProfileComparison compare_profiles(const Profile& first, const Profile& second) {
  ProfileComparison out;
  const std::vector<ProfileNumber> a = numbers_of(first), b = numbers_of(second);
  for (const ProfileNumber& one : a) {
    const ProfileNumber* const other = find(b, one.name);
    if (!other) {
      out.only_in_first.push_back(one.name);
      continue;
    }
    const ComparedNumber row = compared(one, *other);
    if (is_shipped(row)) continue;
    out.num_with_intervals += row.do_intervals_overlap.has_value();
    out.num_agreeing += row.do_intervals_overlap.value_or(false);
    out.both.push_back(row);
  }
  for (const ProfileNumber& one : b)
    if (!find(a, one.name)) out.only_in_second.push_back(one.name);
  return out;
}

namespace {

/// A field with commas, quotes or line ends stands in quotes. Source: RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

/// Overhead is read in bytes; everything else is timed.
std::string_view unit_of(const Probe& probe) { return probe.family == ProbeFamily::Overhead ? "bytes" : "seconds"; }

}  // namespace

std::vector<Sample> samples_of(const Profile& profile) {
  std::vector<Sample> out;
  if (!profile.measured) return out;
  std::int64_t number = 0;
  for (const std::string& line : split(profile.measured->samples, '\n')) {
    ++number;
    if (!trim(line).empty())
      out.push_back(sample_from_json(line, fmt::format("{}: samples, line {}", profile.file, number)));
  }
  return out;
}

std::string samples_csv(const std::vector<Sample>& samples) {
  std::string out = std::string(kSamplesBegin) + "is_converged,flops,traffic_bytes,overlapped,failure\n";
  for (const Sample& s : samples) {
    const std::string figures = s.is_ok() ? fmt::format("{:.9g},{:.9g},{:.9g},{},{},{}", s.median, s.low, s.high,
                                                        s.num_runs, s.num_outliers, s.is_converged ? "true" : "false")
                                          : ",,,,,";
    const std::string overlapped =
        s.probe.family == ProbeFamily::Overlap && s.is_ok() ? fmt::format("{:.6g}", s.overlapped) : "";
    out += fmt::format("{},{},{},{},{},{:.9g},{},{},{}\n", csv_field(s.probe.key()), to_string(s.probe.family),
                       s.probe.num_ranks, unit_of(s.probe), figures, s.probe.flops(), s.probe.traffic().count,
                       overlapped, csv_field(s.failure));
  }
  return out;
}

}  // namespace gpuplan

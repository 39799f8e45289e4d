#include "report/text/profile_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "cluster/profile/profile.h"
#include "report/profile_numbers.h"
#include "report/text/amounts.h"
#include "report/text/fit_plot.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// " ±3 %": half of the interval, over the number.
std::string half_width(const Fitted& f) {
  const double half = std::max(f.high - f.value, f.value - f.low);
  if (f.value <= 0 || half <= 0) return "";
  const double percents = 100 * half / f.value;
  return percents > 999 ? " ±>999 %" : fmt::format(" ±{:.{}f} %", percents, percents < 0.95 ? 1 : 0);
}

std::string rate_cell(const Fitted& f) { return format_rate(FlopsPerSec{f.value}) + half_width(f); }
std::string bandwidth_cell(const Fitted& f) { return format_rate(BytesPerSec{f.value}) + half_width(f); }
std::string time_cell(const Fitted& f) {
  return f.value <= 0 ? "0" : format_short_duration(Seconds{f.value}) + half_width(f);
}

/// Only the rate has room for its interval.
std::string parameter_cell(const GemmParameter& parameter, const Fitted& f) {
  if (parameter.unit == FitUnit::FlopRate) return rate_cell(f);
  if (parameter.unit == FitUnit::ByteRate) return format_rate(BytesPerSec{f.value});
  if (parameter.unit == FitUnit::Time) return f.value <= 0 ? "0" : format_short_duration(Seconds{f.value});
  return fmt::format("{:.3g}", f.value);
}

/// "k_half" is "k half".
std::string plain_words(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

void add_quality_columns(Table& table) {
  table.columns.push_back({"held out", Align::Right});
  table.columns.push_back({"p90", Align::Right});
  table.columns.push_back({"samples", Align::Right, 2});
}

/// What the fit is off on samples it had not seen; of few samples, on those it was made from.
void add_quality_cells(std::vector<Cell>& row, const FitQuality& q) {
  const bool is_held_out = q.held_out_median > 0 || q.held_out_p90 > 0;
  const double median = is_held_out ? q.held_out_median : q.median_error,
               p90 = is_held_out ? q.held_out_p90 : q.p90_error;
  const std::string mark = is_held_out ? "" : "*";
  const bool can_be_off = q.num_points > 1;
  row.push_back({can_be_off ? error_percent(median) + mark : "–"});
  row.push_back({can_be_off ? error_percent(p90) + mark : "–"});
  row.push_back({q.num_outliers == 0 ? fmt::format("{}", q.num_points)
                                     : fmt::format("{} ({} out)", q.num_points, q.num_outliers)});
}

std::string layout_text(const GemmSurface& s) {
  return fmt::format("{}{}", to_string(s.layout),
                     s.regime == GemmRegime::Wide ? std::string() : fmt::format(", {}", to_string(s.regime)));
}

/// "312 TFLOP/s", "5.2 us", "0.89".
std::string number_text(const ProfileNumber& n) {
  constexpr std::size_t kShort = 4;  // "us", "GB/s"; the unit of a share is a sentence
  if (!n.unit) return fmt::format("{:.4g}{}", n.number.value, n.own_unit.size() <= kShort ? " " + n.own_unit : "");
  switch (*n.unit) {
    case FitUnit::FlopRate: return format_rate(FlopsPerSec{n.number.value});
    case FitUnit::ByteRate: return format_rate(BytesPerSec{n.number.value});
    case FitUnit::Time: return format_short_duration(Seconds{n.number.value});
    case FitUnit::ByteCount: return format_bytes(Bytes{std::llround(n.number.value)});
    case FitUnit::Plain: break;
  }
  return fmt::format("{:.4g}", n.number.value);
}

std::string scalar_text(const ScalarFit& s) { return number_text({s.name, unit_of(s), {}, s.value}); }

Table gemm_table(const Measured& measured) {
  constexpr std::size_t kAlwaysShown =
      1;  // the rate; the screen's width decides about the others, the later the sooner gone
  Table table{.columns = {{"  type"}, {"layout"}, {"ranks", Align::Right, 1}}, .rows = {}};
  for (std::size_t i = 0; i < kGemmParameters.size(); ++i)
    table.columns.push_back(
        {plain_words(kGemmParameters[i].name), Align::Right, i < kAlwaysShown ? 0 : narrow<int>(i) + 2});
  add_quality_columns(table);
  for (const MeasurementsAtRanks& load : measured.loads)
    for (const GemmSurface& s : load.gemm) {
      std::vector<Cell> row{
          {"  " + std::string(to_string(s.type))}, {layout_text(s)}, {std::to_string(load.num_ranks)}};
      for (const GemmParameter& parameter : kGemmParameters)
        row.push_back({parameter_cell(parameter, s.*parameter.member)});
      add_quality_cells(row, s.quality);
      table.add(std::move(row));
    }
  return table;
}

Table kernel_table(const Measured& measured) {
  Table table{.columns = {{"  kernel"},
                          {"type"},
                          {"ranks", Align::Right, 1},
                          {"bandwidth", Align::Right},
                          {"launch", Align::Right}},
              .rows = {}};
  add_quality_columns(table);
  for (const MeasurementsAtRanks& load : measured.loads)
    for (const KernelRate& r : load.kernels) {
      std::vector<Cell> row{{"  " + r.kernel},
                            {std::string(to_string(r.dtype))},
                            {std::to_string(load.num_ranks)},
                            {bandwidth_cell(r.bandwidth)},
                            {time_cell(r.launch)}};
      add_quality_cells(row, r.quality);
      table.add(std::move(row));
    }
  return table;
}

Table attention_table(const Measured& measured) {
  Table table{.columns = {{"  attention"},
                          {"type"},
                          {"head size", Align::Right},
                          {"ranks", Align::Right, 1},
                          {"rate", Align::Right},
                          {"launch", Align::Right}},
              .rows = {}};
  add_quality_columns(table);
  for (const MeasurementsAtRanks& load : measured.loads)
    for (const AttentionRate& r : load.attention) {
      std::vector<Cell> row{{"  " + r.kernel},
                            {std::string(to_string(r.dtype))},
                            {std::to_string(r.head_size)},
                            {std::to_string(load.num_ranks)},
                            {rate_cell(r.rate)},
                            {time_cell(r.launch)}};
      add_quality_cells(row, r.quality);
      table.add(std::move(row));
    }
  return table;
}

Table collective_table(const Measured& measured) {
  Table table{.columns = {{"  collective"},
                          {"from", Align::Right},
                          {"alpha", Align::Right},
                          {"algbw", Align::Right},
                          {"busbw", Align::Right, 3}},
              .rows = {}};
  add_quality_columns(table);
  for (const CollectiveCurve& curve : measured.collectives)
    for (const CurveSegment& segment : curve.segments) {
      const bool is_first = &segment == &curve.segments.front();
      const Bytes from = std::max(segment.from, curve.least);
      std::vector<Cell> row{
          {is_first ? "  " + collective_name(curve) : ""},
          {mark_label(double(from.count), PlotUnit::ByteCount)},
          {time_cell(segment.alpha)},
          {bandwidth_cell(segment.bandwidth)},
          {format_rate(BytesPerSec{segment.bandwidth.value * bus_factor(curve.kind, curve.num_ranks)})}};
      if (is_first)
        add_quality_cells(row, curve.quality);
      else
        row.resize(table.columns.size());
      table.add(std::move(row));
    }
  return table;
}

/// Latencies, copies, overheads.
Table scalar_table(const Measured& measured) {
  Table table{.columns = {{"  measured alone"}, {"ranks", Align::Right, 1}, {"", Align::Right}}, .rows = {}};
  add_quality_columns(table);
  for (const ScalarFit& s : measured.scalars) {
    std::vector<Cell> row{{"  " + s.name}, {std::to_string(s.num_ranks)}, {scalar_text(s) + half_width(s.value)}};
    add_quality_cells(row, s.quality);
    table.add(std::move(row));
  }
  return table;
}

/// Values that were measured, or all of a shipped profile.
Table value_table(const Profile& profile) {
  Table table{.columns = {{"  value"},
                          {"", Align::Right},
                          {"interval", Align::Right},
                          {"residual", Align::Right, 2},
                          {"samples", Align::Right, 2},
                          {"kind"},
                          {"unit", Align::Left, 1}},
              .rows = {}};
  for (const auto& [name, v] : profile.values) {
    if (profile.measured && !v.low && v.num_samples == 0) continue;  // the shipped class's
    table.add({{"  " + name},
               {fmt::format("{:.4g}", v.value)},
               {v.low && v.high ? fmt::format("{:.4g}-{:.4g}", *v.low, *v.high) : ""},
               {v.residual > 0 ? error_percent(v.residual) : ""},
               {v.num_samples > 0 ? std::to_string(v.num_samples) : ""},
               {v.kind},
               {v.unit}});
  }
  return without_empty_columns(std::move(table));
}

std::string device_text(const MeasuredOn& on) {
  return on.num_devices == 1 || on.kind == "cpu" ? on.device : fmt::format("{} × {}", on.num_devices, on.device);
}

std::string versions_text(const MeasuredOn& on) {
  std::vector<std::string> parts;
  for (const auto& [name, version] : on.versions) parts.push_back(name + " " + version);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string machine_text(const Profile& profile, const Screen& screen) {
  const MeasuredOn& on = profile.measured->on;
  const char* const cores = on.kind == "cpu" ? "cores" : "SMs";
  return render(std::vector<Fact>{{"measured on", device_text(on)},
                                  {"catalogue", on.gpu},
                                  {"device", fmt::format("{}, {} {}, {}", on.architecture, on.num_cores, cores,
                                                         format_bytes(on.memory))},
                                  {"fabric", on.fabric == "none" ? "" : on.fabric},
                                  {"date", on.date},
                                  {"versions", versions_text(on)},
                                  {"file", profile.file}},
                2, screen);
}

std::string section(std::string_view title, Table table, const Screen& screen) {
  if (table.rows.empty()) return "";
  return heading(title, screen) + render(table, screen);
}

std::string warnings_text(const MeasuredOn& on, const Screen& screen) {
  return on.warnings.empty() ? "" : heading("Warnings", screen) + points(on.warnings, screen);
}

std::string tables_text(const Profile& profile, const Screen& screen) {
  const Measured& measured = *profile.measured;
  const std::string fits = section("Matrix products", gemm_table(measured), screen) +
                           section("Memory-bound kernels", kernel_table(measured), screen) +
                           section("Attention", attention_table(measured), screen) +
                           section("Collectives", collective_table(measured), screen) +
                           section("Latencies, copies, overheads", scalar_table(measured), screen);
  const std::string legend = wrap(
      "held out, p90: how far a fit is off on samples it had not seen, median and 90th percentile (*: on its own "
      "samples). "
      "±: half of the 95 % interval. --json has every number with its interval.",
      prose_width(screen), "  ", "  ");
  return fits + section("Values", value_table(profile), screen) +
         (fits.empty() ? "" : "\n" + paint(legend, Ink::Faint, screen));
}

Table measured_table(const ProfileList& list) {
  Table table{.columns = {{"  profile"}, {"measured on"}, {"date"}, {"used for"}}, .rows = {}};
  for (const ListedProfile& one : list.measured) {
    const auto& profile = one.stored.profile;
    if (!profile)
      table.add({{"  " + one.stored.file.filename().string()}, {"cannot be read", Ink::Bad}, {}, {}});
    else if (!profile->measured)
      table.add({{"  " + profile->id, Ink::Strong},
                 {profile->title.empty() ? "not a calibration" : profile->title},
                 {},
                 {one.used_for}});
    else
      table.add({{"  " + profile->id, Ink::Strong},
                 {device_text(profile->measured->on)},
                 {profile->measured->on.date},
                 {one.used_for, Ink::Good}});
  }
  return without_empty_columns(std::move(table));
}

Table shipped_table(const ProfileList& list) {
  Table table{.columns = {{"  profile"}, {"for"}, {"used for"}}, .rows = {}};
  for (const ListedClass& one : list.shipped) table.add({{"  " + one.id}, {one.title}, {one.used_for, Ink::Good}});
  return without_empty_columns(std::move(table));
}

/// The first line of each; `show` tells all.
std::string problems_text(const ProfileList& list, const Screen& screen) {
  std::string out;
  for (const ListedProfile& one : list.measured)
    if (!one.stored.profile) out += wrap(split(one.stored.problem, '\n').front(), prose_width(screen), "  ", "    ");
  return out;
}

Ink ink_of(const ComparedNumber& row) { return row.do_intervals_overlap.value_or(true) ? Ink::Plain : Ink::Bad; }

std::string overlap_text(const ComparedNumber& row) {
  return !row.do_intervals_overlap ? "" : *row.do_intervals_overlap ? "yes" : "no";
}

std::string missing_text(const std::vector<std::string>& names, const std::string& id, const Screen& screen) {
  return names.empty() ? "" : heading("Only in " + id, screen) + points(names, screen);
}

}  // namespace

std::string profile_page(const Profile& profile, ShowPlots plots, const Screen& screen) {
  std::string out = paint(profile.id, Ink::Strong, screen) + (profile.title.empty() ? "" : ": " + profile.title) + "\n";
  if (!profile.measured)
    return out +
           wrap(
               "Not measured on a machine of yours: shipped with gpuplan, or written by hand. 'gpuplan calibrate' "
               "measures.",
               prose_width(screen), "  ", "  ") +
           section("Values", value_table(profile), screen);
  out += machine_text(profile, screen) + heading("Summary", screen) + profile_summary(profile, screen);
  out += warnings_text(profile.measured->on, screen) + tables_text(profile, screen);
  return plots == ShowPlots::Yes ? out + plots_text(fit_plots(profile), screen) : out;
}

std::string profiles_text(const ProfileList& list, const Screen& screen) {
  std::string out = paint("Measured, in " + list.folder.string(), Ink::Strong, screen) + "\n";
  if (list.measured.empty())
    out += wrap("none yet: 'gpuplan calibrate' measures this machine in some minutes and puts one there",
                prose_width(screen), "  ", "  ");
  else
    out += render(measured_table(list), screen) + problems_text(list, screen);
  out += heading("Shipped, for what was not measured", screen) + render(shipped_table(list), screen);
  return out + "\n" +
         paint(wrap("A plan takes the newest measured profile of its GPUs, else the shipped one; --profile PROFILE "
                    "names another.",
                    prose_width(screen), "", ""),
               Ink::Faint, screen);
}

std::string comparison_text(const Profile& first, const Profile& second, const ProfileComparison& comparison,
                            const Screen& screen) {
  Table table{.columns = {{"number"},
                          {first.id, Align::Right},
                          {second.id, Align::Right},
                          {"ratio", Align::Right},
                          {"agree", Align::Left}},
              .rows = {}};
  for (const ComparedNumber& row : comparison.both)
    table.add({{row.first.name},
               {number_text(row.first)},
               {number_text(row.second)},
               {row.ratio ? fmt::format("{:.3f}", *row.ratio) : "–"},
               {overlap_text(row), ink_of(row)}});
  std::string out = table.rows.empty() ? "" : render(table, screen);
  out += missing_text(comparison.only_in_first, first.id, screen) +
         missing_text(comparison.only_in_second, second.id, screen);
  if (!out.empty()) out += "\n";
  if (comparison.num_with_intervals == 0) return out + "no number has an interval in both\n";
  return out + fmt::format("agree within stated intervals: {:.0f} % of {} numbers\n", 100 * comparison.agreement(),
                           comparison.num_with_intervals);
}

}  // namespace gpuplan

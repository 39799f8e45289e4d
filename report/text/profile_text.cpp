#include "report/text/profile_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"
#include "base/unit_text.h"
#include "report/profile_numbers.h"
#include "report/text/fit_plot.h"
#include "report/text/profile_tables.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

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
  return heading(title, screen) + render(fit_to(std::move(table), screen.width), screen);
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
    out += "  none yet: 'gpuplan calibrate' measures this machine in some minutes and puts one there\n";
  else
    out += render(fit_to(measured_table(list), screen.width), screen) + problems_text(list, screen);
  out +=
      heading("Shipped, for what was not measured", screen) + render(fit_to(shipped_table(list), screen.width), screen);
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

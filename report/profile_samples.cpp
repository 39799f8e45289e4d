#include "report/profile_samples.h"

#include <fmt/format.h>

#include "base/names.h"

namespace gpuplan {
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
  std::string out =
      "probe,family,num_ranks,unit,median,low,high,num_runs,num_outliers,is_converged,flops,traffic_bytes,overlapped,"
      "failure\n";
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

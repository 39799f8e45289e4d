#include "cluster/profile/run_history.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/archive.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/statistics.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr IntRange kOutsideTensors{-kMostBytes, kMostBytes};  // sums of a few stay in 64 bits

template <class Archive, class Figures>
void list_run_figures(Archive& f, Figures& figures) {
  f("outside_tensors_bytes", figures.outside_tensors.count, kOutsideTensors);
  f("step_seconds", figures.step);
}

/// Times of runs and factors on them are above 0; a correction divides by them.
template <class Archive, class Record>
void list_run_record(Archive& f, Record& r) {
  f.object("applied", [&](auto& inner) {
    inner("outside_tensors_bytes", r.applied.outside_tensors.count, kOutsideTensors);
    inner("time", r.applied.time, NumberRange{1e-6, 1e6});
  });
  f("date", r.date);
  f.optional("framework", r.framework);
  f.object("measured", [&](auto& inner) { list_run_figures(inner, r.measured); });
  f("method", r.method);
  f("model", r.model);
  f.object("predicted", [&](auto& inner) { list_run_figures(inner, r.predicted); });
  f("profile", r.profile);
  f("ranks", r.num_ranks, IntRange{.least = 1});
  f("steps", r.num_steps);
  f("strategy", r.strategy);
}

/// Nothing for a line that is none of ours.
std::optional<RunRecord> record_from(const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  Fields fields(object, "a run");
  RunRecord record;
  list_run_record(fields, record);
  return fields.has_problems() ? std::nullopt : std::optional(std::move(record));
}

/// A machine that went down amid a write leaves half a line. Requires: `file` is open for reading.
bool ends_amid_line(int file) {
  char last = '\n';
  const off_t size = lseek(file, 0, SEEK_END);
  return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

/// Less, the fewer there are; 0 without any.
double drawn_to_zero(const std::vector<double>& values) {
  const auto n = double(values.size());
  return values.empty() ? 0 : n / (n + 1) * median(values);
}

double factor(const std::vector<double>& logarithms) {
  return std::exp(std::clamp(drawn_to_zero(logarithms), -std::log(2.0), std::log(2.0)));
}

}  // namespace

std::filesystem::path run_history_file(const std::filesystem::path& profile) {
  return profile.string() + ".runs.jsonl";
}

void add_run(const std::filesystem::path& profile, const RunRecord& run) {
  const std::filesystem::path file = run_history_file(profile);
  std::string line = json_line(written([&](FieldWriter& f) { list_run_record(f, run); })) + "\n";
  const int to = open_own(file, O_RDWR | O_CREAT | O_APPEND);
  if (to >= 0 && ends_amid_line(to)) line.insert(0, "\n");
  // One write to the end: runs that finish at the same time do not mix.
  const bool is_written = to >= 0 && write(to, line.data(), line.size()) == std::ssize(line);
  const int reason = errno;
  if (to >= 0) close(to);
  if (!is_written) throw EnvError(fmt::format("{}: cannot be written: {}", file.string(), std::strerror(reason)));
}

std::vector<RunRecord> read_runs(const std::filesystem::path& profile, const std::string& sha256) {
  std::vector<RunRecord> out;
  const std::filesystem::path file = run_history_file(profile);
  if (!is_file(file)) return out;
  const std::string text = read_file(file);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    if (auto record = record_from(text.substr(at, end - at)); record && record->profile == sha256)
      out.push_back(*std::move(record));
  return out;
}

RunCorrection correction_for(const std::vector<RunRecord>& runs, std::int64_t num_ranks, std::string_view framework) {
  constexpr std::int64_t kLatest = 25;  // machines change: drivers, other load, cooling
  std::vector<double> times, outside;
  std::int64_t used = 0;
  for (auto r = runs.rbegin(); r != runs.rend() && used < kLatest; ++r) {
    if (r->num_ranks != num_ranks || r->framework != framework) continue;
    ++used;
    const auto& [p, m] = std::pair(r->predicted, r->measured);
    if (p.step > 0 && m.step > 0) times.push_back(std::log(m.step / p.step * r->applied.time));
    outside.push_back(double((m.outside_tensors - p.outside_tensors + r->applied.outside_tensors).count));
  }
  return {.time = factor(times), .outside_tensors = Bytes{std::llround(drawn_to_zero(outside))}, .num_runs = used};
}

}  // namespace gpuplan

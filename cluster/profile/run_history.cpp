#include "cluster/profile/run_history.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"
#include "base/statistics.h"

namespace gpuplan {
namespace {

using nlohmann::json;

json to_json(const RunRecord::Figures& f) {
  return {{"step_seconds", f.step}, {"outside_tensors_bytes", f.outside_tensors.count}};
}

RunRecord::Figures figures_from(const json& object) {
  return {.step = object.at("step_seconds"),
          .outside_tensors = Bytes{object.at("outside_tensors_bytes").get<std::int64_t>()}};
}

json to_json(const RunRecord& r) {
  return {{"profile", r.profile},
          {"date", r.date},
          {"model", r.model},
          {"strategy", r.strategy},
          {"method", r.method},
          {"framework", r.framework},
          {"ranks", r.num_ranks},
          {"steps", r.num_steps},
          {"predicted", to_json(r.predicted)},
          {"measured", to_json(r.measured)},
          {"applied", {{"time", r.applied.time}, {"outside_tensors_bytes", r.applied.outside_tensors.count}}}};
}

/// Times of runs and factors on them are above 0; a correction divides by them. Sums of memory stay in 64 bits.
bool is_plausible(const RunRecord& r) {
  const auto is_factor = [](double v) { return v >= 1e-6 && v <= 1e6; };
  const auto is_time = [](double v) { return v >= 0 && v <= 1e15; };
  const auto is_memory = [](Bytes v) { return std::abs(double(v.count)) <= double(kMostBytes); };
  return is_factor(r.applied.time) && is_time(r.predicted.step) && is_time(r.measured.step) && r.num_ranks >= 1 &&
         is_memory(r.predicted.outside_tensors) && is_memory(r.measured.outside_tensors) &&
         is_memory(r.applied.outside_tensors);
}

/// Nothing for a line that is none of ours.
std::optional<RunRecord> record_from(const std::string& line) {
  try {
    const json object = json::parse(line);
    const json& applied = object.at("applied");
    RunRecord record{.profile = object.at("profile"),
                     .date = object.at("date"),
                     .model = object.at("model"),
                     .strategy = object.at("strategy"),
                     .method = object.at("method"),
                     .framework = object.value("framework", "native"),
                     .num_ranks = object.at("ranks"),
                     .num_steps = object.at("steps"),
                     .predicted = figures_from(object.at("predicted")),
                     .measured = figures_from(object.at("measured")),
                     .applied = {.time = applied.at("time"),
                                 .outside_tensors = Bytes{applied.at("outside_tensors_bytes").get<std::int64_t>()}}};
    return is_plausible(record) ? std::optional(std::move(record)) : std::nullopt;
  } catch (const json::exception&) { return std::nullopt; }
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
  std::string line = to_json(run).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
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

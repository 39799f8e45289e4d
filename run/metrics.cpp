#include "run/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "rows/file_access.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// The step that a line is of; nothing when it is no line of ours.
std::optional<std::int64_t> step_of(std::string_view line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return std::nullopt;
  return object["step"].get<std::int64_t>();
}

/// Recognises what a power loss leaves of lines that were not synced: zeros, and the rest of a line behind them.
bool is_lost(std::string_view line) {
  return line.starts_with('\0') && (line.ends_with('}') || line.find_first_not_of('\0') == std::string_view::npos);
}

/// The whole lines of steps before `first_step`. What stands behind the last line end was cut off by a crash.
std::string kept_lines(const std::string& text, const std::filesystem::path& file, std::int64_t first_step) {
  std::string kept;
  std::int64_t number = 1;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1, ++number) {
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (is_lost(line)) continue;
    const auto step = step_of(line);
    if (!step)
      throw InputError(fmt::format("{}:{}", file.string(), number), "is no line of metrics, so the file is left alone",
                       "name another file for --metrics");
    if (*step < first_step) kept.append(text, at, end + 1 - at);
  }
  if (kept.empty() && text.find('\n') == std::string::npos && !text.empty() && text.front() != '{' && !is_lost(text))
    throw InputError(file.string(), "holds something else than metrics, so it is left alone",
                     "name another file for --metrics");
  return kept;
}

/// Read as it is open: it may lose its name at any time. Errors speak of `name`.
std::string read_open(int file, const std::filesystem::path& name) {
  try {
    return read_file(fmt::format("/proc/self/fd/{}", file));
  } catch (const InputError& error) { throw InputError(name.string(), error.problem(), error.hint()); }
}

constexpr std::array<std::string_view, kLrSchedules.size()> kScheduleNames{"constant", "linear", "cosine"};

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t first_step) : file_(file) {
  if (is_written_in_place(file)) {
    out_ = open_in_place(file);
    if (out_ < 0 && errno == ENXIO) throw EnvError(file.string() + ": is a pipe from which nobody has read for 5 s");
    if (out_ < 0) fail("cannot be written", errno);
    fcntl(out_, F_SETFL, O_WRONLY | O_APPEND);  // a step waits for its reader
    return;
  }
  constexpr const char* kOther = "another run writes its metrics there; name another file for --metrics";
  const std::filesystem::path target = follow_links(file);
  lock_.emplace(target, kOther);
  const std::string text = read_open(lock_->file(), file);
  const std::string kept = kept_lines(text, file, first_step);
  if (kept != text) {  // a new file takes the name, and is locked in turn
    write_file_atomically(target, kept);
    lock_.emplace(target, kOther);
  }
  out_ = lock_->file();
  sync_path(target.has_parent_path() ? target.parent_path() : ".");
}

MetricsFile::~MetricsFile() {
  if (!lock_ && out_ >= 0) close(out_);
}

void MetricsFile::fail(const char* what, int reason) const {
  throw EnvError(fmt::format("{}: {}: {}", file_.string(), what, std::strerror(reason)));
}

void MetricsFile::sync() {
  if (lock_ && fsync(out_) != 0) fail("cannot be synced to the disk", errno);
}

void MetricsFile::add(const StepMetrics& metrics) {
  const nlohmann::ordered_json line{{"step", metrics.step},
                                    {"loss", metrics.loss},
                                    {"grad_norm", metrics.grad_norm},
                                    {"lr", metrics.lr},
                                    {"tokens_per_second", metrics.tokens_per_second},
                                    {"step_seconds", metrics.duration.value},
                                    {"memory_bytes", metrics.memory.count}};
  if (lock_ && !lock_->is_in_place())
    throw EnvError(fmt::format("{}: was renamed or removed while this run wrote its metrics there", file_.string()));
  if (const int reason = write_all(out_, line.dump() + "\n"); reason != 0) fail("writing failed", reason);
}

std::string_view to_string(LrSchedule schedule) { return kScheduleNames[std::size_t(schedule)]; }

LrSchedule parse_lr_schedule(std::string_view text, std::string_view where) {
  const auto at = std::find(kScheduleNames.begin(), kScheduleNames.end(), text);
  if (at != kScheduleNames.end()) return kLrSchedules[std::size_t(at - kScheduleNames.begin())];
  throw InputError(std::string(where), "unknown schedule '" + std::string(text) + "'", "constant, linear or cosine");
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup_steps) return peak * double(step) / double(std::max<std::int64_t>(1, warmup_steps));
  const double left = double(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = double(step - warmup_steps) / left;
  switch (schedule) {
    case LrSchedule::Constant: return peak;
    case LrSchedule::Linear: return peak * std::max(0.0, 1 - done);
    case LrSchedule::Cosine: return peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * done)));
  }
  return peak;
}

}  // namespace gpuplan

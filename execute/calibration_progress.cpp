#include "execute/calibration_progress.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kProgressWidth = 24;

std::string progress_bar(std::size_t done, std::size_t all, const Screen& screen) {
  const int filled = all > 0 ? narrow<int>(kProgressWidth * done / all) : kProgressWidth;
  std::string out;
  for (int i = 0; i < kProgressWidth; ++i) out += i < filled ? "█" : "░";
  return screen.has_unicode ? out : to_ascii(out);
}

std::string time_left(const Progress& p) { return p.left > Seconds{} ? format_duration(p.left) + " left" : ""; }

}  // namespace

std::string progress_line(const Progress& p, const Screen& screen) {
  const std::string head =
      fmt::format("{} {}/{}  {}", progress_bar(p.num_done, p.num_all, screen), p.num_done, p.num_all, time_left(p));
  const int room = screen.width - kProgressWidth - 40;
  std::string what = p.last ? p.last->probe.key() : "";
  if (narrow<int>(what.size()) > room) what.resize(std::size_t(std::max(0, room)));
  return fmt::format("{}  {}", head, paint(what, Ink::Faint, screen));
}

void CalibrationProgress::start(const WorkerFacts& facts, std::size_t num_probes, std::size_t num_kept) {
  is_terminal_ = is_terminal(StandardStream::Err);
  screen_ = screen_of(StandardStream::Err);
  console_.err << fmt::format("gpuplan: {} ({}), {} probes{}\n", facts.device.name, facts.device.architecture,
                              num_probes,
                              num_kept > 0 ? fmt::format(", {} samples kept of an interrupted run", num_kept) : "");
  if (!facts.has_collectives) console_.err << fmt::format("gpuplan: no collectives: {}\n", facts.collectives_problem);
  for (const std::string& warning : facts.device.warnings) console_.err << fmt::format("gpuplan: {}\n", warning);
}

void CalibrationProgress::show(const Progress& p) {
  if (is_terminal_) {
    console_.err << "\r\033[K" << progress_line(p, screen_) << std::flush;
    return;
  }
  const std::size_t tenths = p.num_all > 0 ? 10 * p.num_done / p.num_all : 10;
  if (tenths <= tenths_ || !p.last) return;
  tenths_ = tenths;
  const std::string left = time_left(p);
  console_.err << fmt::format("gpuplan: {} of {} measurements{}{}\n", p.num_done, p.num_all, left.empty() ? "" : ", ",
                              left);
}

void CalibrationProgress::finish() {
  if (is_terminal_) console_.err << "\r\033[K" << std::flush;
}

}  // namespace gpuplan

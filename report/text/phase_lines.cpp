#include "report/text/phase_lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/narrow.h"
#include "base/unit_text.h"
#include "report/text/amounts.h"

namespace gpuplan {
namespace {

/// Says how a kind of phase is drawn, in the order of a step.
struct PhaseLine {
  PhaseKind kind;
  char letter;
  bool trains, generates;  // the lines that it occupies
  const char* meaning;
};
constexpr std::array kPhaseLines{
    PhaseLine{PhaseKind::Generation, 'G', false, true, "generation"},
    PhaseLine{PhaseKind::Rewards, 'J', false, false, "rewards"},
    PhaseLine{PhaseKind::OldLogProbs, 'L', true, false, "log-probs and other passes without gradients"},
    PhaseLine{PhaseKind::OtherPass, 'L', true, false, "log-probs and other passes without gradients"},
    PhaseLine{PhaseKind::Training, 'T', true, false, "training"},
    PhaseLine{PhaseKind::WeightSync, 'S', true, true, "weight sync"},
    PhaseLine{PhaseKind::Switch, 'M', true, true, "moved to the host and back"},
    PhaseLine{PhaseKind::Rest, '.', false, false, "between phases"}};

const PhaseLine& line_of(PhaseKind kind) { return *std::ranges::find(kPhaseLines, kind, &PhaseLine::kind); }

/// A phase between two moments of the step, in seconds.
struct Stretch {
  const PhaseFigures* phase;
  double begin, end;
};

/// In the order of a step; what an engine does beside training begins with it.
std::vector<Stretch> spans_of(const StrategyEstimate& e) {
  std::vector<Stretch> spans;
  double now = 0;
  for (const PhaseLine& lane : kPhaseLines)
    for (const PhaseFigures& phase : e.phases) {
      if (phase.kind != lane.kind || phase.is_before_training || phase.time.step.value <= 0) continue;
      const double length = phase.time.step.value;
      spans.push_back({&phase, now, now + length});
      now += length - phase.beside.value;
    }
  return spans;
}

/// Finds the phase that takes most of the time between two moments.
const PhaseFigures* phase_at(const std::vector<Stretch>& spans, double begin, double end, bool of_engine) {
  const PhaseFigures* most = nullptr;
  double longest = 0;
  for (const Stretch& span : spans) {
    const PhaseLine& lane = line_of(span.phase->kind);
    if (of_engine ? !lane.generates : !lane.trains) continue;
    const double length = std::min(end, span.end) - std::max(begin, span.begin);
    if (length > longest) longest = length, most = span.phase;
  }
  return most;
}

/// Gives the bytes of the fullest GPU between two moments; those that rest in it where nothing runs.
Bytes bytes_at(const std::vector<Stretch>& spans, double begin, double end, Bytes resident) {
  Bytes most = resident;
  for (const Stretch& span : spans)
    if (std::min(end, span.end) > std::max(begin, span.begin)) most = std::max(most, span.phase->tensors);
  return most;
}

}  // namespace

std::string phase_lines_text(const StrategyEstimate& e, const Screen& screen) {
  const std::vector<Stretch> spans = spans_of(e);
  const bool has_engine =
      std::ranges::any_of(spans, [](const Stretch& s) { return s.phase->kind == PhaseKind::Generation; });
  if (!has_engine || screen.format != TableFormat{}) return "";
  double step = 0;
  for (const Stretch& span : spans) step = std::max(step, span.end);
  const int columns = std::clamp(screen.width - 24, 20, 72);
  constexpr std::array<const char*, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string trainer, engine, memory;
  for (int i = 0; i < columns; ++i) {
    const double begin = step * i / columns, end = step * (i + 1) / columns;
    for (const bool of_engine : {false, true}) {
      const PhaseFigures* const phase = phase_at(spans, begin, end, of_engine);
      (of_engine ? engine : trainer) += phase ? line_of(phase->kind).letter : '.';
    }
    const double share = double(bytes_at(spans, begin, end, e.peak.resident).count) / double(e.tiers.usable.count);
    const auto level = std::clamp(narrow<int>(std::lround(share * 8)), 1, 8);
    memory += screen.has_unicode ? std::string(kBars[std::size_t(level - 1)]) : std::to_string(level);
  }
  std::string legend;
  for (std::size_t i = 0; i < kPhaseLines.size(); ++i) {
    const PhaseLine& lane = kPhaseLines[i];
    const bool is_drawn = (trainer + engine).find(lane.letter) != std::string::npos && lane.letter != '.';
    if (is_drawn && legend.find(fmt::format("{} ", lane.letter)) == std::string::npos)
      legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", lane.letter, lane.meaning);
  }
  return fmt::format("\n  trainer  {}  {}\n  engine   {}\n  memory   {}  of {}\n  {}\n", trainer,
                     format_duration(Seconds{step}), engine, memory, format_bytes(e.tiers.usable), legend);
}

}  // namespace gpuplan

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

/// Gives the letter that a kind of phase is drawn with; '.' is not explained.
char letter_of(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::Generation: return 'G';
    case PhaseKind::Rewards: return 'J';
    case PhaseKind::OldLogProbs:
    case PhaseKind::OtherPass: return 'L';
    case PhaseKind::Training: return 'T';
    case PhaseKind::WeightSync: return 'S';
    case PhaseKind::Switch: return 'M';
    case PhaseKind::Rest: break;
  }
  return '.';
}

using Phases = std::vector<const PhaseFigures*>;

Seconds end_of(const PhaseFigures& phase) { return phase.begin + phase.time.step; }

/// Gives what two stretches of time share; 0 where they are apart.
double overlap(const PhaseFigures& phase, double begin, double end) {
  return std::max(0.0, std::min(end, end_of(phase).value) - std::max(begin, phase.begin.value));
}

/// Finds the phase that takes most of the time between two moments, of those that train or of those that generate.
const PhaseFigures* phase_at(const Phases& phases, double begin, double end, bool PhaseKindRow::*runs) {
  const PhaseFigures* most = nullptr;
  double longest = 0;
  for (const PhaseFigures* const phase : phases)
    if (const double length = overlap(*phase, begin, end); row_of(phase->kind).*runs && length > longest)
      longest = length, most = phase;
  return most;
}

/// Gives the bytes of the fullest GPU between two moments.
Bytes bytes_at(const Phases& phases, double begin, double end) {
  Bytes most;
  for (const PhaseFigures* const phase : phases)
    if (overlap(*phase, begin, end) > 0) most = std::max(most, phase->tensors);
  return most;
}

/// Draws the phases of one lane, a letter a column.
std::string lane_text(const Phases& phases, double step, int columns, bool PhaseKindRow::*runs) {
  std::string out;
  for (int i = 0; i < columns; ++i) {
    const PhaseFigures* const phase = phase_at(phases, step * i / columns, step * (i + 1) / columns, runs);
    out += phase ? letter_of(phase->kind) : '.';
  }
  return out;
}

/// Draws the bytes of the fullest GPU, an eighth of what can be used a level.
std::string memory_text(const Phases& phases, Bytes usable, double step, int columns, bool has_unicode) {
  constexpr std::array<const char*, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (int i = 0; i < columns; ++i) {
    const Bytes bytes = bytes_at(phases, step * i / columns, step * (i + 1) / columns);
    const auto level = std::clamp(narrow<int>(std::lround(8 * double(bytes.count) / double(usable.count))), 1, 8);
    out += has_unicode ? std::string(kBars[std::size_t(level - 1)]) : std::to_string(level);
  }
  return out;
}

}  // namespace

std::string phase_lines_text(const StrategyEstimate& e, const Screen& screen) {
  Phases phases;
  double step = 0;
  for (const PhaseFigures& phase : e.phases) {
    if (phase.is_before_training || phase.time.step.value <= 0) continue;
    phases.push_back(&phase);
    step = std::max(step, end_of(phase).value);
  }
  std::ranges::stable_sort(phases, {}, &PhaseFigures::begin);
  if (phases.size() < 2 || screen.format != TableFormat{}) return "";
  const int columns = std::clamp(screen.width - 24, 20, 72);
  const std::string trainer = lane_text(phases, step, columns, &PhaseKindRow::trains);
  const bool has_engine =
      std::ranges::any_of(phases, [](const PhaseFigures* p) { return p->kind == PhaseKind::Generation; });
  const std::string engine = has_engine ? lane_text(phases, step, columns, &PhaseKindRow::generates) : "";
  std::string legend;
  for (const PhaseFigures* const phase : phases) {
    const char letter = letter_of(phase->kind);
    const std::string entry = fmt::format("{} {}", letter, row_of(phase->kind).meaning);
    if (letter != '.' && (trainer + engine).find(letter) != std::string::npos &&
        legend.find(entry) == std::string::npos)
      legend += (legend.empty() ? "" : ", ") + entry;
  }
  return fmt::format("  trainer  {}  {}\n", trainer, format_duration(Seconds{step})) +
         (has_engine ? fmt::format("  engine   {}\n", engine) : "") +
         fmt::format("  memory   {}  of {}\n  {}\n",
                     memory_text(phases, e.tiers.usable, step, columns, screen.has_unicode),
                     format_bytes(e.tiers.usable), legend);
}

}  // namespace gpuplan

#include "planner/turn_notes.h"

#include <algorithm>
#include <cstddef>

namespace gpuplan {
namespace {

/// Says whether the last two turns moved each of these alike.
bool move_alike(const NoteList<double>& before, const NoteList<double>& last, const NoteList<double>& now,
                double rounding) {
  if (before.size() != now.size() || last.size() != now.size()) return false;
  const double *a = before.data(), *b = last.data(), *c = now.data();
  for (std::size_t k = 0; k < now.size(); ++k) {
    const double step = c[k] - b[k], step_before = b[k] - a[k];
    if (!(std::abs(step - step_before) <= 1e-10 * std::abs(step) + rounding)) return false;
  }
  return true;
}

}  // namespace

std::uint32_t TurnNotes::num_alike(std::uint32_t left, double scale) const {
  if (num_turns_ < 2) return 0;
  const Turn &now = turn(0), &last = turn(1), &before = turn(2);
  const double rounding = 1e-14 * scale;
  if (now.slacks.size() != last.slacks.size() || now.waits.size() != last.waits.size() ||
      !move_alike(before.clocks, last.clocks, now.clocks, rounding) ||
      !move_alike(before.finishes, last.finishes, now.finishes, rounding))
    return 0;
  double turns = double(left);
  for (std::size_t k = 0; k < now.slacks.size(); ++k) {
    const double is = now.slacks.data()[k], was = last.slacks.data()[k];
    const double slack = std::abs(is), shrinks = std::abs(was) - slack;
    if (is * was < 0 && slack > rounding) return 0;
    if (shrinks > rounding) turns = std::min(turns, std::floor(slack / shrinks) - 1);
  }
  return turns > 0 ? std::uint32_t(turns) : 0;  // checked
}

}  // namespace gpuplan

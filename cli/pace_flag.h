// --pace: how the machine works now beside its calibration.
#pragma once

#include "cli/plan_flags.h"

namespace gpuplan {

/// What holds without the flag. Now: it is measured where that can be done, and otherwise counts as calibrated.
enum class DefaultPace : std::uint8_t { Calibrated, Now };

/// Reads "calibrated", "now" (which is measured, in about half a second) or "products=1.1,memory=0.9" into the request, and notes what was
/// measured. Throws InputError; EnvError when --pace now cannot start its workers.
void take_pace(const CLI::App& app, DefaultPace otherwise, PlanQuestion& question);

/// Factors were given: what is predicted with them is a question, not this machine.
bool is_pace_by_hand(const CLI::App& app);

/// How a note begins that says why nothing was measured.
inline constexpr const char* kNoPace = "predicted as calibrated";

/// Takes what a parent process measured, with the same note.
void take_measured_pace(const MachinePace& pace, PlanQuestion& question);

}  // namespace gpuplan

// --pace: how the machine works now beside its calibration.
#pragma once

#include <cstdint>
#include <optional>

#include "calibrate/pace_probes.h"
#include "cli/plan_flags.h"
#include "cluster/profile/machine_pace.h"

namespace gpuplan {

/// What holds without the flag. Now: it is measured where that can be done, and otherwise counts as calibrated.
enum class DefaultPace : std::uint8_t { Calibrated, Now };

/// Reads "calibrated", "now" (which is measured, in about half a second) or "products=1.1,memory=0.9" into the request,
/// and notes what was measured. Throws InputError; EnvError when --pace now cannot start its workers.
void take_pace(const CLI::App& app, DefaultPace otherwise, PlanQuestion& question);

/// Factors were given: what is predicted with them is a question, not this machine.
bool is_pace_by_hand(const CLI::App& app);

/// What the `num_ranks` ranks of a run ask right after it (read_pace_here), when its pace was measured before it too;
/// nullopt: it was not, or calibrated ranks have another number of cores each. To be called before a rank is bound to
/// its share of them.
std::optional<PaceQuestion> pace_after_run(const CLI::App& app, const EstimateRequest& request, std::int64_t num_ranks);

/// How a note begins that says why nothing was measured.
inline constexpr const char* kNoPace = "predicted as calibrated";

/// Takes what a parent process measured, with the same note.
void take_measured_pace(const MachinePace& pace, PlanQuestion& question);

}  // namespace gpuplan

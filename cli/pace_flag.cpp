#include "cli/pace_flag.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "calibrate/pace_probes.h"
#include "calibrate/worker_command.h"
#include "cli/arguments.h"
#include "cluster/profile_store.h"

namespace gpuplan {
namespace {

/// Why the pace of the request's machine cannot be measured here; empty: it can.
std::string why_not(const EstimateRequest& r) {
  if (!r.cluster.gpus.front().is_cpu) return "measures CPU ranks only";
  if (!r.profile || !is_for(*r.profile, r.cluster)) return "compares with a calibration of this machine, and there is none";
  return {};
}

MachinePace measure_pace(const EstimateRequest& r) {
  const std::int64_t num_ranks = std::clamp<std::int64_t>(r.cluster.num_gpus(), 1, std::max<std::int64_t>(1, r.cluster.host_cores));
  const std::vector<PaceProbe> probes = pace_probes(DeviceKind::Cpu, num_ranks);
  const auto then = samples_of(probes, *r.profile);
  if (!then) throw InputError("--pace", fmt::format("profile {} was calibrated without the probes that tell it with {} rank{}", r.profile->id, num_ranks, num_ranks == 1 ? "" : "s"), "gpuplan calibrate");
  return pace_between(probes, *then, read_pace(probes, worker_command(own_program(), DeviceKind::Cpu, num_ranks, true)));
}

}  // namespace

void take_measured_pace(const MachinePace& pace, PlanQuestion& question) {
  question.request.pace = pace;
  const std::string words = describe(pace);
  question.notes.push_back(fmt::format("this machine now, beside its calibration: {} (--pace)", words.empty() ? "alike within 2 %" : words));
}

void take_pace(const CLI::App& app, DefaultPace otherwise, PlanQuestion& question) {
  EstimateRequest& r = question.request;
  const std::string text = given(app, "--pace").value_or("");
  if (text == "calibrated" || (text.empty() && otherwise == DefaultPace::Calibrated)) return;
  if (!text.empty() && text != "now") {
    r.pace = parse_pace(text, "--pace");
    question.notes.push_back(fmt::format("pace beside the calibration: {}", describe(r.pace)));
    return;
  }
  if (const std::string reason = why_not(r); !reason.empty()) {
    if (text == "now") throw InputError("--pace now", reason, "give factors, as in --pace products=1.1, or gpuplan calibrate");
    return;
  }
  if (text == "now") return take_measured_pace(measure_pace(r), question);
  try {
    take_measured_pace(measure_pace(r), question);
  } catch (const InputError& error) {  // a run is no worse without it
    question.notes.push_back(fmt::format("predicted as calibrated: {}", error.problem()));
  } catch (const EnvError& error) {
    question.notes.push_back(fmt::format("predicted as calibrated: {}", error.what()));
  }
}

}  // namespace gpuplan

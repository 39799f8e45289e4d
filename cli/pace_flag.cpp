#include "cli/pace_flag.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/processor.h"
#include "calibrate/pace_probes.h"
#include "calibrate/worker_command.h"
#include "cli/arguments.h"
#include "cluster/profile/profile_store.h"
#include "planner/comm_model.h"

namespace gpuplan {
namespace {

/// Why the pace of the request's machine cannot be measured here; empty: it can.
std::string why_not(const EstimateRequest& r) {
  if (!r.cluster.gpus.front().is_cpu) return "measures CPU ranks only";
  if (!r.profile || !is_for(*r.profile, r.cluster))
    return "compares with a calibration of this machine, and there is none";
  return {};
}

/// Of the ranks at once that predictions rest on.
std::int64_t calibrated_ranks(const EstimateRequest& r) {
  const MeasurementsAtRanks* const load = r.profile->measured->load_of(r.cluster.num_gpus());
  return load ? load->num_ranks : 1;
}

/// nullopt: the profile has no figures for `num_ranks`.
std::optional<PaceQuestion> pace_question(const EstimateRequest& r, std::int64_t num_ranks) {
  PaceQuestion question{.probes = pace_probes(DeviceKind::Cpu, num_ranks), .then = {}};
  auto then = samples_of(question.probes, *r.profile);
  if (!then) return std::nullopt;
  question.then = std::move(*then);
  return question;
}

MachinePace measure_pace(const EstimateRequest& r) {
  const std::int64_t num_ranks = calibrated_ranks(r);
  const auto question = pace_question(r, num_ranks);
  if (!question)
    throw InputError("--pace",
                     fmt::format("profile {} was calibrated without the probes that tell it with {} rank{}",
                                 r.profile->id, num_ranks, num_ranks == 1 ? "" : "s"),
                     "gpuplan calibrate");
  return read_pace(*question, worker_command(own_program(), DeviceKind::Cpu, num_ranks, true));
}

void take_factors(const std::string& text, PlanQuestion& question) {
  EstimateRequest& r = question.request;
  r.pace = parse_pace(text, "--pace");
  const bool has_links = r.profile && has_measured_links(*r.profile, r.cluster);
  if ((r.pace.messages != 1 || r.pace.transfers != 1) && !has_links)
    throw InputError(
        "--pace", "messages and transfers are factors on measured collectives, and the profile has none of such links",
        "gpuplan simulate --what-if busbw=VALUE changes links");
  question.notes.push_back(fmt::format("pace beside the profile: {}", to_string(r.pace)));
}

}  // namespace

bool is_pace_by_hand(const CLI::App& app) {
  const auto text = given(app, "--pace");
  return text && *text != "now" && *text != "calibrated";
}

std::optional<PaceQuestion> pace_after_run(const CLI::App& app, const EstimateRequest& r, std::int64_t num_ranks) {
  if (is_pace_by_hand(app) || r.pace.is_as_calibrated() || !why_not(r).empty()) return std::nullopt;
  const auto cores_each = [&](std::int64_t n) { return std::max<std::int64_t>(1, num_usable_cores() / n); };
  const std::int64_t num_asking = calibrated_ranks(r);
  if (num_asking > num_ranks || cores_each(num_asking) != cores_each(num_ranks)) return std::nullopt;
  auto question = pace_question(r, num_asking);
  if (question && num_asking < num_ranks) return on_fewer_ranks(std::move(*question), r.pace);
  return question;
}

void take_measured_pace(const MachinePace& pace, PlanQuestion& question) {
  question.request.pace = pace;
  const std::string words = describe(pace);
  question.notes.push_back(
      fmt::format("this machine now, beside its calibration: {} (--pace)", words.empty() ? "alike within 2 %" : words));
}

void take_pace(const CLI::App& app, DefaultPace otherwise, PlanQuestion& question) {
  EstimateRequest& r = question.request;
  const std::string text = given(app, "--pace").value_or(otherwise == DefaultPace::Calibrated ? "calibrated" : "");
  if (text == "calibrated") return;
  if (is_pace_by_hand(app)) return take_factors(text, question);
  if (const std::string reason = why_not(r); !reason.empty()) {
    if (text == "now")
      throw InputError("--pace now", reason, "give factors, as in --pace products=1.1, or gpuplan calibrate");
    return;
  }
  if (text == "now") return take_measured_pace(measure_pace(r), question);
  try {
    take_measured_pace(measure_pace(r), question);
  } catch (const InputError& error) {  // a run is no worse without it
    question.notes.push_back(fmt::format("{}: {}", kNoPace, error.problem()));
  } catch (const EnvError& error) { question.notes.push_back(fmt::format("{}: {}", kNoPace, error.what())); }
}

}  // namespace gpuplan

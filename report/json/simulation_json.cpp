#include "report/json/simulation_json.h"

#include "report/json/json_values.h"
#include "report/json/profile_used.h"
#include "report/text/activity_look.h"
#include "report/text/simulation_facts.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

/// Epochs are known only where the data set is.
Json epoch_json(const SimulatedPlan& plan, Seconds time) {
  return plan.steps_per_epoch > 0 ? Json(time.value) : Json();
}

Json figures_json(const SimulatedPlan& plan) {
  const Simulation& s = plan.simulation;
  return {{"strategy", plan.estimate.strategy.name},
          {"num_gpus", plan.estimate.num_gpus_used},
          {"fits", plan.estimate.fits},
          {"does_not_fit_because", or_null(plan.estimate.does_not_fit_because)},
          {"step_seconds", s.step_time().value},
          {"tokens_per_second", plan.tokens_per_second},
          {"tokens_per_second_per_gpu", plan.tokens_per_second_per_gpu},
          {"mfu", plan.mfu},
          {"hfu", plan.hfu},
          {"gpu_utilization", {{"resident", s.resident}, {"compute", s.compute}}},
          {"exposed_communication_seconds", s.exposed_communication.value},
          {"bubble_seconds", s.bubble.value},
          {"host_bound_seconds", s.host_bound.value},
          {"idle_seconds", s.idle.value},
          {"flops_per_gpu", s.executed_flops},
          {"peak_bytes", plan.estimate.tiers.process.count},
          {"usable_bytes", plan.estimate.tiers.usable.count},
          {"steps_per_epoch", plan.steps_per_epoch},
          {"epoch_seconds", epoch_json(plan, plan.epoch)},
          {"total_seconds", epoch_json(plan, plan.total)},
          {"cost_usd", or_null(plan.cost_usd)}};
}

Json critical_json(const Simulation& simulation) {
  Json out = Json::array();
  for (const CriticalItem& item : simulation.critical)
    out.push_back({{"what", item.what},
                   {"activity", item.is_host ? "host" : to_string(item.activity)},
                   {"seconds", item.time.value},
                   {"share", item.share},
                   {"remedy", or_null(item.remedy)}});
  return out;
}

Json busy_json(const SimulatedRank& rank) {
  Json out = Json::object();
  for (int s = 0; s < kNumStreams; ++s)
    if (const SimTime busy = rank.busy[std::size_t(s)]; busy.ps > 0)
      out[std::string(name_of(StreamId(s)))] = busy.seconds().value;
  return out;
}

Json ranks_json(const Simulation& simulation) {
  Json out = Json::array();
  for (const SimulatedRank& rank : simulation.ranks)
    out.push_back({{"name", rank.name},
                   {"rank", rank.rank},
                   {"stands_for", rank.stands_for},
                   {"busy_seconds", busy_json(rank)},
                   {"resident_seconds", rank.resident.seconds().value},
                   {"compute_seconds", rank.compute.seconds().value},
                   {"exposed_communication_seconds", rank.exposed_communication.seconds().value},
                   {"bubble_seconds", rank.bubble.seconds().value},
                   {"host_bound_seconds", rank.host_bound.seconds().value},
                   {"idle_seconds", rank.idle.seconds().value},
                   {"flops", rank.flops},
                   {"sent_bytes", rank.sent.count},
                   {"tensors_bytes", rank.peak.count}});
  return out;
}

Json links_json(const Simulation& simulation) {
  Json out = Json::array();
  for (const LinkUseSummary& link : simulation.links)
    out.push_back({{"link", link_name(simulation, link.link)}, {"busy", link.busy}, {"utilization", link.utilisation}});
  return out;
}

Json stragglers_json(const SimOptions& options) {
  Json out = Json::array();
  for (const auto& [rank, factor] : options.stragglers) out.push_back({{"rank", rank}, {"factor", factor}});
  return out;
}

/// The figures of each plan, those of a scaling curve with their efficiency against the first.
Json plans_json(const std::vector<SimulatedPlan>& plans, bool is_scaling) {
  Json out = Json::array();
  for (const SimulatedPlan& plan : plans) {
    Json row =
        plan.estimate.not_applicable.empty() ? figures_json(plan) : Json{{"strategy", plan.estimate.strategy.name}};
    if (!plan.label.empty()) row["label"] = plan.label;
    row["not_applicable"] = or_null(plan.estimate.not_applicable);
    if (is_scaling) row["efficiency"] = scaling_efficiency(plan, plans.front());
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

Json simulation_json(const SimulationAnswer& answer) {
  const Simulation& s = answer.plan.simulation;
  Json out{{"gpuplan_version", GPUPLAN_VERSION},
           {"model", {{"name", answer.request.model.name}, {"id", answer.request.model.id}}}};
  out.update(figures_json(answer.plan));
  out["critical_path"] = critical_json(s);
  out["streams"] = ranks_json(s);
  out["links"] = links_json(s);
  out["network"] = s.network == NetworkFidelity::Flow ? "flow" : "analytic";
  out["folded"] = s.is_folded;
  out["seed"] = answer.options.seed;
  out["jitter"] = answer.options.jitter;
  out["stragglers"] = stragglers_json(answer.options);
  out["num_events"] = s.num_events;
  out["comparison"] = plans_json(answer.comparison, false);
  out["scaling"] = plans_json(answer.scaling, true);
  out["assumptions"] = answer.assumptions;
  out["profile"] = profile_used_json(answer.result.profile);
  return out;
}

}  // namespace gpuplan

#include "report/json/answers_json.h"

#include <algorithm>

#include "models/recipe_names.h"
#include "planner/plan/plan_file.h"
#include "report/json/json_values.h"
#include "report/text/activity_look.h"
#include "report/text/simulation_facts.h"
#include "report/text/topology_text.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json memory_json(const StrategyEstimate& e) {
  Json out = Json::object();
  for (int c = 0; c < kNumCategories; ++c) out[std::string(to_string(Category(c)))] = e.memory[std::size_t(c)].count;
  return out;
}

Json host_json(const HostBytes& host) {
  return {{"load_bytes", host.load.count},
          {"load_efficient_bytes", host.load_efficient.count},
          {"step_bytes", host.step.count},
          {"nvme_bytes", host.nvme.count},
          {"save_bytes", host.save.count},
          {"capacity_bytes", host.capacity.count > 0 ? Json(host.capacity.count) : Json()},
          {"fits", host.fits}};
}

Json time_json(const StepTime& time) {
  return {{"compute_seconds", time.compute.value},
          {"communication_seconds", time.communication.value},
          {"exposed_seconds", time.exposed.value},
          {"host_seconds", time.host.value},
          {"flops_per_gpu", time.flops}};
}

Json items_json(const StrategyEstimate& e) {
  Json out = Json::array();
  for (const DetailedPeak::Item& item : e.items)
    out.push_back({{"name", item.name},
                   {"category", to_string(item.category)},
                   {"count", item.count},
                   {"bytes", item.bytes.count}});
  return out;
}

Json mesh_json(const Mesh& mesh) {
  nlohmann::json by_name;  // in the order of names
  for (const AxisRow& row : kAxes) by_name[std::string(row.name)] = mesh.ways(row.axis);
  return by_name;
}

Json times(const std::optional<AccuracyRange>& range, double AccuracyRange::*end, double value) {
  return range ? Json(value * (*range).*end) : Json();
}
Json times(const std::optional<AccuracyRange>& range, double AccuracyRange::*end, Bytes value) {
  return range ? Json(std::int64_t(double(value.count) * (*range).*end)) : Json();
}

/// Bytes per GPU (of the process) and per host at each moment.
Json peaks_json(const StrategyEstimate& e) {
  const auto at = [&](Bytes tensors, Bytes host) {
    return Json{{"gpu_bytes", e.process_with(tensors).count}, {"host_bytes", host.count}};
  };
  return {{"step", {{"gpu_bytes", e.training_process().count}, {"host_bytes", e.host.step.count}}},
          {"load", at(e.other_peaks.load, e.host.load)},
          {"eval", at(e.other_peaks.eval, {})},
          {"save", at(e.other_peaks.save, e.host.save)}};
}

Json strategy_json(const StrategyEstimate& e) {
  Json out{{"name", e.strategy.name}, {"fits", to_string(e.fit)}, {"not_applicable", or_null(e.not_applicable)}};
  const Json figures{{"does_not_fit_because", or_null(e.why_not_yes)},
                     {"mesh", mesh_json(e.strategy.mesh)},
                     {"num_gpus", e.num_gpus_used},
                     {"peak_bytes", e.tiers.process.count},
                     {"peak_bytes_low", times(e.memory_range, &AccuracyRange::low, e.tiers.process)},
                     {"peak_bytes_high", times(e.memory_range, &AccuracyRange::high, e.tiers.process)},
                     {"peak_instant", e.peak_instant},
                     {"peaks", peaks_json(e)},
                     {"memory_bytes", memory_json(e)},
                     {"tensors_bytes", e.tiers.tensors.count},
                     {"reserved_bytes", e.tiers.reserved.count},
                     {"process_bytes", e.tiers.process.count},
                     {"needed_bytes", e.tiers.needed.count},
                     {"usable_bytes", e.tiers.usable.count},
                     {"capacity_bytes", e.tiers.capacity.count},
                     {"host_bytes", e.host.needed().count},
                     {"host", host_json(e.host)},
                     {"communication_bytes", e.communication.count},
                     {"communication", to_string(e.communication_level)},
                     {"step_seconds", e.time.step.value},
                     {"step_seconds_low", times(e.time_range, &AccuracyRange::low, e.time.step.value)},
                     {"step_seconds_high", times(e.time_range, &AccuracyRange::high, e.time.step.value)},
                     {"time", time_json(e.time)},
                     {"tokens_per_second", e.tokens_per_second},
                     {"mfu", e.mfu},
                     {"num_gemm_shapes", e.coverage.num_shapes},
                     {"num_gemm_shapes_extrapolated", e.coverage.num_extrapolated},
                     {"global_batch", e.global_batch},
                     {"steps_per_epoch", e.steps_per_epoch},
                     {"epoch_seconds", or_null(e.epoch)},
                     {"total_seconds", or_null(e.total)},
                     {"cost_usd", or_null(e.cost_usd)},
                     {"max_micro_batch", or_null(e.max_micro_batch)},
                     {"max_seq_len", or_null(e.max_seq_len)},
                     {"save",
                      {{"disk_bytes", e.save.disk.count},
                       {"disk_with_optimizer_bytes", e.save.disk_with_optimizer.count},
                       {"device_peak_bytes", e.save.device_peak.count}}},
                     {"largest_tensors", items_json(e)}};
  for (const auto& [name, value] : figures.items()) out[name] = e.not_applicable.empty() ? value : Json();
  return out;
}

Json explanation_json(const std::vector<ExplainSection>& sections) {
  Json out = Json::array();
  for (const ExplainSection& section : sections) {
    Json lines = Json::array();
    for (const ExplainLine& line : section.lines)
      lines.push_back({{"term", line.term}, {"value", line.value}, {"source", or_null(line.source)}});
    out.push_back({{"title", section.title}, {"lines", lines}});
  }
  return out;
}

Json filled_json(const FilledRows& way) {
  return {{"packing", to_string(way.packing)},          {"padding_share", way.padding},
          {"tokens_per_second", way.tokens_per_second}, {"epoch_seconds", way.epoch.value},
          {"process_bytes", way.process.count},         {"fits", to_string(way.fit)}};
}

Json rows_json(const RowFit& rows) {
  Json histogram = Json::array(), ways = Json::array();
  for (const LengthBin& bin : rows.histogram)
    histogram.push_back({{"from", bin.from}, {"to", bin.to}, {"rows", bin.num_rows}});
  for (const FilledRows& way : rows.ways) ways.push_back(filled_json(way));
  return {{"source", rows.source},
          {"rows", rows.lengths.num_rows},
          {"mean_tokens", rows.lengths.mean},
          {"median_tokens", rows.lengths.quantile(0.5)},
          {"longest_tokens", rows.lengths.longest},
          {"histogram", histogram},
          {"rows_cut", rows.num_cut},
          {"share_of_tokens_cut", rows.share_lost},
          {"ways", ways},
          {"uncut", rows.uncut ? filled_json(*rows.uncut) : Json()}};
}

Json better_json(const BetterWay& way) {
  return {{"flags", fmt::format("{}", fmt::join(way.flags, " "))},
          {"strategy", way.plan.strategy.name},
          {"fits", to_string(way.plan.fit)},
          {"step_seconds", way.plan.time.step.value},
          {"tokens_per_second", way.plan.tokens_per_second},
          {"cost_usd", or_null(way.plan.cost_usd)},
          {"process_bytes", way.plan.tiers.process.count}};
}

Json recommendation_json(const EstimateResult& result) {
  if (!result.recommended) return {};
  return {{"strategy", or_null(result.recommended->strategy)},
          {"reason", result.recommended->reason},
          {"advice", result.recommended->advice}};
}

}  // namespace

Json estimate_json(const EstimateAnswer& answer) {
  const EstimateResult& result = answer.result;
  const nlohmann::json plan =
      make_plan(answer.request, result, {});  // recipe, data and cluster as the plan file has them
  Json out{{"gpuplan_version", GPUPLAN_VERSION},
           {"model",
            {{"name", answer.request.model.name},
             {"id", answer.request.model.id},
             {"parameters", result.model.parameters},
             {"trainable_parameters", result.model.trainable}}}};
  for (const char* section : {"recipe", "dataset", "cluster"}) out[section] = plan.at(section);
  out["strategies"] = Json::array();
  for (const StrategyEstimate& e : result.strategies) out["strategies"].push_back(strategy_json(e));
  out["recommended"] = recommendation_json(result);
  out["better"] = Json::array();
  if (result.recommended)
    for (const BetterWay& way : result.recommended->better) out["better"].push_back(better_json(way));
  out["assumptions"] = result.assumptions;
  out["profile"] = profile_used_json(result.profile);
  if (answer.rows) out["rows"] = rows_json(*answer.rows);
  if (!answer.explanation.empty()) out["explain"] = explanation_json(answer.explanation);
  return out;
}

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
          {"fits", plan.estimate.fits()},
          {"does_not_fit_because", or_null(plan.estimate.why_not_yes)},
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

namespace {

using Json = nlohmann::ordered_json;

Json route_json(const Topology& topology, const Route& route) {
  Json links = Json::array();
  for (const LinkUse& use : route) links.push_back({{"link", use.link}, {"bytes_per_byte", use.weight}});
  const RouteRate rate = rate_of(topology, route);
  return {{"links", links}, {"bandwidth_bytes_per_second", rate.rate.value}, {"bottleneck", rate.bottleneck}};
}

}  // namespace

nlohmann::ordered_json topology_json(const TopologyAnswer& answer) {
  const Topology& topology = answer.topology;
  Json vertices = Json::array(), links = Json::array();
  for (std::uint32_t v = 0; v < topology.num_vertices(); ++v) {
    const TopologyVertex& vertex = topology.vertex(v);
    vertices.push_back(
        {{"kind", to_string(vertex.kind)}, {"node", vertex.node}, {"index", vertex.index}, {"name", vertex.name}});
  }
  for (std::uint32_t l = 0; l < topology.num_links(); ++l) {
    const TopologyLink& link = topology.link(l);
    links.push_back({{"from", topology.source(l)},
                     {"to", topology.target(l)},
                     {"kind", to_string(link.kind)},
                     {"bandwidth_bytes_per_second", link.capacity.value},
                     {"latency_seconds", link.latency.value},
                     {"source", link.source}});
  }
  Json out{{"cluster", answer.cluster.name},
           {"num_gpus", answer.cluster.num_gpus()},
           {"num_nodes", answer.cluster.num_nodes()},
           {"fabric", answer.cluster.fabric_text},
           {"has_peer_to_peer", topology.has_peer_to_peer},
           {"is_rank_symmetric", topology.is_rank_symmetric},
           {"vertices", std::move(vertices)},
           {"links", std::move(links)}};
  if (answer.pair) out["route"] = route_json(topology, topology.route(answer.pair->first, answer.pair->second));
  out["assumptions"] = answer.cluster.assumptions;
  for (const std::string& text : topology.assumptions) out["assumptions"].push_back(text);
  return out;
}

}  // namespace gpuplan

#include "report/json/estimate_json.h"

#include <algorithm>

#include "planner/plan/plan_file.h"
#include "report/json/json_values.h"
#include "report/json/profile_used.h"

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
  return {{"dp_replicate", mesh.dp_replicate}, {"dp_shard", mesh.dp_shard}, {"pp", mesh.pp}};
}

Json times(const std::optional<AccuracyRange>& range, double AccuracyRange::*end, double value) {
  return range ? Json(value * (*range).*end) : Json();
}
Json times(const std::optional<AccuracyRange>& range, double AccuracyRange::*end, Bytes value) {
  return range ? Json(std::int64_t(double(value.count) * (*range).*end)) : Json();
}

Json strategy_json(const StrategyEstimate& e, const EstimateResult& result) {
  Json out{{"name", e.strategy.name}, {"fits", e.fits}, {"not_applicable", or_null(e.not_applicable)}};
  const Json figures{{"does_not_fit_because", or_null(e.does_not_fit_because)},
                     {"mesh", mesh_json(e.strategy.mesh)},
                     {"num_gpus", e.num_gpus_used},
                     {"peak_bytes", e.tiers.process.count},
                     {"peak_bytes_low", times(result.memory_range, &AccuracyRange::low, e.tiers.process)},
                     {"peak_bytes_high", times(result.memory_range, &AccuracyRange::high, e.tiers.process)},
                     {"peak_instant", e.peak_instant},
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
                     {"step_seconds_low", times(result.time_range, &AccuracyRange::low, e.time.step.value)},
                     {"step_seconds_high", times(result.time_range, &AccuracyRange::high, e.time.step.value)},
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
  for (const StrategyEstimate& e : result.strategies) out["strategies"].push_back(strategy_json(e, result));
  out["recommended"] = recommendation_json(result);
  out["assumptions"] = result.assumptions;
  out["profile"] = profile_used_json(result.profile);
  if (!answer.explanation.empty()) out["explain"] = explanation_json(answer.explanation);
  return out;
}

}  // namespace gpuplan

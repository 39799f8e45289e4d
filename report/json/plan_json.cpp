#include "report/json/answers_json.h"

#include "models/recipe_names.h"
#include "report/json/json_values.h"
#include "report/text/answers_text.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json plan_settings_json(const Recipe& r) {
  return {{"micro_batch", r.micro_batch},
          {"grad_accum", r.grad_accum},
          {"seq_len", r.seq_len},
          {"packing", to_string(r.packing)},
          {"checkpointing", to_string(r.checkpointing)},
          {"attention", to_string(r.attention)},
          {"loss", to_string(r.loss)},
          {"precision", to_string(r.precision)},
          {"optimizer", r.optimizer},
          {"compile", r.torch_compile},
          {"offload",
           {{"optimizer", to_string(r.offload.optimizer)},
            {"params", to_string(r.offload.params)},
            {"activations", r.offload.activations}}}};
}

Json plan_row_json(const PlanRow& row) {
  const StrategyEstimate& e = row.estimate();
  return {{"strategy", row.request.strategy},
          {"method", to_string(row.request.recipe.method)},
          {"quality", to_string(row.quality())},
          {"gpus", row.gpus},
          {"num_gpus", row.request.cluster.num_gpus()},
          {"vendor", or_null(row.offer.vendor)},
          {"offer", or_null(row.offer.name)},
          {"spot", row.offer.is_spot},
          {"usd_per_gpu_hour", or_null(row.offer.usd_per_gpu_hour)},
          {"settings", plan_settings_json(row.request.recipe)},
          {"step_seconds", row.step.value},
          {"forward_pass_step_seconds", e.time.step.value},
          {"epoch_seconds", row.epoch.value},
          {"training_seconds", row.total.value},
          {"cost_usd", or_null(row.cost_usd)},
          {"process_bytes", e.tiers.process.count},
          {"usable_bytes", e.tiers.usable.count},
          {"fits", to_string(e.fit)},
          {"reason", row.reason},
          {"command", row.command}};
}

Json knob_json(const Knob& knob) {
  return {{"change", knob.change},
          {"fits", to_string(knob.fit)},
          {"time_ratio", knob.time_ratio},
          {"memory_bytes", knob.memory.count},
          {"cost_usd", or_null(knob.cost_usd)}};
}

}  // namespace

Json plan_json(const PlanAnswer& answer) {
  const SearchAnswer& found = answer.found;
  Json frontier = Json::array(), knobs = Json::array(), would_do = Json::array(), rejected = Json::object();
  for (const PlanRow& row : found.rows) frontier.push_back(plan_row_json(row));
  for (const Knob& knob : found.knobs) knobs.push_back(knob_json(knob));
  for (const WouldDo& one : found.would_do) would_do.push_back({{"change", one.change}, {"plan", one.plan}});
  for (const auto& [why, count] : found.rejected) rejected[why] = count;
  return {{"gpuplan_version", GPUPLAN_VERSION},
          {"model", {{"name", answer.question.base.model.name}, {"id", answer.question.base.model.id}}},
          {"answer", plan_sentence(answer)},
          {"recommended", found.has_plan() ? plan_row_json(found.rows.front()) : Json()},
          {"frontier", frontier},
          {"knobs", knobs},
          {"would_do", would_do},
          {"rejected", rejected},
          {"searched", {{"plans", found.num_plans}, {"seconds", found.seconds}, {"is_complete", found.is_complete}}},
          {"error", found.error},
          {"assumptions", answer.notes}};
}

Json largest_json(const LargestTable& table, const SearchQuestion& question) {
  Json models = Json::array();
  for (const LargestRow& row : table.rows) {
    Json contexts = Json::array();
    for (std::size_t i = 0; i < table.contexts.size(); ++i) {
      Json one{{"seq_len", table.contexts[i]}};
      const std::optional<Carried>& carried = row.by_context[i];
      one["method"] = carried ? Json(to_string(carried->method)) : Json();
      one["strategy"] = carried ? Json(carried->strategy) : Json();
      one["fits"] = carried ? to_string(carried->fit) : to_string(Fit::No);
      one["offload"] = carried && carried->offloads;
      contexts.push_back(std::move(one));
    }
    models.push_back({{"model", row.model}, {"parameters", row.parameters}, {"contexts", std::move(contexts)}});
  }
  return {{"gpuplan_version", GPUPLAN_VERSION},
          {"gpus", machine_name(question.machines.front().cluster)},
          {"num_models", table.num_models},
          {"models", std::move(models)}};
}

}  // namespace gpuplan

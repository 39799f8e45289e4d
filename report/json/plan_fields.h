// The fields of the answers of `gpuplan plan`, listed once: report/json/estimate_fields.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/archive.h"
#include "cluster/gpu_file.h"
#include "models/recipe_names.h"
#include "planner/engine_gpus.h"
#include "report/answers.h"
#include "report/json/common_fields.h"
#include "report/text/answers_text.h"
#include "report/text/plan_tables.h"
#include "search/largest.h"
#include "search/row_text.h"

namespace gpuplan {

template <class Archive>
void list_plan_settings(Archive& f, const Recipe& r) {
  f("micro_batch", r.micro_batch);
  f("grad_accum", r.grad_accum);
  f("seq_len", r.seq_len);
  f("packing", r.packing);
  f("checkpointing", r.checkpointing);
  f("attention", r.attention);
  f("loss", r.loss);
  f("precision", r.precision);
  f("optimizer", r.optimizer->name);
  f("compile", r.torch_compile);
  f.object("offload", [&](auto& inner) {
    inner("optimizer", r.offload.optimizer);
    inner("params", r.offload.params);
    inner("activations", r.offload.activations);
  });
}

template <class Archive>
void list_fields(Archive& f, const PlanRow& row) {
  const StrategyEstimate& e = row.estimate();
  f("strategy", row.request.strategy);
  f("method", row.request.recipe.method);
  f("quality", row.quality());
  f("gpus", row.gpus);
  f("num_gpus", num_gpus_in_all(row.request), "with those of an engine that has its own");
  f("vendor", text_or_null(row.offer.vendor));
  f("offer", text_or_null(row.offer.name));
  f("spot", row.offer.is_spot);
  f("usd_per_gpu_hour", row.offer.usd_per_gpu_hour);
  f.object("settings", [&](auto& inner) { list_plan_settings(inner, row.request.recipe); });
  f("step_seconds", row.step, "simulated");
  f("forward_pass_step_seconds", e.time.step, "as `estimate` says it");
  f("epoch_seconds", finite_or_null(row.epoch.value));
  f("training_seconds", row.total, "with the restarts of a spot machine");
  f("cost_usd", row.cost_usd);
  f("overhead_seconds", row.overhead, "set-up, download and failed starts, part of training_seconds and of the cost");
  f("total_tokens", total_tokens(row.request));
  f("price_date", row.offer.is_dated() ? std::optional(row.offer.date) : std::nullopt);
  f("price_source", text_or_null(row.offer.source));
  f("price_page", text_or_null(row.is_rented ? price_page(row.offer.vendor) : ""), "what the vendor asks today");
  const AccuracyRange range = e.time_range.value_or(AccuracyRange{});
  f("time_range", std::vector<double>{range.low, range.high},
    "8 of 10 measurements lie between these times the figures");
  f("process_bytes", e.tiers.process);
  f("usable_bytes", e.tiers.usable);
  f("fits", e.fit);
  f("probability", e.chance, "that its memory is found");
  f("reason", row.reason);
  f("command", row.command);
}

template <class Archive>
void list_plan(Archive& f, const PlanAnswer& answer) {
  const SearchAnswer& found = answer.found;
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f.object("model", [&](auto& inner) { list_model_name(inner, answer.question.base.model); });
  f("question", question_words(answer), "what is trained, on how much");
  f("answer", plan_sentence(answer));
  f("recommended", found.has_plan() ? std::optional(found.rows.front()) : std::nullopt);
  f("frontier", found.rows);
  f("by_gpu", found.by_gpu);
  f("undated", found.undated);
  f.objects("knobs", found.knobs, [](auto& inner, const Knob& knob) {
    inner("change", knob.change);
    inner("fits", knob.fit);
    inner("time_ratio", knob.time_ratio, "of training, after over before");
    inner("memory_bytes", knob.memory, kAnyNumber, "of the process, after less before");
    inner("cost_usd", knob.cost_usd);
  });
  f.objects("would_do", found.would_do, [](auto& inner, const WouldDo& one) {
    inner("change", one.change);
    inner("plan", one.plan);
  });
  f("why_none", text_or_null(found.why_none),
    "where no plan is possible whatever the limits: what the nearest one lacks");
  f.named("rejected", found.rejected, "plans by the reason");
  f.object("searched", [&](auto& inner) {
    inner("plans", found.num_plans);
    inner("possible", num_possible(found), "of them; the others are combinations that nobody can run");
    inner("seconds", found.seconds);
    inner("is_complete", found.is_complete);
  });
  f("error", found.error, "relative difference that counts as none");
  f("assumptions", answer.notes);
}

/// The largest model of a context, or none.
template <class Archive>
void list_carried(Archive& f, std::int64_t seq_len, const std::optional<Carried>& carried) {
  f("seq_len", seq_len);
  f("method", carried ? std::optional(carried->method) : std::nullopt);
  f("strategy", carried ? std::optional(carried->strategy) : std::nullopt);
  f("fits", carried ? carried->fit : Fit::No);
  f("offload", carried && carried->offloads);
  f("million_tokens_seconds", carried ? std::optional(carried->per_million_tokens) : std::nullopt);
}

template <class Archive>
void list_largest(Archive& f, const LargestTable& table, const std::string& gpus) {
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f("gpus", gpus);
  f("num_models", table.num_models, "looked at");
  f.objects("models", table.rows, [&](auto& inner, const LargestRow& row) {
    inner("model", row.model);
    inner("parameters", row.parameters);
    std::vector<std::pair<std::int64_t, std::optional<Carried>>> contexts;
    for (std::size_t i = 0; i < row.by_context.size(); ++i) contexts.emplace_back(table.contexts[i], row.by_context[i]);
    inner.objects("contexts", contexts,
                  [](auto& one, const auto& context) { list_carried(one, context.first, context.second); });
  });
}

}  // namespace gpuplan

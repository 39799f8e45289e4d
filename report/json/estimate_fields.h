// The fields of the answer of `gpuplan estimate`, listed once: its JSON (FieldWriter) and docs/schemas (SchemaWriter of
// the tests) are made of these lists. What the key does not say stands beside the field, for the schema.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/archive.h"
#include "models/recipe_names.h"
#include "report/answers.h"
#include "report/json/common_fields.h"
#include "report/json/phase_fields.h"

namespace gpuplan {

inline std::optional<double> end_of(const std::optional<AccuracyRange>& range, double AccuracyRange::*end,
                                    double value) {
  return range ? std::optional(value * (*range).*end) : std::nullopt;
}
inline std::optional<Bytes> end_of(const std::optional<AccuracyRange>& range, double AccuracyRange::*end, Bytes value) {
  return range ? std::optional(Bytes{std::int64_t(double(value.count) * (*range).*end)}) : std::nullopt;
}

template <class Archive>
void list_fields(Archive& f, const Mesh& mesh) {
  auto rows = kAxes;
  std::ranges::sort(rows, {}, &AxisRow::name);
  for (const AxisRow& row : rows) {
    const bool have_all = row.axis == Axis::ExpertData && !mesh.shares_experts();
    f(row.name, have_all ? mesh.world() / mesh.ways(Axis::Pp) : mesh.ways(row.axis), row.ranks);
  }
}

/// Bytes per GPU (of the process) and per host at one moment.
template <class Archive>
void list_moment(Archive& f, Bytes gpu, Bytes host) {
  f("gpu_bytes", gpu);
  f("host_bytes", host);
}

template <class Archive>
void list_peaks(Archive& f, const StrategyEstimate& e) {
  f.object("step", [&](auto& inner) { list_moment(inner, e.training_process(), e.host.step); });
  const auto list = [&](const char* name, PeakInstant phase, Bytes host) {
    const PhasePeak* const peak = e.phase(phase);
    f.object(name, [&](auto& inner) { list_moment(inner, e.process_with(peak ? peak->tensors : Bytes{}), host); });
  };
  list("load", PeakInstant::Loading, e.host.load);
  list("eval", PeakInstant::Evaluation, Bytes{});
  list("save", PeakInstant::Saving, e.host.save);
}

template <class Archive>
void list_fields(Archive& f, const HostBytes& host) {
  f("load_bytes", host.load, "every rank reads a whole copy");
  f("load_efficient_bytes", host.load_efficient, "one rank does (cpu_ram_efficient_loading)");
  f("step_bytes", host.step);
  f("nvme_bytes", host.nvme);
  f("save_bytes", host.save);
  f("capacity_bytes", host.capacity.count > 0 ? std::optional(host.capacity) : std::nullopt);
  f("fits", host.fits);
}

template <class Archive>
void list_fields(Archive& f, const DetailedPeak::Item& item) {
  f("name", item.name);
  f("category", std::string(to_string(item.category)), "a key of memory_bytes");
  f("count", item.count);
  f("bytes", item.bytes);
}

/// Holds what is known of a strategy that can be used.
template <class Archive>
void list_figures(Archive& f, const StrategyEstimate& e) {
  f("does_not_fit_because", text_or_null(e.why_not_yes), "also what a tight fit depends on");
  f("mesh", e.strategy.mesh);
  f("num_gpus", e.num_gpus_used);
  f("peak_bytes", e.tiers.process, "of the process on the fullest GPU");
  f("peak_bytes_low", end_of(e.memory_range, &AccuracyRange::low, e.tiers.process), "end of the range of measurements");
  f("peak_bytes_high", end_of(e.memory_range, &AccuracyRange::high, e.tiers.process));
  f("peak_instant", e.peak_instant);
  f.object("peaks", [&](auto& inner) { list_peaks(inner, e); });
  f.object("memory_bytes", [&](auto& inner) {
    for (int c = 0; c < kNumCategories; ++c) inner(to_string(Category(c)), e.memory[std::size_t(c)]);
  });
  f("tensors_bytes", e.tiers.tensors);
  f("reserved_bytes", e.tiers.reserved, "tensors and what the allocator caches");
  f("process_bytes", e.tiers.process, "reserved_bytes, context and communication buffers");
  f("needed_bytes", e.tiers.needed, "process_bytes when the allocator gives back its cache");
  f("usable_bytes", e.tiers.usable, "capacity_bytes less what is in use and the margin");
  f("capacity_bytes", e.tiers.capacity);
  f("host_bytes", e.host.needed());
  f("host", e.host);
  f("communication_bytes", e.communication, "sent per rank and step");
  f("communication", std::string(to_string(e.communication_level)));
  f("step_seconds", e.time.step);
  f("step_seconds_low", end_of(e.time_range, &AccuracyRange::low, e.time.step.value));
  f("step_seconds_high", end_of(e.time_range, &AccuracyRange::high, e.time.step.value));
  f("time", e.time);
  f("phases", e.phases, "of a method that compares answers or has another head; else empty");
  f("tokens_per_second", e.tokens_per_second, "of the whole job, without padding");
  f("mfu", e.mfu, "a share");
  f("num_gemm_shapes", e.coverage.num_shapes);
  f("num_gemm_shapes_extrapolated", e.coverage.num_extrapolated, "beyond what the profile measured");
  f("global_batch", e.global_batch, "sequences per optimizer step");
  f("steps_per_epoch", e.steps_per_epoch);
  f("epoch_seconds", e.epoch);
  f("total_seconds", e.total);
  f("cost_usd", e.cost_usd);
  f("max_micro_batch", e.max_micro_batch);
  f("max_seq_len", e.max_seq_len);
  f.object("save", [&](auto& inner) {
    inner("disk_bytes", e.save.disk);
    inner("disk_with_optimizer_bytes", e.save.disk_with_optimizer);
    inner("device_peak_bytes", e.save.device_peak);
  });
  f("largest_tensors", e.items);
}

template <class Archive>
void list_fields(Archive& f, const StrategyEstimate& e) {
  f("name", e.strategy.name);
  f("fits", e.fit);
  f("probability", e.chance, "that its memory is found");
  f("not_applicable", text_or_null(e.not_applicable), "a reason; then there are no figures");
  f.all_or_null(e.not_applicable.empty(), [&](auto& inner) { list_figures(inner, e); });
}

template <class Archive>
void list_fields(Archive& f, const BetterWay& way) {
  f("flags", fmt::format("{}", fmt::join(way.flags, " ")), "to add");
  f("strategy", way.plan.strategy.name);
  f("fits", way.plan.fit);
  f("probability", way.plan.chance, "that its memory is found");
  f("step_seconds", way.plan.time.step);
  f("tokens_per_second", way.plan.tokens_per_second);
  f("cost_usd", way.plan.cost_usd);
  f("process_bytes", way.plan.tiers.process);
}

template <class Archive>
void list_fields(Archive& f, const FilledRows& way) {
  f("packing", way.packing);
  f("padding_share", way.padding, "of the computed tokens");
  f("tokens_per_second", way.tokens_per_second, "of the data, without padding");
  f("epoch_seconds", finite_or_null(way.epoch.value));
  f("process_bytes", way.process);
  f("fits", way.fit);
}

template <class Archive>
void list_fields(Archive& f, const RowFit& rows) {
  f("source", rows.source);
  f("rows", rows.lengths.num_rows);
  f("mean_tokens", rows.lengths.mean);
  f("median_tokens", rows.lengths.quantile(0.5));
  f("longest_tokens", rows.lengths.longest);
  f.objects("histogram", rows.histogram, [](auto& inner, const LengthBin& bin) {
    inner("from", bin.from, "tokens");
    inner("to", bin.to, "tokens");
    inner("rows", bin.num_rows);
  });
  f("rows_cut", rows.num_cut);
  f("share_of_tokens_cut", rows.share_lost);
  f("ways", rows.ways);
  f("uncut", rows.uncut);
}

template <class Archive>
void list_fields(Archive& f, const ExplainSection& section) {
  f("title", section.title);
  f.objects("lines", section.lines, [](auto& inner, const ExplainLine& line) {
    inner("term", line.term);
    inner("value", line.value);
    inner("source", text_or_null(line.source));
  });
}

/// `plan`: the plan file of the question, of which recipe, data set and cluster are repeated.
template <class Archive>
void list_estimate(Archive& f, const EstimateAnswer& answer, const nlohmann::ordered_json& plan) {
  const EstimateResult& result = answer.result;
  const Recommendation recommended = result.recommended.value_or(Recommendation{});
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f.object("model", [&](auto& inner) {
    list_model_name(inner, answer.request.model);
    inner("parameters", result.model.parameters);
    inner("trainable_parameters", result.model.trainable);
  });
  for (const char* section : {"recipe", "dataset", "cluster"})
    f.raw(section, plan.value(section, nlohmann::ordered_json::object()), "as in ../plan.schema.json");
  f("strategies", result.strategies);
  f.nullable_object("recommended", result.recommended.has_value(), [&](auto& inner) {
    inner("strategy", text_or_null(recommended.strategy), "null: nothing fits, advice says what to change");
    inner("reason", recommended.reason);
    inner("advice", recommended.advice);
  });
  f.object("chosen", [&](auto& inner) {
    inner("flags", result.chosen.flags, "settings that nobody gave and that are no defaults");
    inner("default_strategy", result.chosen.usual ? std::optional(result.chosen.usual->strategy.name) : std::nullopt,
          "recommended with defaults; null: nothing fits with them, or nothing was chosen");
    inner("default_tokens_per_second",
          result.chosen.usual ? std::optional(result.chosen.usual->tokens_per_second) : std::nullopt);
  });
  f("better", recommended.better);
  f("assumptions", result.assumptions);
  f.object("profile", [&](auto& inner) { list_profile_used(inner, result.profile); });
  f.optional_object("rows", answer.rows.has_value(),
                    [&](auto& inner) { list_fields(inner, answer.rows.value_or(RowFit{})); });
  f.optional("explain", answer.explanation);
}

}  // namespace gpuplan

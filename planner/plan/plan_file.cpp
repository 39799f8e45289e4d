#include "planner/plan/plan_file.h"

#include <array>
#include <memory>

#include <fmt/format.h>

#include "models/hf_config.h"
#include "planner/pipeline_schedule.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kSchemaVersion = 1;
constexpr const char* kSetUp = "set_up_seconds";

/// Holds what `estimate` found, as the file keeps it.
struct Predicted {
  Bytes peak, tensors, reserved, process, host;
  std::string peak_instant;
  std::array<Bytes, std::size_t(kNumCategories)> memory{};
  Seconds step;
  double tokens_per_second{};
  Bytes communication;
  std::optional<std::int64_t> max_micro_batch, max_seq_len;
  std::optional<Seconds> epoch;
  std::optional<double> cost_usd;
};

template <class Archive, class P>
void list_predicted(Archive& f, P& p) {
  f("peak_bytes", p.peak);
  f("tensors_bytes", p.tensors);
  f("reserved_bytes", p.reserved);
  f("process_bytes", p.process);
  f("host_bytes", p.host);
  f("peak_instant", p.peak_instant);
  f.object("memory_bytes", [&](auto& inner) {
    for (int c = 0; c < kNumCategories; ++c) inner(to_string(Category(c)).data(), p.memory[std::size_t(c)]);
  });
  f("step_seconds", p.step, kAnyAmount);
  f("tokens_per_second", p.tokens_per_second, kAnyAmount);
  f("communication_bytes", p.communication);
  f("max_micro_batch", p.max_micro_batch, IntRange{1, kMostCount});
  f("max_seq_len", p.max_seq_len, IntRange{1, kMostCount});
  f("epoch_seconds", p.epoch, kAnyAmount);
  f("cost_usd", p.cost_usd, kAnyAmount);
}

Predicted predicted_by(const StrategyEstimate& e) {
  return {.peak = e.tiers.process,
          .tensors = e.tiers.tensors,
          .reserved = e.tiers.reserved,
          .process = e.tiers.process,
          .host = e.host.needed(),
          .peak_instant = e.peak_instant,
          .memory = e.memory,
          .step = e.time.step,
          .tokens_per_second = e.tokens_per_second,
          .communication = e.communication,
          .max_micro_batch = e.max_micro_batch,
          .max_seq_len = e.max_seq_len,
          .epoch = e.epoch,
          .cost_usd = e.cost_usd};
}

/// Says how the model is divided, beside the degrees; left out where it is not.
template <class Archive, class Options>
void list_division(Archive& f, Options& options) {
  const PipelineRow* const row = options.schedule ? pipeline_row(*options.schedule) : nullptr;
  std::optional<bool> splits = options.splits_sequence ? std::optional(true) : std::nullopt;
  std::optional<std::int64_t> chunks =
      options.virtual_stages > 1 ? std::optional(options.virtual_stages) : std::nullopt;
  std::optional<std::string> schedule = row ? std::optional(std::string(row->name)) : std::nullopt;
  f.optional("sequence_parallel", splits);
  f.optional("tensor_parallel_overlap", options.overlaps_tensor_parallel);
  f.optional("context_exchange", options.context_exchange);
  f.optional("virtual_stages", chunks, IntRange{1, 1024});
  std::optional<std::string> layers =
      options.stage_layers.empty() ? std::nullopt : std::optional(to_string(options.stage_layers));
  f.optional("stage_layers", layers);
  f.optional("schedule", schedule);
  if constexpr (Archive::kReads) {
    options.splits_sequence = splits.value_or(false);
    options.virtual_stages = chunks.value_or(1);
    options.stage_layers = layers ? parse_stage_layers(*layers, "stage_layers") : StageLayers();
    if (schedule) options.schedule = parse_schedule(*schedule, "schedule");
  }
}

/// Models beside the one that is trained, by their keys; left out where a method has none, or none of its own.
struct OtherModel {
  const char* key;
  std::shared_ptr<const ModelSpec> EstimateRequest::*member;
};
constexpr std::array kOtherModels{OtherModel{"teacher", &EstimateRequest::teacher},
                                  OtherModel{"critic", &EstimateRequest::critic},
                                  OtherModel{"reward_model", &EstimateRequest::reward_model}};

/// Lists what a method that generates is asked to generate; left out of others.
template <class Archive, class R>
void list_rollout(Archive& f, R& rollout) {
  const auto stated = [](std::int64_t number, std::int64_t usual) {
    return number == usual ? std::nullopt : std::optional(number);
  };
  const std::string text = to_text(rollout.engine);
  std::optional<std::string> engine = text.empty() ? std::nullopt : std::optional(text);
  std::optional<std::int64_t> generations = stated(rollout.generations, 0), prompt = stated(rollout.prompt_len, 0),
                              mean_prompt = stated(rollout.mean_prompt, 0), mean = stated(rollout.mean_completion, 0),
                              most = stated(rollout.max_completion, 0), updates = stated(rollout.updates, 1),
                              iterations = stated(rollout.iterations, 1);
  std::optional<std::int64_t> old_batch = stated(rollout.old_batch, 0),
                              reference_batch = stated(rollout.reference_batch, 0),
                              step_tokens = stated(rollout.step_tokens, 0);
  std::optional<double> reward = rollout.reward.value > 0 ? std::optional(rollout.reward.value) : std::nullopt;
  constexpr IntRange kCounted{1, kMostGradAccum};
  f.optional("engine", engine);
  f.optional("generations", generations, kCounted);
  f.optional("prompt_len", prompt, IntRange{1, kMostSeqLen});
  f.optional("mean_prompt", mean_prompt, IntRange{1, kMostSeqLen});
  f.optional("mean_completion", mean, IntRange{1, kMostSeqLen});
  f.optional("max_completion", most, IntRange{1, kMostSeqLen});
  f.optional("updates", updates, kCounted);
  f.optional("iterations", iterations, kCounted);
  f.optional("old_batch", old_batch, IntRange{1, kMostMicroBatch});
  f.optional("reference_batch", reference_batch, IntRange{1, kMostMicroBatch});
  f.optional("step_tokens", step_tokens, IntRange{1, kMostSeqLen});
  f.optional("reward_seconds", reward, NumberRange{0, 1e9});
  std::optional<double> share = rollout.share < 1 ? std::optional(rollout.share) : std::nullopt;
  f.optional("share", share, NumberRange{1e-6, 1});
  std::optional<bool> by_function = rollout.judged_by_function ? std::optional(true) : std::nullopt;
  f.optional("judged_by_function", by_function);
  if constexpr (Archive::kReads) {
    if (engine) rollout.engine = parse_engine(*engine);
    rollout.generations = generations.value_or(0), rollout.prompt_len = prompt.value_or(0);
    rollout.mean_prompt = mean_prompt.value_or(0);
    rollout.mean_completion = mean.value_or(0), rollout.max_completion = most.value_or(0);
    rollout.updates = updates.value_or(1), rollout.iterations = iterations.value_or(1);
    rollout.old_batch = old_batch.value_or(0), rollout.reference_batch = reference_batch.value_or(0);
    rollout.step_tokens = step_tokens.value_or(0);
    rollout.reward = Seconds{reward.value_or(0)};
    rollout.share = share.value_or(1);
    rollout.judged_by_function = by_function.value_or(false);
  }
}

template <class Archive, class Request>
void list_options(Archive& f, Request& request) {
  f("preference", request.preference);
  f("price_per_gpu_hour", request.price_per_gpu_hour, NumberRange{0, 1e9});
  f("shard_size", request.options.shard_size, IntRange{1, kMostCount});
  list_division(f, request.options);
  list_rollout(f, request.rollout);
  f.optional("reduce_bucket_size", request.options.reduce_bucket_size, IntRange{-1, 1'000'000'000'000});
  f.optional("overlap_comm", request.options.overlap_comm);
  f.optional("zero_quantized_weights", request.options.zero_quantized_weights);
  f.optional("eval_batch", request.eval_batch);
  f.optional("eval_logits", request.eval_logits);
  f("eval_generate", request.eval_generate);
}

template <class Archive, class P>
void list_profile(Archive& f, P& profile) {
  f("id", profile.id);
  f("sha256", profile.sha256);
}

void write_model(FieldWriter& out, const ModelSpec& model) {
  out("name", model.name);
  out("id", model.id);
  out("config", to_hf_config(model));
}

void read_model(Fields& in, ModelSpec& model) {
  std::string name, id;
  in("name", name);
  in("id", id);
  if (!in.require("config")) return;
  if (auto config = in.optional_fields("config")) model = read_hf_config(*config);
  model.name = name;
  model.id = id;
}

void write_carried(FieldWriter& out, const CarriedSettings& carried) {
  out("trainer", carried.trainer);
  out("file", carried.file);
  out.raw("settings", carried.settings);
}

CarriedSettings read_carried(Fields& in) {
  CarriedSettings carried;
  in("trainer", carried.trainer);
  in("file", carried.file);
  if (const json* const settings = in.require("settings"); settings && settings->is_object())
    carried.settings = *settings;
  else if (settings)
    in.report_type("settings", "an object", *settings);
  return carried;
}

/// Other versions are refused before their fields are called unknown.
void check_version(const json& plan, const std::string& where) {
  Fields top(plan, where);
  const std::int64_t version = top.integer("schema_version", {.least = 1});
  if (version > kSchemaVersion)
    top.report("schema_version", fmt::format("{} was made by a newer gpuplan; this one ({}) reads version {}", version,
                                             GPUPLAN_VERSION, kSchemaVersion));
  top.finish("a plan made by `gpuplan estimate --save` is expected");
}

}  // namespace

json make_plan(const EstimateRequest& request, const EstimateResult& result, const StrategyEstimate& chosen,
               const CarriedSettings* carried, Seconds set_up) {
  GPUPLAN_CHECK(chosen.not_applicable.empty(), "a plan needs a strategy that was evaluated");
  FieldWriter out;
  out("schema_version", kSchemaVersion);
  out("gpuplan_version", std::string(GPUPLAN_VERSION));
  out.object("model", [&](FieldWriter& f) { write_model(f, request.model); });
  for (const OtherModel& other : kOtherModels)
    if (const auto& model = request.*other.member)
      out.object(other.key, [&](FieldWriter& f) { write_model(f, *model); });
  out.object("recipe", [&](FieldWriter& f) { write_recipe(f, request.recipe); });
  out.object("dataset", [&](FieldWriter& f) { write_dataset(f, request.dataset); });
  out.object("cluster", [&](FieldWriter& f) { write_cluster(f, request.cluster); });
  out.object("strategy", [&](FieldWriter& f) { write_strategy(f, chosen.strategy); });
  out.object("options", [&](FieldWriter& f) { list_options(f, request); });
  if (set_up.value > 0) out(kSetUp, set_up.value, kAnyAmount);
  if (carried) out.object("carried", [&](FieldWriter& f) { write_carried(f, *carried); });
  out.object("profile", [&](FieldWriter& f) { list_profile(f, result.profile); });
  const Predicted predicted = predicted_by(chosen);
  out.object("predicted", [&](FieldWriter& f) { list_predicted(f, predicted); });
  return out.take();
}

EstimateRequest parse_plan(const json& plan, const std::string& where) {
  check_version(plan, where);
  Fields in(plan, where);
  EstimateRequest request;
  PlanStrategy strategy;
  Profile profile;  // checked here, compared by whoever plans again
  Predicted predicted;
  std::int64_t version{};
  std::string made_by;
  in("schema_version", version);
  in("gpuplan_version", made_by);
  in.object("model", [&](Fields& f) { read_model(f, request.model); });
  for (const OtherModel& other : kOtherModels)
    in.optional_object(other.key, [&](Fields& f) {
      ModelSpec model;
      read_model(f, model);
      request.*other.member = std::make_shared<const ModelSpec>(std::move(model));
    });
  in.object("recipe", [&](Fields& f) { read_recipe(f, request.recipe); });
  in.object("dataset", [&](Fields& f) { read_dataset(f, request.dataset); });
  in.object("cluster", [&](Fields& f) { read_cluster(f, request.cluster); });
  in.object("strategy", [&](Fields& f) { read_strategy(f, strategy); });
  in.object("options", [&](Fields& f) { list_options(f, request); });
  std::optional<double> set_up;
  in.optional(kSetUp, set_up, NumberRange{0, 1e9});
  in.optional_object("carried", [](Fields& f) { read_carried(f); });
  in.object("profile", [&](Fields& f) { list_profile(f, profile); });
  in.object("predicted", [&](Fields& f) { list_predicted(f, predicted); });
  in.refuse_unknown();
  if (!in.has_problems()) pin_strategy(strategy, request, in);
  in.finish(made_by == GPUPLAN_VERSION || made_by.empty()
                ? "docs/plan.schema.json describes the file"
                : fmt::format("gpuplan {} made it, and this is {}: save the plan again", made_by, GPUPLAN_VERSION));
  return request;
}

std::shared_ptr<const CarriedSettings> carried_by(const json& plan) {
  if (!plan.contains("carried")) return nullptr;
  Fields in(plan["carried"], "the plan");
  return std::make_shared<const CarriedSettings>(read_carried(in));
}

Seconds set_up_of(const json& plan) {
  const auto found = plan.find(kSetUp);
  return found != plan.end() && found->is_number() ? Seconds{found->get<double>()} : Seconds{};
}

}  // namespace gpuplan

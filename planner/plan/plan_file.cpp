#include "planner/plan/plan_file.h"

#include <fmt/format.h>

#include "models/catalogue.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kSchemaVersion = 1;

/// What `estimate` found, as the file keeps it.
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

template <class Fields, class P>
void list_predicted(Fields& f, P& p) {
  f("peak_bytes", p.peak);
  f("tensors_bytes", p.tensors);
  f("reserved_bytes", p.reserved);
  f("process_bytes", p.process);
  f("host_bytes", p.host);
  f("peak_instant", p.peak_instant);
  f.object("memory_bytes", [&](auto& inner) {
    for (int c = 0; c < kNumCategories; ++c) inner(to_string(Category(c)).data(), p.memory[std::size_t(c)]);
  });
  f("step_seconds", p.step, kAnyReal);
  f("tokens_per_second", p.tokens_per_second, kAnyReal);
  f("communication_bytes", p.communication);
  f("max_micro_batch", p.max_micro_batch, IntRange{1, kMostCount});
  f("max_seq_len", p.max_seq_len, IntRange{1, kMostCount});
  f("epoch_seconds", p.epoch, kAnyReal);
  f("cost_usd", p.cost_usd, kAnyReal);
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

template <class Fields, class Request>
void list_options(Fields& f, Request& request) {
  f("preference", request.preference);
  f("price_per_gpu_hour", request.price_per_gpu_hour, RealRange{0, 1e9});
  f("shard_size", request.options.shard_size, IntRange{1, kMostCount});
  f("eval_generate", request.eval_generate);
}

template <class Fields, class P>
void list_profile(Fields& f, P& profile) {
  f("id", profile.id);
  f("sha256", profile.sha256);
}

void read_model(PlanReader& in, ModelSpec& model, PlanProblems& problems) {
  std::string name, id;
  in("name", name);
  in("id", id);
  const json* config = in.any("config");
  if (!config) return;
  try {
    model = parse_hf_config(*config, problems.where());
  } catch (const InputError& error) { problems.add(error, "model.config."); }
  model.name = name;
  model.id = id;
}

/// Other versions are refused before their fields are called unknown.
void check_version(const json& plan, const std::string& where) {
  JsonFields top(plan, where);
  const std::int64_t version = top.require_int("schema_version", {1});
  if (version > kSchemaVersion)
    top.report("schema_version", fmt::format("{} was made by a newer gpuplan; this one ({}) reads version {}", version,
                                             GPUPLAN_VERSION, kSchemaVersion));
  top.finish("a plan made by `gpuplan estimate --save` is expected");
}

}  // namespace

json make_plan(const EstimateRequest& request, const EstimateResult& result, const StrategyEstimate& chosen) {
  GPUPLAN_CHECK(chosen.not_applicable.empty(), "a plan needs a strategy that was evaluated");
  PlanWriter out;
  out("schema_version", kSchemaVersion);
  out("gpuplan_version", std::string(GPUPLAN_VERSION));
  out.object("model", [&](PlanWriter& f) {
    f("name", request.model.name);
    f("id", request.model.id);
    f("config", to_hf_config(request.model));
  });
  out.object("recipe", [&](PlanWriter& f) { write_recipe(f, request.recipe); });
  out.object("dataset", [&](PlanWriter& f) { write_dataset(f, request.dataset); });
  out.object("cluster", [&](PlanWriter& f) { write_cluster(f, request.cluster); });
  out.object("strategy", [&](PlanWriter& f) { write_strategy(f, chosen.strategy); });
  out.object("options", [&](PlanWriter& f) { list_options(f, request); });
  out.object("profile", [&](PlanWriter& f) { list_profile(f, result.profile); });
  const Predicted predicted = predicted_by(chosen);
  out.object("predicted", [&](PlanWriter& f) { list_predicted(f, predicted); });
  return out.take();
}

EstimateRequest parse_plan(const json& plan, const std::string& where) {
  check_version(plan, where);
  PlanProblems problems(where);
  PlanReader in(plan, "", problems);
  EstimateRequest request;
  PlanStrategy strategy;
  Profile profile;  // checked here, compared by whoever plans again
  Predicted predicted;
  std::int64_t version{};
  std::string made_by;
  in("schema_version", version);
  in("gpuplan_version", made_by);
  in.object("model", [&](PlanReader& f) { read_model(f, request.model, problems); });
  in.object("recipe", [&](PlanReader& f) { read_recipe(f, request.recipe); });
  in.object("dataset", [&](PlanReader& f) { read_dataset(f, request.dataset); });
  in.object("cluster", [&](PlanReader& f) { read_cluster(f, request.cluster); });
  in.object("strategy", [&](PlanReader& f) { read_strategy(f, strategy); });
  in.object("options", [&](PlanReader& f) { list_options(f, request); });
  in.object("profile", [&](PlanReader& f) { list_profile(f, profile); });
  in.object("predicted", [&](PlanReader& f) { list_predicted(f, predicted); });
  in.close();
  if (problems.empty()) pin_strategy(strategy, request, problems);
  problems.finish();
  return request;
}

}  // namespace gpuplan

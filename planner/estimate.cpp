#include "planner/estimate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/optimizers.h"
#include "planner/job_metrics.h"
#include "planner/limits.h"
#include "planner/recommend.h"
#include "planner/state_sizes.h"
#include "planner/step_inputs.h"

namespace gpuplan {
namespace {

/// The rank of a class with the least room.
std::int64_t tightest_rank(const EstimateRequest& r, const RankClass& c) {
  const auto room = [&](std::int64_t i) {
    const Bytes used =
        std::size_t(i) < r.cluster.memory_in_use.size() ? r.cluster.memory_in_use[std::size_t(i)] : Bytes{};
    return r.cluster.gpus[std::size_t(i)].framework_memory - used;
  };
  std::int64_t best = c.first_rank;
  for (std::int64_t i = c.first_rank; i < c.first_rank + c.num_ranks; ++i)
    if (room(i) < room(best)) best = i;
  return best;
}

Bytes checkpoint_bytes(const TrainedModel& model) { return Bytes{2 * model.parameters}; }  // 16-bit safetensors on disk

HostBytes host_memory(const EstimateRequest& r, const TrainedModel& model, const Strategy& strategy, const Peak& peak,
                      const SaveCost& save) {
  HostBytes h;
  const std::int64_t ranks = r.cluster.ranks_per_node(strategy.mesh.world());
  const bool is_pipeline = strategy.mesh.pp > 1;
  h.load = is_pipeline ? checkpoint_bytes(model) : ranks * checkpoint_bytes(model);
  std::int64_t largest = 0;  // streaming loaders hold about one tensor per rank
  model.each_state([&](const StateList& list, std::int64_t) {
    for (const StateTensor& t : list) largest = std::max(largest, t.rows * t.cols);
  });
  h.load_efficient = strategy.layout.shards_weights ? checkpoint_bytes(model) + ranks * Bytes{2 * largest}
                                                    : ranks * Bytes{2 * largest};
  h.step = ranks * peak.host;
  h.nvme = ranks * peak.nvme;
  h.save = save.disk;  // gathered on the host of rank 0 before it is written
  h.capacity = r.cluster.host_memory;
  if (h.capacity.count > 0) h.fits = h.needed() <= h.capacity;
  return h;
}

SaveCost save_cost(const EstimateRequest& r, const TrainedModel& model, const Strategy& strategy,
                   const DtypePolicy& n) {
  SaveCost s;
  const bool is_adapter = r.recipe.is_adapter();
  s.disk = is_adapter ? bytes_of(model.trainable, n.adapter) : checkpoint_bytes(model);
  const StateSizes whole = model_state(model, n, r.recipe, {});
  s.disk_with_optimizer = s.disk + whole.master + whole.state + whole.paged_state;
  // sharded full weights are gathered unit by unit; the largest unit in 16 bit exists on the device once more
  if (strategy.layout.shards_weights)
    s.device_peak = Bytes{2 * std::max(model.weights.largest_layer_elements(),
                                       model.weights.before_elements() + model.weights.after_elements())};
  return s;
}

/// Low, modest, high: how much of the step the busiest link is in use.
CommunicationLevel level_of(const StepTime& time, const Strategy& strategy) {
  if (strategy.mesh.world() == 1) return CommunicationLevel::None;
  constexpr double kLow = 0.1, kModest = 0.4;
  const double share = time.step.value > 0 ? time.communication.value / time.step.value : 0;
  return share < kLow      ? CommunicationLevel::Low
         : share < kModest ? CommunicationLevel::Modest
                           : CommunicationLevel::High;
}

/// The KV cache of generation during evaluation may set the peak instead.
void add_generation(Peak& peak, const EstimateRequest& r, const TrainedModel& model) {
  if (r.eval_generate <= 0) return;
  const Bytes cache = generation_cache(r, model.spec);
  const Bytes logits{4 * r.recipe.micro_batch * model.spec.vocab_size};
  const Bytes during = peak.resident + cache + logits;
  peak.pools += cache;
  if (during <= peak.tensors) return;
  peak.tensors = during;
  peak.pools = std::max(peak.pools, during);
  peak.instant = PeakInstant::Resident;
}

/// The tightest GPU of the class, with what processes were seen to hold outside their tensors.
GpuSpec corrected_gpu(const EstimateRequest& r, const FrameworkConvention& framework, const Profile& profile,
                      const StepProgram& program, const RankClass& c) {
  GpuSpec gpu = r.cluster.gpus[std::size_t(tightest_rank(r, c))];
  if (framework.learns_from_runs)
    gpu.own_memory = std::max(Bytes{}, gpu.own_memory + correction_of(profile, program.mesh.world()).outside_tensors);
  return gpu;
}

/// Process bytes of the class by category.
CategoryBytes class_breakdown(const EstimateRequest& r, const FrameworkConvention& framework, const Profile& profile,
                              const StepProgram& program, const RankClass& c, const ClassMemory& memory,
                              DetailedPeak detail) {
  if (memory.peak.tensors > detail.tensors)  // generation set the peak: its cache is what the program does not hold
    detail.by_category[std::size_t(Category::Activations)] += memory.peak.tensors - detail.tensors;
  return process_breakdown(detail, memory.tiers, corrected_gpu(r, framework, profile, program, c), profile,
                           program.mesh.world() > 1);
}

}  // namespace

Bytes generation_cache(const EstimateRequest& r, const ModelSpec& model) {
  const std::int64_t tokens = r.eval_generate > 0 ? r.recipe.micro_batch * (r.recipe.seq_len + r.eval_generate) : 0;
  return tokens * kv_bytes_per_token(model);
}

Bytes kv_bytes_per_token(const ModelSpec& model) {
  return bytes_of(model.num_hidden_layers * (model.kv_width() + model.value_width()), Dtype::BF16);
}

StrategyOptions options_for(const EstimateRequest& r, const FrameworkConvention& framework) {
  StrategyOptions options = r.options;
  if (!options.fsdp_version && r.recipe.quant.kind == BaseQuant::Nf4 && !framework.fsdp2_shards_quantised)
    options.fsdp_version = 1;
  return options;
}

std::string_view to_string(CommunicationLevel level) {
  switch (level) {
    case CommunicationLevel::None: return "none";
    case CommunicationLevel::Low: return "low";
    case CommunicationLevel::Modest: return "modest";
    case CommunicationLevel::High: return "high";
  }
  return "";
}

ClassMemory class_memory(const EstimateRequest& r, const TrainedModel& model, const FrameworkConvention& framework,
                         const Profile& profile, const StepProgram& program, const RankClass& c) {
  ClassMemory m{.peak = replay(program, c), .tiers = {}};
  add_generation(m.peak, r, model);
  const auto rank = std::size_t(tightest_rank(r, c));
  m.tiers = memory_tiers(m.peak, corrected_gpu(r, framework, profile, program, c), profile,
                         {.in_use = rank < r.cluster.memory_in_use.size() ? r.cluster.memory_in_use[rank] : Bytes{},
                          .uses_nccl = program.mesh.world() > 1,
                          .lengths_vary = r.recipe.packing == Packing::Dynamic,
                          .allocator = framework.allocator});
  return m;
}

bool evaluate(StrategyEstimate& e, const EstimateRequest& r, const TrainedModel& model,
              const FrameworkConvention& framework, const Profile& profile, StepProgram& program) {
  build_step_program(program, {model, r.recipe, framework, e.strategy, r.cluster}, {});  // bytes only: no costs
  e.num_gpus_used = e.strategy.mesh.world();
  e.fits = true;
  e.does_not_fit_because.clear();
  Bytes worst{std::numeric_limits<std::int64_t>::min()};
  for (std::size_t k = 0; k < program.classes.size(); ++k) {
    const RankClass& c = program.classes[k];
    const auto [peak, tiers] = class_memory(r, model, framework, profile, program, c);
    if (!tiers.fits) {
      e.fits = false;
      e.does_not_fit_because =
          fmt::format("needs {} of {} that {} offers", format_bytes(tiers.needed), format_bytes(tiers.usable),
                      r.cluster.gpus[std::size_t(tightest_rank(r, c))].name);
    }
    const Bytes pressure = tiers.needed - tiers.usable;  // the class nearest to its limit is reported
    if (k > 0 && pressure <= worst) continue;
    worst = pressure;
    e.peak = peak;
    e.tiers = tiers;
    e.fullest_class = k;
  }
  e.peak_instant = e.peak.instant == PeakInstant::Resident ? "generation in evaluation"
                                                           : describe(e.peak.instant, e.peak.unit, model.num_layers());
  return e.fits;
}

StrategyEstimate estimate_strategy(const EstimateRequest& r, const TrainedModel& model,
                                   const FrameworkConvention& framework, const Profile& profile,
                                   const Strategy& strategy, StepProgram& program) {
  StrategyEstimate e{.strategy = strategy};
  evaluate(e, r, model, framework, profile, program);
  const DtypePolicy numerics = resolve_numerics(r.recipe, framework, strategy.engine);
  const StepColumns columns = make_columns(r, strategy, framework, profile, numerics);
  build_step_program(program, {model, r.recipe, framework, strategy, r.cluster}, columns.models, columns.of_rank);
  const RankClass& fullest = program.classes[e.fullest_class];
  DetailedPeak detail = replay_detailed(program, fullest, model.num_layers());
  e.memory = class_breakdown(r, framework, profile, program, fullest, {e.peak, e.tiers}, detail);
  e.items = std::move(detail.items);
  e.curve = memory_curve(program, fullest, 200);
  e.save = save_cost(r, model, strategy, numerics);
  e.host = host_memory(r, model, strategy, e.peak, e.save);
  if (!e.host.fits && e.fits) {
    e.fits = false;
    e.does_not_fit_because =
        fmt::format("the host needs {} of {}", format_bytes(e.host.needed()), format_bytes(e.host.capacity));
  }
  for (const RankClass& c : program.classes) e.communication = std::max(e.communication, bytes_sent(program, c));
  e.time = forward_pass(program, columns.models, make_step_comm(r, strategy, framework, profile));
  e.coverage = gemm_coverage(program, columns.models.front());
  e.communication_level = level_of(e.time, strategy);
  const RunFigures figures = job_metrics(r, model, strategy, e.time.step, total_peak(columns));
  e.global_batch = figures.global_batch;
  e.tokens_per_second = figures.tokens_per_second;
  e.mfu = figures.mfu;
  e.steps_per_epoch = figures.steps_per_epoch;
  e.epoch = figures.epoch, e.total = figures.total;
  e.cost_usd = figures.cost_usd;
  return e;
}

Profile profile_of(const EstimateRequest& r) {
  Profile profile = r.profile ? *r.profile : default_profile(r.cluster.gpus.front());
  profile.pace = r.pace;
  return profile;
}

EstimateResult estimate(const EstimateRequest& request) {
  EstimateRequest r = request;
  validate_recipe(r.recipe, r.model, r.cluster);
  const FrameworkConvention& framework = find_framework(r.recipe.framework);
  r.options = options_for(r, framework);
  EstimateResult out{.model = prepare(r.model, r.recipe, framework), .framework = framework, .profile = profile_of(r)};
  StepProgram program;
  for (const std::string_view name : strategy_names()) {
    if (r.strategy != "auto" && r.strategy != name) continue;
    Strategy strategy = make_strategy(name, r.cluster, r.options);
    if (std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model); !why.empty()) {
      out.strategies.push_back({.strategy = strategy, .not_applicable = why});
      continue;
    }
    StrategyEstimate e = estimate_strategy(r, out.model, framework, out.profile, strategy, program);
    find_limits(e, r, out.model, framework, out.profile, program);
    out.strategies.push_back(std::move(e));
  }
  if (!r.cluster.gpus.front().is_cpu) {
    out.memory_range = default_accuracy().range(Figure::Process, r.recipe.method);
    out.time_range = default_accuracy().range(Figure::StepTime, r.recipe.method);
  }
  out.recommended = recommend(r, out);
  out.assumptions = list_assumptions(r, out);
  return out;
}

}  // namespace gpuplan

#include "planner/strategy_estimate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/optimizers.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
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

HostBytes host_memory(const Job& job, const Peak& peak, const SaveCost& save) {
  const EstimateRequest& r = job.request;
  const TrainedModel& model = job.model;
  const Strategy& strategy = job.strategy;
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

SaveCost save_cost(const Job& job) {
  SaveCost s;
  const TrainedModel& model = job.model;
  s.disk = job.recipe().is_adapter() ? bytes_of(model.trainable, job.numerics.adapter) : checkpoint_bytes(model);
  const StateSizes whole = model_state(model, job.numerics, job.recipe(), {});
  s.disk_with_optimizer = s.disk + whole.master + whole.state + whole.paged_state;
  // sharded full weights are gathered unit by unit; the largest unit in 16 bit exists on the device once more
  if (job.strategy.layout.shards_weights)
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
GpuSpec corrected_gpu(const Job& job, const RankClass& c) {
  GpuSpec gpu = job.cluster().gpus[std::size_t(tightest_rank(job.request, c))];
  if (job.framework.learns_from_runs)
    gpu.own_memory =
        std::max(Bytes{}, gpu.own_memory + correction_of(job.profile, job.strategy.mesh.world()).outside_tensors);
  return gpu;
}

/// Process bytes of the class by category.
CategoryBytes class_breakdown(const Job& job, const RankClass& c, const ClassMemory& memory, DetailedPeak detail) {
  if (memory.peak.tensors > detail.tensors)  // generation set the peak: its cache is what the program does not hold
    detail.by_category[std::size_t(Category::Activations)] += memory.peak.tensors - detail.tensors;
  return process_breakdown(detail, memory.tiers, corrected_gpu(job, c), job.profile, job.strategy.mesh.world() > 1);
}

}  // namespace

Bytes generation_cache(const EstimateRequest& r, const ModelSpec& model) {
  const std::int64_t tokens = r.eval_generate > 0 ? r.recipe.micro_batch * (r.recipe.seq_len + r.eval_generate) : 0;
  return tokens * kv_bytes_per_token(model);
}

Bytes kv_bytes_per_token(const ModelSpec& model) {
  return bytes_of(model.num_hidden_layers * (model.kv_width() + model.value_width()), Dtype::BF16);
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

ClassMemory class_memory(const Job& job, const StepProgram& program, const RankClass& c) {
  ClassMemory m{.peak = replay(program, c), .tiers = {}};
  add_generation(m.peak, job.request, job.model);
  const auto rank = std::size_t(tightest_rank(job.request, c));
  const std::vector<Bytes>& in_use = job.cluster().memory_in_use;
  m.tiers = memory_tiers(m.peak, corrected_gpu(job, c), job.profile,
                         {.in_use = rank < in_use.size() ? in_use[rank] : Bytes{},
                          .uses_nccl = job.strategy.mesh.world() > 1,
                          .lengths_vary = job.recipe().packing == Packing::Dynamic,
                          .allocator = job.framework.allocator});
  return m;
}

namespace {

/// Peak, tiers and verdict of a built program.
void fill_memory(StrategyEstimate& e, const Job& job, const StepProgram& program) {
  e.strategy = job.strategy;
  e.num_gpus_used = job.strategy.mesh.world();
  e.fits = true;
  e.does_not_fit_because.clear();
  Bytes worst{std::numeric_limits<std::int64_t>::min()};
  for (std::size_t k = 0; k < program.classes.size(); ++k) {
    const RankClass& c = program.classes[k];
    const auto [peak, tiers] = class_memory(job, program, c);
    if (!tiers.fits) {
      e.fits = false;
      e.does_not_fit_because =
          fmt::format("needs {} of {} that {} offers", format_bytes(tiers.needed), format_bytes(tiers.usable),
                      job.cluster().gpus[std::size_t(tightest_rank(job.request, c))].name);
    }
    const Bytes pressure = tiers.needed - tiers.usable;  // the class nearest to its limit is reported
    if (k > 0 && pressure <= worst) continue;
    worst = pressure;
    e.peak = peak;
    e.tiers = tiers;
    e.fullest_class = k;
  }
  e.peak_instant = e.peak.instant == PeakInstant::Resident
                       ? "generation in evaluation"
                       : describe(e.peak.instant, e.peak.unit, job.model.num_layers());
}

}  // namespace

bool evaluate(StrategyEstimate& e, const Job& job, StepProgram& program) {
  build_step_program(program, job, {});  // bytes only: no costs
  fill_memory(e, job, program);
  return e.fits;
}

MeasuredKind measured_kind(const Job& job) {
  const auto& pretraining = default_accuracy().pretraining_frameworks;
  const StateLayout& layout = job.strategy.layout;
  const Mesh& mesh = job.strategy.mesh;
  return {.method = job.recipe().method,
          .is_pretraining = job.recipe().method == Method::Full &&
                            std::find(pretraining.begin(), pretraining.end(), job.framework.name) != pretraining.end(),
          .is_sharded = mesh.dp_shard > 1 && (layout.shards_optimizer || layout.shards_weights),
          .has_several_gpus = mesh.world() > 1,
          .offloads = job.recipe().offload.any()};
}

std::optional<AccuracyRange> memory_range(const Job& job) {
  if (job.cluster().gpus.front().is_cpu) return std::nullopt;
  return default_accuracy().range(Figure::Process, measured_kind(job));
}

std::optional<AccuracyRange> time_range(const Job& job) {
  if (job.cluster().gpus.front().is_cpu) return std::nullopt;
  return default_accuracy().range(Figure::StepTime, measured_kind(job));
}

StrategyEstimate estimate_strategy(const Job& job, StepProgram& program) {
  StrategyEstimate e;
  const StepColumns columns = make_columns(job);
  build_step_program(program, job, columns.models, columns.of_rank);
  fill_memory(e, job, program);
  const RankClass& fullest = program.classes[e.fullest_class];
  DetailedPeak detail = replay_detailed(program, fullest, job.model.num_layers());
  e.memory = class_breakdown(job, fullest, {e.peak, e.tiers}, detail);
  e.items = std::move(detail.items);
  e.curve = memory_curve(program, fullest, 200);
  e.save = save_cost(job);
  e.host = host_memory(job, e.peak, e.save);
  if (!e.host.fits && e.fits) {
    e.fits = false;
    e.does_not_fit_because =
        fmt::format("the host needs {} of {}", format_bytes(e.host.needed()), format_bytes(e.host.capacity));
  }
  for (const RankClass& c : program.classes) e.communication = std::max(e.communication, bytes_sent(program, c));
  e.time = forward_pass(program, columns.models, make_step_comm(job));
  e.memory_range = memory_range(job);
  e.time_range = time_range(job);
  e.coverage = gemm_coverage(program, columns.models.front());
  e.communication_level = level_of(e.time, job.strategy);
  const JobMetrics metrics = job_metrics(job, e.time.step, total_peak(columns));
  e.global_batch = metrics.global_batch;
  e.tokens_per_second = metrics.tokens_per_second;
  e.mfu = metrics.mfu;
  e.steps_per_epoch = metrics.steps_per_epoch;
  e.epoch = metrics.epoch, e.total = metrics.total;
  e.cost_usd = metrics.cost_usd;
  return e;
}

namespace {

/// Largest value in steps of `step` for which `fits`, starting the doubling at `from`; empty when not even `step` does.
template <class Fits>
std::optional<std::int64_t> largest(std::int64_t step, std::int64_t from, std::int64_t most, Fits fits) {
  const auto ok = [&](std::int64_t units) { return fits(units * step); };
  std::int64_t low = std::max<std::int64_t>(1, from / step);
  if (!ok(low)) {
    if (low == 1) return std::nullopt;
    std::int64_t high = low;
    low = 0;
    while (high - low > 1) {
      const std::int64_t mid = (low + high) / 2;
      (ok(mid) ? low : high) = mid;
    }
    return low > 0 ? std::optional(low * step) : std::nullopt;
  }
  std::int64_t high = low;
  while (high * step < most && ok(high)) low = high, high *= 2;
  if (high * step >= most) {
    high = most / step;
    if (ok(high)) return high * step;
  }
  while (high - low > 1) {
    const std::int64_t mid = (low + high) / 2;
    (ok(mid) ? low : high) = mid;
  }
  return low * step;
}

}  // namespace

void find_limits(StrategyEstimate& e, const Job& asked, StepProgram& program) {
  Job job = asked;
  Recipe& recipe = job.request.recipe;
  StrategyEstimate probe;
  constexpr std::int64_t kMostSequences = 4096, kMostTokens = 4 << 20, kTokenStep = 256;
  e.max_micro_batch = largest(1, recipe.micro_batch, kMostSequences, [&](std::int64_t b) {
    recipe.micro_batch = b;
    return evaluate(probe, job, program);
  });
  recipe.micro_batch = asked.recipe().micro_batch;
  e.max_seq_len = largest(kTokenStep, recipe.seq_len, kMostTokens, [&](std::int64_t s) {
    recipe.seq_len = s;
    return evaluate(probe, job, program);
  });
}

}  // namespace gpuplan

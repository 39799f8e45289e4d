#include "planner/strategy_estimate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/adapter_kind.h"
#include "models/optimizers.h"
#include "models/training_method.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
#include "planner/rollout_phases.h"
#include "planner/state_sizes.h"
#include "planner/step_inputs.h"
#include "planner/step_temporaries.h"

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
  const bool are_alike = r.cluster.memory_in_use.empty();  // neighbours of a kind
  for (std::int64_t i = c.first_rank; i < c.first_rank + c.num_ranks;) {
    if (room(i) < room(best)) best = i;
    i = are_alike ? std::int64_t(r.cluster.gpus.behind(std::size_t(i))) : i + 1;
  }
  return best;
}

/// Gives what the model is loaded in, and saved in where all of it is trained: the dtype of the weights. A Trainer that
/// keeps them in fp32 writes fp32. Source: huggingface/transformers issues 32265 and 33780.
Dtype file_dtype(const Job& job) { return job.recipe().is_adapter() ? job.numerics.frozen : job.numerics.weight; }

Bytes checkpoint_bytes(const Job& job) {
  if (!job.model.spec.checkpoint.is_present()) return bytes_of(job.model.parameters, file_dtype(job));
  return model_state(job.whole(), job.numerics, job.recipe(), {}).frozen;  // adapters alone are trained
}

HostBytes host_memory(const Job& job, const Peak& peak, const SaveCost& save) {
  const EstimateRequest& r = job.request;
  const TrainedModel& model = job.model;
  const Strategy& strategy = job.strategy;
  HostBytes h;
  const std::int64_t ranks = r.cluster.ranks_per_node(strategy.mesh.world());
  const bool is_pipeline = strategy.mesh.num_stages() > 1;
  h.load = is_pipeline ? checkpoint_bytes(job) : ranks * checkpoint_bytes(job);
  std::int64_t largest = 0;  // streaming loaders hold about one tensor per rank
  model.each_state([&](const StateList& list, std::int64_t) {
    for (const StateTensor& t : list) largest = std::max(largest, t.rows * t.cols);
  });
  const Bytes streamed = ranks * bytes_of(largest, file_dtype(job));
  h.load_efficient = strategy.layout.shards_weights ? checkpoint_bytes(job) + streamed : streamed;
  h.step = ranks * peak.host;
  h.nvme = ranks * peak.nvme;
  h.save = save.disk;  // gathered on the host of rank 0 before it is written
  h.capacity = r.cluster.host_memory;
  h.usual = r.cluster.host.usual_memory;
  if (h.capacity.count > 0) h.fits = h.needed() <= h.capacity;
  return h;
}

SaveCost save_cost(const Job& job) {
  SaveCost s;
  const TrainedModel& model = job.whole();
  s.disk = job.recipe().is_adapter() ? bytes_of(model.trainable, job.numerics.adapter) : checkpoint_bytes(job);
  const StateSizes whole = model_state(model, job.numerics, job.recipe(), {});
  s.disk_with_optimizer = s.disk + whole.master + whole.state + whole.paged_state;
  s.device_peak = gathered_at_once(job);
  return s;
}

/// Low, medium, high: how much of the step the busiest link is in use.
CommunicationLevel level_of(const StepTime& time, const Strategy& strategy) {
  if (strategy.mesh.world() == 1) return CommunicationLevel::None;
  constexpr double kLow = 0.1, kModest = 0.4;
  const double share = time.step.value > 0 ? time.communication.value / time.step.value : 0;
  return share < kLow      ? CommunicationLevel::Low
         : share < kModest ? CommunicationLevel::Modest
                           : CommunicationLevel::High;
}

/// Another phase may set the peak instead of training.
void add_phases(Peak& peak, std::span<const PhasePeak> phases) {
  for (const PhasePeak& phase : phases) {
    if (!phase.counts || phase.needed() <= peak.tensors) continue;
    peak.tensors = phase.needed();
    for (Bytes* pools : {&peak.pools, &peak.joined_pools}) *pools = std::max(*pools, peak.tensors);
    peak.instant = phase.phase;
  }
}

/// The tightest GPU of the class, with what processes were seen to hold outside their tensors.
GpuSpec corrected_gpu(const Job& job, const RankClass& c) {
  GpuSpec gpu = job.cluster().gpus[std::size_t(tightest_rank(job.request, c))];
  const RunCorrection own = correction_of(job.profile, job.strategy.mesh.world(), job.framework.name);
  gpu.own_memory = std::max(Bytes{}, gpu.own_memory + own.outside_tensors);
  return gpu;
}

/// Process bytes of the class by category.
CategoryBytes class_breakdown(const Job& job, const RankClass& c, const ClassMemory& memory, DetailedPeak detail) {
  if (memory.peak.tensors > detail.tensors)  // another phase set the peak, which the program does not hold
    detail.by_category[std::size_t(Category::Activations)] += memory.peak.tensors - detail.tensors;
  return process_breakdown(detail, memory.tiers, corrected_gpu(job, c), job.profile, !job.is_one_process());
}

}  // namespace

const PhasePeak* StrategyEstimate::phase(PeakInstant instant) const {
  const auto found =
      std::find_if(run_phases.begin(), run_phases.end(), [&](const PhasePeak& p) { return p.phase == instant; });
  return found == run_phases.end() ? nullptr : &*found;
}

std::string_view to_string(CommunicationLevel level) {
  switch (level) {
    case CommunicationLevel::None: return "none";
    case CommunicationLevel::Low: return "low";
    case CommunicationLevel::Modest: return "medium";
    case CommunicationLevel::High: return "high";
  }
  return "";
}

/// The kind of model among kModelKinds; empty for an ordinary decoder.
static std::string_view model_kind(const ModelSpec& model) {
  const std::array<bool, kModelKinds.size()> is{model.moe.is_present(), model.num_encoder_layers > 0, !model.is_causal,
                                                model.is_hybrid(), model.vision.is_present()};
  const auto first = std::ranges::find(is, true);
  return first == is.end() ? "" : kModelKinds[std::size_t(first - is.begin())];
}

/// See MeasuredKind::traits.
static std::vector<std::string> run_traits(const Job& job) {
  const Recipe& recipe = job.recipe();
  std::vector<std::string> traits;
  if (const std::string_view kind = model_kind(job.request.model); !kind.empty()) {
    traits.emplace_back(kind);
    traits.push_back(fmt::format("{} under {}", kind, job.strategy.name));
  }
  if (recipe.optimizer->is_8bit) traits.emplace_back("8-bit optimizer states");
  if (recipe.optimizer->is_paged) traits.emplace_back("paged optimizer states");
  if (recipe.optimizer->is_factored) traits.emplace_back("factored optimizer states");
  if (recipe.optimizer->is_matrix_momentum) traits.emplace_back("matrix momentum");
  if (recipe.lora.is_dora) traits.emplace_back("DoRA");
  if (recipe.is_adapter() && !recipe.lora.kind->is_lora()) traits.push_back(recipe.lora.kind->title);
  if (recipe.qat != Qat::None) traits.emplace_back("fake quantisers");
  if (recipe.fp8_matmul) traits.emplace_back("fp8");
  if (recipe.torch_compile) traits.emplace_back("torch.compile");
  if (!recipe.trained.empty()) traits.emplace_back("a part of the parameters trained");
  std::string maker = job.cluster().gpus.front().vendor;
  for (char& letter : maker) letter = char(std::toupper(static_cast<unsigned char>(letter)));
  if (!maker.empty()) traits.push_back(maker + " GPUs");
  return traits;
}

MeasuredKind measured_kind(const Job& job) {
  const auto& pretraining = default_accuracy().pretraining_frameworks;
  const StateLayout& layout = job.strategy.layout;
  const Mesh& mesh = job.strategy.mesh;
  return {.method = job.recipe().method,
          .is_pretraining = job.recipe().method == Method::Full &&
                            std::find(pretraining.begin(), pretraining.end(), job.framework.name) != pretraining.end(),
          .is_sharded = mesh.shard_ways() > 1 && (layout.shards_optimizer || layout.shards_weights),
          .has_several_gpus = mesh.world() > 1,
          .offloads = job.recipe().offload.any(),
          .traits = run_traits(job)};
}

std::optional<AccuracyRange> time_range(const Job& job) {
  if (job.cluster().gpus.front().is_cpu) return std::nullopt;
  return default_accuracy().range(Figure::StepTime, measured_kind(job));
}

std::optional<AccuracyRange> memory_range(const Job& job) {
  if (job.cluster().gpus.front().is_cpu) return std::nullopt;
  return default_accuracy().range(Figure::Process, measured_kind(job));
}

namespace {

/// `peak`: replay() of the class.
ClassMemory class_memory(const Job& job, const CommonMemory& common, const StepProgram& program, const RankClass& c,
                         const Peak& peak) {
  ClassMemory m{.peak = peak, .tiers = {}, .phases = phase_peaks(job, common.needs, program, c, peak)};
  add_phases(m.peak, m.phases);
  const auto rank = std::size_t(tightest_rank(job.request, c));
  const std::vector<Bytes>& in_use = job.cluster().memory_in_use;
  std::optional<Bytes> unplaced;
  if (common.temporaries) unplaced = common.temporaries->unplaced(m.peak.joined_activations, m.peak.step_temporaries);
  m.tiers = memory_tiers(m.peak, corrected_gpu(job, c), job.profile,
                         {.in_use = rank < in_use.size() ? in_use[rank] : Bytes{},
                          .uses_nccl = !job.is_one_process(),
                          // blocks are given back before each generation: torch.cuda.empty_cache() in sync_weights of
                          // trl/generation/vllm_generation.py, verl/workers/fsdp_workers.py rollout_mode
                          .lengths_vary = job.recipe().packing == Packing::Dynamic && !generates(job.recipe()),
                          .unplaced = unplaced,
                          .allocator = job.framework.state.allocator});
  return m;
}

}  // namespace

ClassMemory class_memory(const Job& job, const StepProgram& program, const RankClass& c) {
  return class_memory(job, CommonMemory(job, program), program, c, replay(program, c));
}

namespace {

/// Gives what a verdict other than yes depends on.
std::string describe_fit(Fit fit, const MemoryTiers& t, const std::optional<AccuracyRange>& range, const GpuSpec& gpu) {
  const std::string offers = fmt::format("{} offers {}", gpu.name, format_bytes(t.usable));
  if (fit < Fit::Tight)
    return fmt::format("needs {}, at least {} without the allocator's cache; {}", format_bytes(t.process),
                       format_bytes(t.needed), offers);
  if (t.needed <= t.usable)
    return fmt::format(
        "{} is predicted without the allocator's cache and {}, but measurements reach {:.0f} % above "
        "predictions",
        format_bytes(t.needed), offers, 100 * (range->high - 1));
  return fmt::format("at least {} is predicted and {}, but measurements go down to {:.0f} % below predictions",
                     format_bytes(t.needed), offers, 100 * (1 - range->low));
}

/// Host memory by what is known of it: what fits on the GPUs may rest on a host of which nothing is known.
void check_host(StrategyEstimate& e) {
  if (e.fit < Fit::Tight) return;
  if (!e.host.fits)
    e.fit = Fit::No, e.chance = 0;
  else if (e.host.needs_more_than_usual())
    e.fit = Fit::IfHost;
}

/// Peak, tiers and verdict of a built program, the host's too.
void fill_memory(StrategyEstimate& e, const Job& job, const StepProgram& program, std::span<const Peak> peaks,
                 const CommonMemory& common, const std::optional<AccuracyRange>& range) {
  e.strategy = job.strategy;
  e.num_gpus_used = job.strategy.mesh.world() + engine_gpus(job.request, job.strategy.mesh);
  e.fit = Fit::Yes, e.chance = 1;
  e.memory_range = range;
  Bytes worst{std::numeric_limits<std::int64_t>::min()};
  for (std::size_t k = 0; k < program.classes.size(); ++k) {
    auto [peak, tiers, phases] = class_memory(job, common, program, program.classes[k], peaks[k]);
    const double chance = chance_to_run(tiers, e.memory_range);
    const Fit fit = fit_of(chance);
    const Bytes pressure = tiers.process - tiers.usable;
    // the class that decides the verdict is reported; of several, the one whose process is nearest to its limit
    e.chance = std::min(e.chance, chance);
    if (k > 0 && (fit > e.fit || (fit == e.fit && pressure <= worst))) continue;
    e.fit = fit;
    worst = pressure;
    e.peak = peak;
    e.tiers = tiers;
    e.run_phases = std::move(phases);
    e.fullest_class = k;
  }
  e.save = common.save;
  e.host = host_memory(job, e.peak, e.save);
  check_host(e);
  if (generates(job.recipe()) && !rollout_refusal(job).empty()) e.fit = Fit::No, e.chance = 0;
}

/// The verdict that is there in words.
void describe_verdict(StrategyEstimate& e, const Job& job, const StepProgram& program) {
  e.peak_instant = describe(e.peak.instant, e.peak.unit, job.model.num_layers());
  const Fit on_gpus = fit_of(chance_to_run(e.tiers, e.memory_range));
  e.why_not_yes.clear();
  if (on_gpus != Fit::Yes) {
    const auto tightest = std::size_t(tightest_rank(job.request, program.classes[e.fullest_class]));
    e.why_not_yes = describe_fit(on_gpus, e.tiers, e.memory_range, job.cluster().gpus[tightest]);
    if (e.peak.tensors > e.peak.step) e.why_not_yes += fmt::format(" ({})", describe(e.peak.instant, e.peak.unit, 0));
  }
  if (generates(job.recipe()))
    if (std::string refusal = rollout_refusal(job); !refusal.empty()) {
      e.why_not_yes = std::move(refusal);
      return;
    }
  if (on_gpus < Fit::Tight) return;
  if (!e.host.fits) {
    e.why_not_yes =
        fmt::format("the host needs {} of {}", format_bytes(e.host.needed()), format_bytes(e.host.capacity));
  } else if (e.host.needs_more_than_usual()) {
    const std::string tight = on_gpus == Fit::Tight ? "; " + e.why_not_yes : "";
    e.why_not_yes = fmt::format(
        "the host needs {}, and machines like this usually have {}; --host-memory says what "
        "yours has{}",
        format_bytes(e.host.needed()), format_bytes(e.host.usual), tight);
  }
}

}  // namespace

CommonMemory::CommonMemory(const Job& job, const StepProgram& program)
    : needs(phase_needs(job)),
      temporaries(step_temporaries(job, program)),
      save(save_cost(job)) {
  if (is_evaluated(job.request)) needs.evaluation = evaluation_needs(job, program);
}

bool evaluate(StrategyEstimate& e, const Job& asked, StepProgram& program, BlockCache* cache) {
  const std::optional<Job> fullest = fullest_job(asked);
  const Job& job = fullest ? *fullest : asked;
  build_step_program(program, job, {}, {}, cache, Layers::Folded);  // bytes only: no costs
  return evaluate_built(e, job, program, replay_phases(job, program), {job, program}, memory_range(job));
}

bool evaluate_built(StrategyEstimate& e, const Job& job, const StepProgram& program, std::span<const Peak> peaks,
                    const CommonMemory& common, const std::optional<AccuracyRange>& range) {
  fill_memory(e, job, program, peaks, common, range);
  return e.fits();
}

namespace {

/// The estimate of a program that is built.
void explain_peak(StrategyEstimate& e, const Job& job, const StepProgram& program) {
  const RankClass& fullest = program.classes[e.fullest_class];
  DetailedPeak detail = detailed_phases(job, program, e.fullest_class, e.peak);
  e.memory = class_breakdown(job, fullest, {e.peak, e.tiers}, detail);
  e.items = std::move(detail.items);
  e.kept_logits = kept_logits(job);
  PhaseNeeds needs = phase_needs(job);
  // a training on answers is evaluated by answers, which the engine writes
  if (is_evaluated(job.request) || !generates(job.recipe())) needs.evaluation = evaluation_needs(job, program);
  e.run_phases = phase_peaks(job, needs, program, fullest, e.peak);
}

}  // namespace

StrategyEstimate estimate_strategy(const Job& job, StepProgram& program, Parts parts, BlockCache* cache) {
  StrategyEstimate e;
  const StepColumns columns = make_columns(job);
  const std::optional<Job> fullest = fullest_job(job);
  const Job& full = fullest ? *fullest : job;
  build_step_program(program, full, columns.models, columns.of_rank, cache, Layers::Folded);
  const std::vector<Peak> peaks = replay_phases(full, program);
  fill_memory(e, full, program, peaks, {full, program}, memory_range(full));
  describe_verdict(e, full, program);
  if (parts == Parts::IfFits && !e.fits()) return e;
  if (parts == Parts::All) explain_peak(e, full, program);
  const bool is_average = padded_length(job.recipe(), job.request.dataset) != job.recipe().seq_len;
  if (is_average) build_step_program(program, average_job(job), columns.models, columns.of_rank, cache, Layers::Folded);
  for (const RankClass& c : program.classes) e.communication = std::max(e.communication, bytes_sent(program, c));
  e.time = forward_pass(program, columns.models, make_step_comm(job));
  Seconds before;  // the first step
  if (!job.recipe().objective.method.is_usual()) {
    e.phases = phase_figures(job, peaks, e.time, columns);
    for (const PhaseFigures& phase : std::span(e.phases).subspan(1)) {
      if (phase.is_before_training) {
        before += phase.time.step;
        continue;
      }
      e.time += phase.time;
      e.time.step = e.time.step - phase.beside;
    }
  }
  e.time_range = time_range(job);
  e.coverage = gemm_coverage(program, columns.models.front());
  e.communication_level = level_of(e.time, job.strategy);
  const JobMetrics metrics = job_metrics(job, e.time.step, total_peak(columns), before);
  e.global_batch = metrics.global_batch;
  e.tokens_per_second = metrics.tokens_per_second;
  e.mfu = metrics.mfu;
  e.steps_per_epoch = metrics.steps_per_epoch;
  e.epoch = metrics.epoch, e.total = metrics.total;
  e.cost_usd = metrics.cost_usd;
  return e;
}

namespace {

/// Searches the largest value in steps of `step`, at most `most`, for which `room` (bytes that are left, negative where
/// it does not fit) says that it fits. Memory grows nearly as a straight line, so that two tries tell where the limit
/// is, and two more that it is there; what still is open after six is halved.
template <class Room>
class LargestThatFits {
 public:
  LargestThatFits(std::int64_t step, std::int64_t most, Room room) : step_(step), high_(most / step + 1), room_(room) {}

  /// Empty where not even `step` fits.
  std::optional<std::int64_t> from(std::int64_t first) {
    std::int64_t units = std::max<std::int64_t>(1, first / step_);
    for (int tries = 0; high_ - low_ > 1; ++tries) {
      probe(std::clamp(units, low_ + 1, high_ - 1));
      units = tries < 6 ? on_the_line() : halfway();
    }
    return low_ > 0 ? std::optional(low_ * step_) : std::nullopt;
  }

 private:
  void probe(std::int64_t units) {
    const double left = room_(units * step_);
    before_ = std::exchange(last_, {units, left});
    (left >= 0 ? low_ : high_) = units;
    is_bounded_ |= left < 0;
  }
  std::int64_t halfway() const { return is_bounded_ || low_ == 0 ? low_ + (high_ - low_) / 2 : 2 * low_; }
  /// The last value that fits by the line through the last two tries.
  std::int64_t on_the_line() const {
    const double slope = (before_.left - last_.left) / double(last_.units - before_.units);
    if (before_.units == 0 || !std::isfinite(slope) || slope <= 0) return halfway();
    const double end = double(last_.units) + last_.left / slope;
    return std::int64_t(std::clamp(end, double(low_), double(high_ - 1)));
  }

  struct Try {
    std::int64_t units = 0;
    double left = 0;
  };
  std::int64_t step_, low_ = 0, high_;  // low_ fits, high_ does not
  bool is_bounded_ = false;             // high_ was tried
  Room room_;
  Try before_, last_;
};

}  // namespace

void find_limits(StrategyEstimate& e, const Job& asked, StepProgram& program, BlockCache* cache) {
  Job job = asked;
  Recipe& recipe = job.request.recipe;
  StrategyEstimate probe;
  constexpr std::int64_t kMostSequences = 4096, kMostTokens = 4 << 20, kTokenStep = 256;
  const auto room = [&] {
    evaluate(probe, job, program, cache);
    if (!probe.host.fits) return -std::numeric_limits<double>::infinity();
    return double((probe.tiers.usable - probe.tiers.needed).count);
  };
  e.max_micro_batch = LargestThatFits(1, kMostSequences, [&](std::int64_t b) {
                        recipe.micro_batch = b;
                        return room();
                      }).from(recipe.micro_batch);
  recipe.micro_batch = asked.recipe().micro_batch;
  e.max_seq_len = LargestThatFits(kTokenStep, kMostTokens, [&](std::int64_t s) {
                    recipe.seq_len = s;
                    return room();
                  }).from(recipe.seq_len);
  recipe.seq_len = asked.recipe().seq_len;  // which need not be a multiple of the steps
  if (e.max_seq_len.value_or(0) < recipe.seq_len && room() >= 0) e.max_seq_len = recipe.seq_len;
}

}  // namespace gpuplan

#include "planner/phases.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "models/training_method.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

bool is_one_phase(const Job& job) {
  const RowOf<TrainingMethod>& method = job.recipe().objective.method;
  return method.is_usual() || (method->passes.empty() && !method->generates);
}

/// Says whether the trainer computes the log-probs of the policy that generated in a pass of their own.
bool runs_old_pass(const Job& job) {
  const RolloutConvention* const convention = rollout_convention(job.framework.name);
  if (!convention || convention->old_log_probs == OldLogProbs::Never) return false;
  const JobRollout rollout = job_rollout(job);
  return convention->old_log_probs == OldLogProbs::Always || !rollout.setup.engine->in_trainer || rollout.steps > 1;
}

/// Job of a pass without gradients over `model` (null: the job's).
Job pass_of(const Job& job, Pass pass, const ModelSpec* model, bool is_on_host) {
  EstimateRequest r = job.request;
  if (model) {  // which has neither the policy's adapters nor its quantised base
    r.model = *model;
    r.recipe.method = Method::Full;
    r.recipe.quant = {};
    r.recipe.trained.clear();
  }
  r.recipe.pass = pass;
  r.recipe.checkpointing = Checkpointing::None;  // nothing is kept that could be recomputed
  r.recipe.optimizer_in_backward = false;
  r.recipe.offload.activations = false;
  if (is_on_host) r.recipe.offload.params = OffloadTarget::Cpu;
  TrainedModel prepared = prepare(r.model, r.recipe, job.framework);
  return {std::move(r), std::move(prepared), job.framework, job.profile, job.strategy};
}

/// A critic or a reward model: a model of its own, with a head of one number in the place of the vocabulary. A critic
/// is trained as the policy is, with adapters where that has them.
Job scoring_job(const Job& job, PassModel of, bool trains) {
  const bool is_critic = of == PassModel::Critic;
  const ModelSpec* const own = is_critic ? job.request.critic.get() : job.request.reward_model.get();
  EstimateRequest r = job.request;
  if (own) r.model = *own;
  r.recipe.objective.labels = 1;
  if (trains) {
    TrainedModel prepared = prepare(r.model, r.recipe, job.framework);
    return {std::move(r), std::move(prepared), job.framework, job.profile, job.strategy};
  }
  const Job whole(std::move(r), prepare(own ? *own : job.request.model, job.recipe(), job.framework), job.framework,
                  job.profile, job.strategy);
  return is_critic ? pass_of(whole, Pass::Forward, nullptr, false)
                   : pass_of(whole, Pass::Frozen, &whole.request.model, false);
}

/// The pass of a critic or a reward model; none where no model is asked for and a function usually judges.
std::optional<SidePhase> scoring_phase(const Job& job, const SidePass& pass) {
  const RolloutConvention* const convention = rollout_convention(job.framework.name);
  const bool is_reward = pass.of == PassModel::Reward;
  const bool is_judged = job.request.rollout.judged_by_function || (convention && convention->reward_by_function);
  if (is_reward && (is_judged || pass.when_asked) && !job.request.reward_model) return {};
  return SidePhase{.name = {},
                   .job = scoring_job(job, pass.of, pass.trains),
                   .has_own_weights = is_reward || pass.trains,
                   .trains = pass.trains};
}

/// A copy of the policy beside it. Its forward is not wrapped in accelerate's conversion under FSDP (prepare_fsdp of
/// trl/models/utils.py, which LLaMA-Factory and ms-swift call too).
Job copy_of(const Job& job, bool is_on_host) {
  const bool is_as_trained = job.framework.preference.reference_needs_gradient && !job.recipe().is_adapter();
  Job copy = pass_of(job, is_as_trained ? Pass::Forward : Pass::Frozen, nullptr, is_on_host);
  if (is_fsdp(job.strategy.engine)) copy.numerics.logits = copy.numerics.compute;
  return copy;
}

SidePhase reference_phase(const Job& job, Reference reference) {
  const bool is_copy = reference == Reference::Copy || reference == Reference::Host;
  SidePhase phase{
      .name = {},
      .job = is_copy ? copy_of(job, reference == Reference::Host) : pass_of(job, Pass::Frozen, nullptr, false),
      .has_own_weights = is_copy,
      .is_before_training = reference == Reference::Precomputed};
  return phase;
}

StepProgram& side_program() {
  static thread_local StepProgram program;
  return program;
}

/// Holds what a phase adds to what is there: its model, and what comes and goes.
struct PhaseBytes {
  Bytes resident, host, tensors, pools;
};

/// Builds the phase's program with as many sequences as it holds at one time.
void build_at_once(StepProgram& program, const SidePhase& phase) {
  if (phase.at_once == 0) return build_step_program(program, phase.job, {}, {}, nullptr, Layers::Folded);
  Job job = phase.job;
  job.request.recipe.micro_batch = phase.at_once;
  build_step_program(program, job, {}, {}, nullptr, Layers::Folded);
}

PhaseBytes bytes_of_phase(const SidePhase& phase, std::size_t rank_class) {
  StepProgram& program = side_program();
  build_at_once(program, phase);
  const RankClass& c = program.classes[std::min(rank_class, program.classes.size() - 1)];
  const Peak peak = replay(program, c);
  return {.resident = phase.has_own_weights ? peak.resident : Bytes{},
          .host = phase.has_own_weights ? peak.host : Bytes{},
          .tensors = peak.tensors - peak.resident,
          .pools = peak.pools - peak.resident};
}

void add_resident(Peak& peak, const PhaseBytes& bytes) {
  for (Bytes* figure :
       {&peak.tensors, &peak.step, &peak.resident, &peak.pools, &peak.joined_pools, &peak.joined_step, &peak.at_loss})
    *figure += bytes.resident;
  peak.host += bytes.host;
}

/// Gives what is there when a phase begins.
Bytes waiting(const Peak& peak, const SidePhase& phase) { return phase.in_graph ? peak.at_loss : peak.resident; }

void add_phase(Peak& peak, const SidePhase& phase, const PhaseBytes& bytes) {
  const Bytes before = waiting(peak, phase);
  peak.pools = std::max(peak.pools, before + bytes.pools);
  peak.joined_pools = std::max(peak.joined_pools, before + bytes.pools);
  if (before + bytes.tensors <= peak.tensors) return;
  peak.tensors = peak.step = before + bytes.tensors;
  peak.instant = PeakInstant::OtherModel;
}

StepTime times(StepTime t, double count) {
  t.step = count * t.step, t.compute = count * t.compute, t.communication = count * t.communication;
  t.exposed = count * t.exposed, t.host = count * t.host, t.flops *= count;
  return t;
}

StepTime seconds_of(const SidePhase& phase, const StepColumns& columns) {
  StepProgram& program = side_program();
  build_step_program(program, phase.job, columns.models, columns.of_rank, nullptr, Layers::Folded);
  const StepTime step = forward_pass(program, columns.models, make_step_comm(phase.job));
  const double steps = phase.is_before_training ? double(job_metrics(phase.job, step.step, {1.0}).steps_per_epoch) : 1;
  const double passes =  // over an answer
      generates(phase.job.recipe()) && !phase.trains ? 1 / double(phase.job.request.rollout.iterations) : 1;
  return times(step, double(phase.times) * steps * passes);
}

/// Sequences at once of a pass for log-probs where a trainer's file says them, of those that a rank has; 0: those of a
/// micro-batch.
std::int64_t sequences_at_once(const Job& job, const SidePass& pass) {
  if (!generates(job.recipe())) return 0;
  const Rollout& asked = job.request.rollout;
  const std::int64_t said = pass.is_old ? asked.old_batch : pass.of == PassModel::Reference ? asked.reference_batch : 0;
  if (said == 0) return 0;
  const std::int64_t ranks = std::max<std::int64_t>(1, job.strategy.mesh.batch_replicas());
  return std::min(said, std::max<std::int64_t>(1, ceil_div(job_rollout(job).batch.sequences, ranks)));
}

std::optional<SidePhase> make_phase(const Job& job, const SidePass& pass, Reference reference) {
  switch (pass.of) {
    case PassModel::Reference: return reference_phase(job, reference);
    case PassModel::Policy: return SidePhase{.name = {}, .job = pass_of(job, Pass::Forward, nullptr, false)};
    case PassModel::Critic:
    case PassModel::Reward: return scoring_phase(job, pass);
    case PassModel::Teacher: break;
  }
  return SidePhase{
      .name = {}, .job = pass_of(job, Pass::Frozen, job.request.teacher.get(), false), .has_own_weights = true};
}

}  // namespace

std::vector<SidePhase> side_phases(const Job& job) {
  std::vector<SidePhase> phases;
  if (is_one_phase(job)) return phases;
  const Reference reference = reference_of(job.recipe());
  for (const SidePass& pass : job.recipe().objective.method->passes) {
    if (pass.of == PassModel::Reference && reference == Reference::None) continue;
    if (pass.is_old && !runs_old_pass(job)) continue;
    std::optional<SidePhase> made = make_phase(job, pass, reference);
    if (!made) continue;
    SidePhase phase = std::move(*made);
    phase.name = pass.name;
    phase.times = pass.times;
    phase.is_old = pass.is_old;
    phase.at_once = sequences_at_once(job, pass);
    const bool is_after = pass.of == PassModel::Policy && !pass.is_old && job.framework.preference.policy_pass_in_graph;
    const RolloutConvention* const convention = rollout_convention(job.framework.name);
    const bool is_joined = phase.trains && convention && convention->critic_in_graph;
    // addresses that are planned are those of one program, which holds nothing while another one runs
    const bool is_alone = job.framework.state.allocator == AllocatorKind::Planned;
    const bool is_first = phase.is_before_training ||
                          (pass.of == PassModel::Reference && job.framework.preference.reference_before_training);
    phase.in_graph = (pass.in_graph || is_after || is_joined) && !is_first && !is_alone;
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::vector<Peak> replay_passes(const Job& job, const StepProgram& program) {
  std::vector<Peak> peaks = replay_all(program);
  if (is_one_phase(job)) return peaks;
  const std::vector<SidePhase> phases = side_phases(job);
  for (std::size_t c = 0; c < peaks.size(); ++c) {
    std::vector<PhaseBytes> bytes;
    for (const SidePhase& phase : phases) bytes.push_back(bytes_of_phase(phase, c));
    for (const PhaseBytes& b : bytes) add_resident(peaks[c], b);
    for (std::size_t i = 0; i < phases.size(); ++i)
      if (!phases[i].is_before_training) add_phase(peaks[c], phases[i], bytes[i]);
  }
  return peaks;
}

void add_engine(std::span<Peak> peaks, const Job& job) {
  if (!generates(job.recipe())) return;
  for (Peak& peak : peaks) add_rollout(peak, job);
}

std::vector<Peak> replay_phases(const Job& job, const StepProgram& program) {
  std::vector<Peak> peaks = replay_passes(job, program);
  add_engine(peaks, job);
  return peaks;
}

/// Phases with rows of the mean padded length, which is what takes their time.
static std::vector<SidePhase> average_phases(const Job& job) {
  const bool is_average = padded_length(job.recipe(), job.request.dataset) != job.recipe().seq_len;
  return side_phases(is_average ? average_job(job) : job);
}

std::vector<PhaseFigures> phase_figures(const Job& job, std::span<const Peak> peaks, const StepTime& train,
                                        const StepColumns& columns) {
  std::vector<PhaseFigures> out;
  if (job.recipe().objective.method.is_usual()) return out;
  const auto fullest = std::ranges::max_element(peaks, {}, &Peak::train) - peaks.begin();
  const Peak& peak = peaks[std::size_t(fullest)];
  out.push_back({.name = "pass with gradients",
                 .kind = PhaseKind::Training,
                 .rows = job.recipe().rows(),
                 .resident = peak.trained_resident,
                 .tensors = peak.train + (peak.resident - peak.trained_resident),
                 .time = train,
                 .is_before_training = false});
  const std::vector<SidePhase> timed = average_phases(job);
  std::size_t next = 0;
  for (const SidePhase& phase : side_phases(job)) {
    const PhaseBytes bytes = bytes_of_phase(phase, std::size_t(fullest));
    out.push_back({.name = phase.name,
                   .kind = phase.is_old ? PhaseKind::OldLogProbs : PhaseKind::OtherPass,
                   .rows = phase.times * phase.job.recipe().rows(),
                   .resident = bytes.resident,
                   .tensors = waiting(peak, phase) + bytes.tensors,
                   .time = seconds_of(timed[next++], columns),
                   .is_before_training = phase.is_before_training});
  }
  if (generates(job.recipe())) {
    Seconds passes;
    for (const PhaseFigures& phase : std::span(out).subspan(1)) passes += phase.time.step;
    std::ranges::move(rollout_figures(job, peak, train.step, passes), std::back_inserter(out));
  }
  place_in_step(out);
  return out;
}

StepTime side_time(const Job& job, const StepColumns& columns, Seconds train) {
  StepTime sum;
  if (job.recipe().objective.method.is_usual()) return sum;
  for (const SidePhase& phase : average_phases(job))
    if (!phase.is_before_training) sum += seconds_of(phase, columns);
  if (generates(job.recipe()))
    for (const PhaseFigures& phase : rollout_figures(job, {}, train, sum.step)) {
      sum += phase.time;
      sum.step = sum.step - phase.beside;
    }
  return sum;
}

Seconds time_before_training(const Job& job, const StepColumns& columns) {
  Seconds sum;
  if (reference_of(job.recipe()) != Reference::Precomputed) return sum;
  for (const SidePhase& phase : average_phases(job))
    if (phase.is_before_training) sum += seconds_of(phase, columns).step;
  return sum;
}

DetailedPeak detailed_phases(const Job& job, const StepProgram& program, std::size_t rank_class, const Peak& peak) {
  const bool is_of_engine = peak.instant == PeakInstant::Generation;
  const bool is_of_other = peak.instant == PeakInstant::OtherModel;
  const std::int64_t num_layers = job.model.num_layers();
  const std::vector<SidePhase> phases = side_phases(job);
  const SidePhase* highest = nullptr;
  Bytes most;
  for (const SidePhase& phase : phases) {
    const Bytes bytes = waiting(peak, phase) + bytes_of_phase(phase, rank_class).tensors;
    if (phase.is_before_training || bytes <= most) continue;
    most = bytes, highest = &phase;
  }
  DetailedPeak out = replay_detailed(program, program.classes[rank_class], num_layers,
                                     is_of_engine        ? Moment::Start
                                     : !is_of_other      ? Moment::Peak
                                     : highest->in_graph ? Moment::Loss
                                                         : Moment::Start);
  const auto add = [&](const DetailedPeak::Item& item) {
    out.by_category[std::size_t(item.category)] += item.bytes;
    out.tensors += item.bytes;
    out.items.push_back(item);
  };
  for (const SidePhase& phase : phases)
    if (const PhaseBytes bytes = bytes_of_phase(phase, rank_class); bytes.resident.count > 0)
      add({phase.name + ": weights", bytes.resident, Category::Weights, 1});
  if (is_of_other) {
    StepProgram& side = side_program();
    build_at_once(side, *highest);
    const RankClass& c = side.classes[std::min(rank_class, side.classes.size() - 1)];
    DetailedPeak own = replay_detailed(side, c, highest->job.model.num_layers());
    const DetailedPeak start = replay_detailed(side, c, highest->job.model.num_layers(), Moment::Start);
    for (const DetailedPeak::Item& item : start.items) {
      const auto same = std::ranges::find(own.items, item.name, &DetailedPeak::Item::name);
      if (same != own.items.end()) same->bytes -= item.bytes;
    }
    for (DetailedPeak::Item& item : own.items)
      if (item.bytes.count != 0) add({highest->name + ": " + item.name, item.bytes, item.category, item.count});
  }
  if (generates(job.recipe()) && peak.tensors > out.tensors)
    add({"the engine that generates", peak.tensors - out.tensors, Category::Workspace, 1});
  std::ranges::stable_sort(out.items, std::greater{}, &DetailedPeak::Item::bytes);
  return out;
}

}  // namespace gpuplan

#include "planner/rollout_phases.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/cut_answers.h"
#include "models/quantisation.h"
#include "models/training_method.h"
#include "planner/comm_model.h"
#include "planner/peaks.h"
#include "planner/state_sizes.h"
#include "planner/step_batch.h"

namespace gpuplan {
namespace {

std::int64_t or_usual(std::int64_t given, std::int64_t usual) { return given > 0 ? given : usual; }

/// Bytes that a token's forward reads per weight of the trainer's own module: a quantised base is unpacked to 16 bit in
/// memory, written and read; fp32 weights under autocast are converted for each forward.
double bytes_per_own_weight(const Job& job) {
  const Recipe& recipe = job.recipe();
  constexpr double kWritten = 2, kRead = 2;
  if (recipe.quant.kind != BaseQuant::None) return double(recipe.quant.bits()) / 8 + kWritten + kRead;
  const Dtype stored = recipe.is_adapter() ? job.numerics.frozen : job.numerics.weight;
  const bool is_converted = stored == Dtype::F32 && job.numerics.compute != Dtype::F32;
  const bool is_sharded = job.rules.gathers();  // gathered in the compute dtype
  return is_sharded ? double(size_of(job.numerics.compute))
                    : double(size_of(stored)) + (is_converted ? kWritten + kRead : 0);
}

/// Says whether an engine, beside the trainer's own module, computes with the weights that are trained.
bool shares_weights(const JobRollout& r) {
  return r.convention->shares_weights && r.setup.place != EnginePlace::Server && !r.setup.engine->in_trainer;
}

/// All weights as compute uses them.
Bytes used_weights(const Job& job) {
  const StateSizes sizes = model_state(job.whole(), job.numerics, job.recipe(), job.rules);
  return sizes.trained_gathered + sizes.frozen_gathered;
}

/// Seconds in which the trainer's own module has its weights before it computes with them: shards come from the host
/// where they wait there, then from the other ranks.
struct Fetched {
  Seconds from_host, from_ranks;
  Seconds total() const { return from_host + from_ranks; }
};
Fetched weights_fetched(const Job& job) {
  if (!job.rules.gathers()) return {};
  const CommModel comm = make_comm_model(job.cluster(), job.profile, job.strategy.mesh);
  const Bytes bytes = used_weights(job);
  Fetched f{.from_ranks = comm.gather_time(Axis::DpShard, bytes, job.model.num_layers())};
  if (job.rules.keeps_weights_on_host && comm.host_link.value > 0)
    f.from_host = Bytes{ceil_div(bytes.count, job.rules.ways)} / comm.host_link;
  return f;
}

Bytes whole_weights(const Job& job, Dtype dtype) { return bytes_of(job.whole().parameters, dtype); }

/// New weights that are on the GPUs at once on their way to the engine, beside its own: a bucket, the largest
/// parameter, or, where adapters are merged into gathered weights, all of them.
Bytes gathered_for_sync(const Job& job, const JobRollout& r) {
  const bool is_sharded = job.rules.gathers();
  if (r.setup.engine->in_trainer || job.request.rollout.engine.syncs_adapter) return {};
  if (job.recipe().is_adapter() && is_sharded && r.convention->gathers_all_with_adapters)
    return Bytes{whole_weights(job, job.numerics.frozen).count / job.request.rollout.engine.sync_batches};
  if (r.convention->sync == WeightSync::Buckets) {
    const Bytes asked = job.request.rollout.engine.sync_bucket;
    return asked.count > 0 ? asked : r.convention->bucket;
  }
  std::int64_t largest = 0;
  job.whole().each_state([&](const StateList& list, std::int64_t) {
    for (const StateTensor& t : list) largest = std::max(largest, t.elements_per_parameter());
  });
  return bytes_of(largest, job.numerics.compute);
}

std::int64_t num_tensors(const TrainedModel& model) {
  std::int64_t count = 0;
  model.each_state([&](const StateList& list, std::int64_t n) { count += n * std::int64_t(list.size()); });
  return count;
}

}  // namespace

bool holds_part(const Mesh& mesh) {
  return std::ranges::any_of(std::array{Axis::Tp, Axis::Pp, Axis::Ep, Axis::Etp},
                             [&](Axis axis) { return mesh.ways(axis) > 1; });
}

namespace {

/// Tensors that ranks hold parts of are sent through the stages, then gathered over those that share layers or experts.
/// Source: volcengine/verl verl/utils/megatron_utils.py @b178a3cd per_tensor_generator; Megatron-Bridge's
/// export_hf_weights, which NVIDIA-NeMo/RL calls, does the same.
Seconds joining_time(const Job& job) {
  const Mesh& mesh = job.strategy.mesh;
  const CommModel comm = make_comm_model(job.cluster(), job.profile, mesh);
  const std::int64_t calls = num_tensors(job.whole());
  std::int64_t routed = 0;
  const ModelWeights& weights = job.whole().weights;
  for (const std::uint8_t kind : weights.order)
    for (const WeightTensor& t : weights.kinds[kind].tensors)
      if (t.is_routed) routed += t.elements();
  const std::int64_t others = job.whole().parameters - routed, tp = mesh.ways(Axis::Tp), ep = mesh.ways(Axis::Ep),
                     etp = mesh.ways(Axis::Etp);
  const std::int64_t cut = others / tp + routed / (ep * etp);  // of all stages, as one rank of each has it
  const Seconds between = mesh.ways(Axis::Pp) > 1 ? comm.send_time(Axis::Pp, bytes_of(cut, Dtype::BF16)) : Seconds{};
  return between + comm.gather_time(Axis::Tp, bytes_of(others, Dtype::BF16), calls) +
         comm.gather_time(Axis::Etp, bytes_of(routed / ep, Dtype::BF16), calls) +
         comm.gather_time(Axis::Ep, bytes_of(routed, Dtype::BF16), calls);
}

/// The whole model is gathered where ranks hold parts of it, copied to the engine, and sent where that has GPUs of its
/// own. Host work per parameter: a call of the engine, and of a gather where it is gathered.
Seconds sync_time(const Job& job, const JobRollout& r) {
  if (r.setup.engine->in_trainer || shares_weights(r)) return {};
  const ClusterSpec& cluster = job.cluster();
  const bool is_adapter = job.request.rollout.engine.syncs_adapter && job.recipe().is_adapter();
  const Bytes bytes =
      is_adapter ? bytes_of(job.whole().trainable, job.numerics.adapter) : whole_weights(job, Dtype::BF16);
  Seconds time;
  if (job.rules.gathers() && !is_adapter)
    time += make_comm_model(cluster, job.profile, job.strategy.mesh)
                .gather_time(Axis::DpShard, bytes, num_tensors(job.whole()));
  if (!is_adapter) time += joining_time(job);
  const BytesPerSec memory = job.profile.memory_efficiency * cluster.gpus.front().memory_bandwidth;
  time += Seconds{2 * double(bytes.count) / double(r.setup.tp) / memory.value};
  const GenerationEngine& engine = *r.setup.engine;
  const bool is_divided = job.rules.gathers() || holds_part(job.strategy.mesh);
  const Seconds call = engine.parameter_call + (is_divided ? engine.gathered_call : Seconds{});
  if (!is_adapter) time += double(num_tensors(job.whole())) * call;
  if (r.setup.place == EnginePlace::Server) {
    const bool is_inside = r.setup.num_gpus + job.strategy.mesh.world() <= cluster.gpus_per_node;
    const BytesPerSec link =
        is_inside || cluster.inter.bandwidth.value <= 0 ? cluster.intra.bandwidth : cluster.inter.bandwidth;
    if (link.value > 0) time += bytes / link;
  }
  return time;
}

/// Bytes of the trained model that wait on the host while an engine generates.
Bytes moved_to_host(const Peak& peak, const JobRollout& r) {
  const Bytes weights = std::min(peak.weights, peak.trained_resident);
  return (moves_weights(r.offloads) ? weights : Bytes{}) +
         (moves_states(r.offloads) ? peak.trained_resident - weights : Bytes{});
}

/// Gives the time in which what waits on the host goes there and back.
Seconds switch_time(const Job& job, const JobRollout& r, const Peak& peak) {
  if (r.setup.place == EnginePlace::Server || job.cluster().host_link.value <= 0) return {};
  return 2.0 * (moved_to_host(peak, r) / job.cluster().host_link);
}

/// Without what an engine holds through training.
Bytes trainer_while_generating(const Peak& peak, const JobRollout& r, Bytes held) {
  return r.offloads == TrainerOffload::Yes ? Bytes{} : peak.resident - held - moved_to_host(peak, r);
}

bool trains_critic(const Job& job) {
  return std::ranges::any_of(job.recipe().objective.method->passes, &SidePass::trains);
}

/// The trainer's own module as it generates: gathered whole (ds3_gather_for_generation of trl/trainer/grpo_config.py;
/// of FSDP where weights stay gathered after a forward), or the units that a forward of FSDP holds at one time, beside
/// a root that is gathered before (summon_full_params with recurse=False of trl/trainer/grpo_trainer.py @f2cd5771).
Bytes gathered_for_generation(const Job& job, const JobRollout& r) {
  if (!r.setup.engine->in_trainer || !job.rules.gathers()) return {};
  if (r.gathers_per_token) return gathered_weights(job);
  const Bytes policy = used_weights(job);
  if (!trains_critic(job) || !r.convention->critic_in_graph) return policy;
  // policy and critic are one module there (PolicyAndValueWrapper of trl/experimental/ppo/ppo_trainer.py)
  const auto& critic = job.request.critic;
  return policy + (critic ? bytes_of(list_weights(*critic).total_elements(), job.numerics.compute) : policy);
}

/// Counts the logits of every token that the trainer's own generate() keeps (output_scores of
/// trl/experimental/ppo/ppo_trainer.py), of the answers of one GPU.
Bytes kept_scores(const Job& job, const JobRollout& r) {
  if (!trains_critic(job) || !r.convention->keeps_scores || !r.setup.engine->in_trainer) return {};
  const std::int64_t rows = ceil_div(r.batch.sequences, r.setup.num_gpus);
  return bytes_of(rows * r.batch.max_completion * job.request.model.vocab_size, job.numerics.logits);
}

/// Moments of the engine, beside what trains (without what the engine holds through training).
struct EngineMoments {
  Bytes generating, syncing;
};
EngineMoments moments(const Job& job, const JobRollout& r, const Generation& g, const Peak& peak, Bytes held) {
  EngineMoments m;
  m.generating =
      trainer_while_generating(peak, r, held) + gathered_for_generation(job, r) + g.awake + kept_scores(job, r);
  // weights are back on the GPU while they are sent; states are not
  const Bytes states = moves_states(r.offloads) ? peak.weights : peak.resident - held;
  if (!r.setup.engine->in_trainer)
    m.syncing = states + (r.setup.sleeps ? g.weights + g.graphs : g.awake) + gathered_for_sync(job, r);
  return m;
}

/// An engine that computes with the trainer's weights holds none of its own; its share of the card counts them.
void leave_shared(Generation& g, const JobRollout& r) {
  if (!shares_weights(r)) return;
  const Bytes held = std::min(g.weights, g.awake);
  g.awake -= held;
  g.asleep = g.asleep > held ? g.asleep - (r.setup.sleeps ? Bytes{} : held) : g.asleep;
  g.weights = Bytes{};
}

Generation memory_of(const Job& job, const JobRollout& r) {
  Generation g = generation_memory(job.request.model, job.whole().weights, r.setup, r.batch, job.cluster());
  leave_shared(g, r);
  return g;
}

Bytes held_by_engine(const JobRollout& r, const Generation& g) {
  return r.setup.place == EnginePlace::Server || r.setup.engine->in_trainer ? Bytes{} : g.asleep;
}

StepTime seconds(Seconds time) { return {.step = time, .compute = time}; }

}  // namespace

JobRollout job_rollout(const Job& job) {
  const Rollout& asked = job.request.rollout;
  const EngineChoice& choice = asked.engine;
  JobRollout r;
  r.convention = rollout_convention(job.framework.name);
  GPUPLAN_CHECK(r.convention, "a trainer that generates has a row");
  const GenerationEngine& engine = choice.engine ? **choice.engine : *r.convention->engine;
  const bool is_usual = &engine == &*r.convention->engine || !r.convention->engine->in_trainer;
  EngineSetup& s = r.setup;
  s.engine = &engine;
  s.version = choice.version;
  s.place = engine_place(job.request);
  const bool is_server = s.place == EnginePlace::Server;
  const double usual = !is_server && r.convention->utilisation > 0 ? r.convention->utilisation : engine.utilisation;
  s.utilisation = choice.utilisation.value_or(usual);
  s.sleeps = !is_server && engine.can_sleep && choice.sleeps.value_or(r.convention->sleeps);
  s.tp = engine.in_trainer ? 1 : or_usual(choice.tp, is_usual && !is_server ? r.convention->tp : 1);
  const std::int64_t world = job.strategy.mesh.world();
  s.num_gpus = is_server ? or_usual(choice.gpus, world) : world;
  while (choice.tp == 0 && s.tp > 1 && !why_no_engine(job.request.model, s).empty()) --s.tp;  // the usual, as it can be
  s.max_batched_tokens = r.convention->max_batched_tokens;
  const Recipe& recipe = job.recipe();
  GenerationBatch& b = r.batch;
  b.generations = or_usual(asked.generations, usual_generations(recipe));
  b.prompt_len = or_usual(asked.prompt_len, std::max<std::int64_t>(1, recipe.seq_len - asked.max_completion));
  b.mean_prompt = asked.mean_prompt;
  b.mean_completion = asked.mean_completion;
  b.max_completion = or_usual(asked.max_completion, std::max<std::int64_t>(1, recipe.seq_len - b.prompt_len));
  const std::int64_t of_step = recipe.rows() * recipe.grad_accum * job.strategy.mesh.batch_replicas();
  const std::int64_t updates = asked.sequences > 0 ? steps_of_generation(asked.sequences, of_step) : asked.updates;
  // steps may be counted in more whole micro batches than the answers that they are of
  const bool are_counted =
      asked.sequences > 0 && std::llabs(of_step * updates - asked.sequences) * 10 < asked.sequences;
  b.sequences = are_counted ? asked.sequences : of_step * updates;
  s.context = choice.context;
  s.max_sequences = choice.max_sequences > 0                         ? choice.max_sequences
                    : r.convention->max_sequences > 0                ? r.convention->max_sequences
                    : r.convention->engine->in_trainer && !is_server ? ceil_div(b.sequences, s.num_engines())
                                                                     : 0;
  if (engine.in_trainer) {
    s.bytes_per_weight = bytes_per_own_weight(job);
    r.gathers_per_token =
        job.rules.gathers() && is_fsdp(job.strategy.engine) && job.strategy.layout.reshards_after_forward;
    s.num_gpus = job.strategy.mesh.batch_replicas();
  }
  if (shares_weights(r)) {  // a quantised base stays so, and each layer of it is unpacked for its products
    const StateSizes sizes = model_state(job.whole(), job.numerics, recipe, job.rules);
    s.bytes_per_weight = bytes_per_own_weight(job);
    s.trained_weights = sizes.trained + sizes.frozen;
  }
  const bool moves_both = r.convention->offloads_weights && r.convention->offloads_states;
  if (!is_server) r.offloads = choice.offloads.value_or(moves_both ? TrainerOffload::Yes : TrainerOffload::No);
  r.steps = double(updates * asked.iterations);
  return r;
}

void settle_rows(EstimateRequest& r, StatedRows stated) {
  Recipe& recipe = r.recipe;
  Rollout& rollout = r.rollout;
  const RolloutConvention* const convention = rollout_convention(recipe.framework->name);
  GPUPLAN_CHECK(convention, "a trainer that generates has a row");
  const UsualLengths& usual = usual_lengths();
  const auto rest = [&](std::int64_t other) { return std::max<std::int64_t>(1, recipe.seq_len - other); };
  if (rollout.max_completion == 0)
    rollout.max_completion = !stated.seq_len          ? usual.completion
                             : rollout.prompt_len > 0 ? rest(rollout.prompt_len)
                                                      : std::max<std::int64_t>(1, recipe.seq_len / 2);
  if (rollout.prompt_len == 0) rollout.prompt_len = stated.seq_len ? rest(rollout.max_completion) : usual.prompt;
  const GenerationEngine& engine = rollout.engine.engine ? **rollout.engine.engine : *convention->engine;
  if (!engine.in_trainer)
    cut_answers(rollout.engine.context, rollout.prompt_len, rollout.mean_completion, rollout.max_completion);
  recipe.seq_len = rollout.prompt_len + rollout.max_completion;
  recipe.objective.completion_len = rollout.max_completion;
  const std::int64_t mean = rollout.mean_completion > 0 ? rollout.mean_completion : rollout.max_completion;
  r.dataset.tokens_per_row = (rollout.mean_prompt > 0 ? rollout.mean_prompt : rollout.prompt_len) + mean;
  if (!stated.packing) recipe.packing = convention->unpads ? Packing::Dynamic : Packing::Padded;
  const bool is_open = !stated.loss && recipe.loss == LossKernel::Plain;  // else a trainer's file says it
  if (convention->loss && is_open) recipe.loss = recipe.framework->defaults.loss.value_or(*convention->loss);
}

std::int64_t answers_of_row(const EstimateRequest& r) {
  return generates(r.recipe) ? or_usual(r.rollout.generations, usual_generations(r.recipe)) : 1;
}

namespace {

/// The methods of a trainer that compare the answers to a prompt, with one of them.
bool has_lone_answers(const EstimateRequest& r) {
  const RolloutConvention* const convention = rollout_convention(r.recipe.framework->name);
  return generates(r.recipe) && convention && answers_of_row(r) == 1 &&
         std::ranges::count(convention->groups, r.recipe.objective.method->name) > 0;
}

constexpr std::string_view kRefused = "refused";

/// Steps of these may be on answers of the data. The teacher of one without passes is served by another program.
bool is_distillation(const TrainingMethod& method) { return method.distils || method.passes.empty(); }

/// Says why the trainer refuses one answer to a prompt; empty: it does not.
std::string why_not_alone(const EstimateRequest& r) {
  if (!has_lone_answers(r) || rollout_convention(r.recipe.framework->name)->one_answer != kRefused) return {};
  return fmt::format("{} compares the answers to a prompt, and {} refuses one alone", r.recipe.objective.method->name,
                     r.recipe.framework->name);
}

/// Refuses what is stated of an engine and cannot be with these GPUs or this model, whatever the strategy.
void check_engine(const EstimateRequest& r) {
  const EngineChoice& choice = r.rollout.engine;
  const RolloutConvention* const convention = rollout_convention(r.recipe.framework->name);
  if (!convention) return;
  if (choice.sync_bucket.count > 0 && convention->sync != WeightSync::Buckets)
    throw InputError("--rollout-engine",
                     fmt::format("{} sends weights to an engine one by one, not in buckets", r.recipe.framework->name),
                     "leave bucket out");
  const bool is_in_trainer = (choice.engine ? **choice.engine : *convention->engine).in_trainer;
  if (choice.place && !is_in_trainer && std::ranges::count(convention->places, *choice.place) == 0)
    throw InputError(
        "--rollout-engine",
        fmt::format("engines of {} {}", r.recipe.framework->name,
                    *choice.place == EnginePlace::Server ? "share the GPUs that train" : "have GPUs of their own"),
        *choice.place == EnginePlace::Server ? "for example vllm:colocate" : "for example vllm:server");
  EngineSetup s;
  s.engine = choice.engine ? &**choice.engine : &*convention->engine;
  if (std::string why = why_not_started(*convention, *s.engine, r.recipe.objective.method->name);
      !why.empty() && choice.engine)
    throw InputError("--rollout-engine", std::move(why),
                     std::ranges::count(convention->writes_itself, r.recipe.objective.method->name) > 0
                         ? "leave it out"
                         : fmt::format("{}", fmt::join(convention->engines, " or ")));
  const std::int64_t all = r.cluster.num_gpus();
  s.num_gpus = engine_place(r) == EnginePlace::Server ? or_usual(choice.gpus, all) : all;
  s.tp = std::max<std::int64_t>(1, choice.tp);
  s.context = choice.context;
  std::string why = why_no_engine(r.model, s);
  if (why.empty()) return;
  const std::int64_t context = std::exchange(s.context, 0);
  if (why_no_engine(r.model, s).empty())
    throw InputError("--rollout-engine", std::move(why),
                     fmt::format("context={}, or a model that reads {} tokens", context_of(r.model, *s.engine),
                                 format_grouped(context)));
  for (--s.tp; s.tp > 1 && !why_no_engine(r.model, s).empty();) --s.tp;
  throw InputError("--rollout-engine", std::move(why), fmt::format("for example {}:tp={}", s.engine->name, s.tp));
}

}  // namespace

bool has_whole_prompts(const EstimateRequest& r) {
  if (!generates(r.recipe) || r.rollout.sequences > 0) return true;
  const std::int64_t at_once = r.recipe.rows() * r.recipe.grad_accum * batch_replicas(r) * r.rollout.updates;
  return at_once % answers_of_row(r) == 0;
}

void check_answers(const EstimateRequest& r) {
  const Recipe& recipe = r.recipe;
  if (!generates(recipe)) return;
  const TrainingMethod& method = *recipe.objective.method;
  if (r.rollout.share < 1 && !is_distillation(method))
    throw InputError("--student-share",
                     fmt::format("every step of {} is on answers that the model writes", method.name), "leave it out");
  if (std::string lone = why_not_alone(r); !lone.empty())
    throw InputError("--generations", std::move(lone), "for example --generations 8");
  check_engine(r);
  const std::int64_t generations = or_usual(r.rollout.generations, usual_generations(recipe));
  const std::int64_t one_pass = recipe.rows() * batch_replicas(r) * r.rollout.updates;
  const std::int64_t at_once = one_pass * recipe.grad_accum;
  if (has_whole_prompts(r)) return;
  throw InputError(
      "--generations",
      fmt::format("{} answers to a prompt do not divide the {} that are generated at once (micro batch {} x "
                  "{} passes x {} GPUs{})",
                  generations, format_grouped(at_once), recipe.rows(), recipe.grad_accum, batch_replicas(r),
                  r.rollout.updates > 1 ? fmt::format(" x {} updates", r.rollout.updates) : ""),
      fmt::format("for example --grad-accum {}", generations / std::gcd(generations, one_pass)));
}

namespace {

/// Says what becomes of answers that the model reads no further, and of one answer to a prompt; empty: nothing.
std::string limits_of_answers(const Job& job, const JobRollout& r) {
  std::string out;
  const std::int64_t most = context_of(job.request.model, *r.setup.engine);
  if (!r.setup.engine->in_trainer && most > 0 && r.batch.longest() > most)
    out += fmt::format("; {} reads {} tokens, at which answers end", job.request.model.name, format_grouped(most));
  if (has_lone_answers(job.request) && !r.convention->one_answer.empty())
    out += "; one answer to a prompt: " + r.convention->one_answer;
  return out;
}

}  // namespace

std::string rollout_assumption(const Job& job) {
  const JobRollout r = job_rollout(job);
  const bool is_server = r.setup.place == EnginePlace::Server;
  const double share = job.request.rollout.share;
  const std::string place =
      r.setup.engine->in_trainer ? "in the trainer"
      : is_server                ? fmt::format("on {} GPUs of its own{}", r.setup.num_gpus,
                                writes_ahead(job.request) ? ", the next ones while these train" : "")
                  : fmt::format("on the GPUs that train, with {:.0f} % of each, {}", 100 * r.setup.utilisation,
                                r.setup.sleeps ? "asleep while they train" : "always awake");
  return fmt::format(
      "generation (--rollout-engine): {} answers at once, {} to a prompt of {} tokens, {}, by {} {}{}{}; {:.0f} % of a "
      "step for "
      "rewards, moving data and waiting{}",
      format_grouped(r.batch.sequences), r.batch.generations, format_grouped(r.batch.usual_prompt()),
      r.batch.mean_completion > 0
          ? fmt::format("{} tokens on average and at most {}", format_grouped(r.batch.mean_completion),
                        format_grouped(r.batch.max_completion))
          : fmt::format("each of {} tokens", format_grouped(r.batch.max_completion)),
      r.setup.engine->title, place, r.setup.tp > 1 ? fmt::format(", {} GPUs per engine", r.setup.tp) : "",
      share < 1 ? fmt::format(", in {:.3g} % of the steps (--student-share)", 100 * share) : "",
      100 * r.convention->overhead / (1 + r.convention->overhead), limits_of_answers(job, r));
}

std::string rollout_refusal(const Job& job) {
  if (std::string lone = why_not_alone(job.request); !lone.empty()) return lone;
  const JobRollout r = job_rollout(job);
  if (r.setup.place == EnginePlace::Colocate && !r.setup.engine->in_trainer && job.strategy.takes_turns())
    return fmt::format(
        "an engine of {} beside training has the GPU of its process, and {} is one process with all GPUs",
        r.setup.engine->title, job.strategy.name);
  if (std::ranges::find(r.convention->places, r.setup.place) == r.convention->places.end())
    return fmt::format("engines of {} {}", job.framework.name,
                       r.setup.place == EnginePlace::Server ? "share the GPUs that train"
                                                            : "have GPUs of their own: --rollout-engine vllm:server");
  const std::int64_t asked = job.request.rollout.sequences;  // micro batches of so many tokens hold about as many
  const std::int64_t of_step = r.batch.sequences;
  if ((asked > 0 ? asked : of_step) % r.batch.generations != 0)
    return fmt::format(
        "{} answers are generated at once ({} x {} x {} GPUs{}), which {} answers to a prompt do not divide", of_step,
        job.recipe().rows(), job.recipe().grad_accum, job.strategy.mesh.batch_replicas(),
        r.steps > 1 ? fmt::format(", for {:.0f} optimizer steps", r.steps) : "", r.batch.generations);
  return memory_of(job, r).refusal;
}

void add_rollout(Peak& peak, const Job& job) {
  const JobRollout r = job_rollout(job);
  const Generation g = memory_of(job, r);
  const Bytes held = held_by_engine(r, g);
  for (Bytes* figure :
       {&peak.tensors, &peak.step, &peak.resident, &peak.pools, &peak.joined_pools, &peak.joined_step, &peak.at_loss})
    *figure += held;
  if (r.setup.place == EnginePlace::Server) return;
  const EngineMoments m = moments(job, r, g, peak, held);
  const Bytes most = std::max(m.generating, m.syncing);
  peak.pools = std::max(peak.pools, most);
  peak.joined_pools = std::max(peak.joined_pools, most);
  if (most <= peak.tensors) return;
  peak.tensors = peak.step = most;
  peak.instant = PeakInstant::Generation;
}

std::vector<PhaseFigures> rollout_figures(const Job& job, const Peak& peak, Seconds train, Seconds passes) {
  const JobRollout r = job_rollout(job);
  const Rollout& asked = job.request.rollout;
  const Fetched fetched = r.setup.engine->in_trainer ? weights_fetched(job) : Fetched{};
  const Seconds beside_token = r.gathers_per_token ? fetched.total() : Seconds{};
  const Seconds before = r.gathers_per_token ? Seconds{} : fetched.total();
  const auto bound = [&](const Generation& g) {
    const bool is_fetching = r.gathers_per_token ? g.bound == GenerationBound::Links : before > g.total;
    return is_fetching && fetched.from_host > fetched.from_ranks
               ? std::string("host link")
               : std::string(to_string(is_fetching ? GenerationBound::Links : g.bound));
  };
  Generation g =
      generate(job.request.model, job.whole().weights, r.setup, r.batch, job.cluster(), job.profile, beside_token);
  leave_shared(g, r);
  const Bytes held = held_by_engine(r, g);
  const EngineMoments m = moments(job, r, g, peak, held);
  const bool is_server = r.setup.place == EnginePlace::Server;
  std::vector<PhaseFigures> out;
  Seconds sum = train + passes;
  const auto add = [&](PhaseFigures phase) {
    sum += phase.time.step - phase.beside;
    out.push_back(std::move(phase));
  };
  const double per = asked.share / r.steps;  // generations of an optimizer step, on average
  const Seconds per_step = per * (before + g.total);
  const std::string often = asked.share < 1 ? fmt::format(" in {:.3g} % of the steps", 100 * asked.share) : "";
  add({.name = fmt::format("generation by {}{}", r.setup.engine->title, often),
       .kind = PhaseKind::Generation,
       .rows = std::int64_t(g.sequences),
       .resident = is_server ? Bytes{} : held,
       .tensors = is_server ? g.awake : m.generating,
       .time = seconds(per_step),
       .beside = writes_ahead(job.request) ? std::min(per_step, train + passes) : Seconds{},
       .bound = bound(g)});
  if (const std::int64_t baselines = job.recipe().objective.method->baselines; baselines > 0) {
    GenerationBatch batch = r.batch;
    batch.sequences = ceil_div(batch.sequences, batch.generations) * baselines;
    batch.generations = baselines;
    const Generation apart =
        generate(job.request.model, job.whole().weights, r.setup, batch, job.cluster(), job.profile, beside_token);
    add({.name = "generation of answers that are only scored",
         .kind = PhaseKind::Generation,
         .rows = std::int64_t(apart.sequences),
         .tensors = is_server ? g.awake : m.generating,
         .time = seconds(per * (before + apart.total)),
         .bound = bound(apart)});
  }
  if (asked.reward.value > 0)
    add({.name = "rewards",
         .kind = PhaseKind::Rewards,
         .tensors = peak.resident,
         .time = seconds(per * asked.reward),
         .bound = "as stated"});
  if (const Seconds sync = sync_time(job, r); sync.value > 0)
    add({.name = "weight sync",
         .kind = PhaseKind::WeightSync,
         .tensors = is_server ? peak.resident + gathered_for_sync(job, r) : m.syncing,
         .time = seconds(per * sync),
         .bound = "communication"});
  if (const Seconds moved = switch_time(job, r, peak); moved.value > 0)
    add({.name = "weights and states to the host and back",
         .kind = PhaseKind::Switch,
         .tensors = peak.resident,
         .time = seconds(per * moved),
         .bound = "host link"});
  if (r.convention->overhead > 0)
    add({.name = "waiting between phases",
         .kind = PhaseKind::Rest,
         .tensors = peak.resident,
         .time = seconds(r.convention->overhead * sum),
         .bound = "assumed share"});
  return out;
}

}  // namespace gpuplan

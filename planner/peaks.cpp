#include "planner/peaks.h"

#include <algorithm>

#include "models/optimizers.h"
#include "models/quantisation.h"
#include "models/training_method.h"
#include "planner/block.h"

namespace gpuplan {
namespace {

/// The recipe as evaluation has it: no activation is kept for a backward.
Recipe forward_only(const Job& job) {
  Recipe recipe = job.recipe();
  recipe.checkpointing = Checkpointing::Full;
  recipe.micro_batch = eval_batch(job.request);
  return recipe;
}

/// A layer's highest rise in a forward, with the input that the program holds for it. `built`: of the job.
Bytes layer_activations(const Job& job, const ModelBlocks& built) {
  static thread_local ModelBlocks own;
  const Recipe recipe = forward_only(job);
  const bool is_trained_so = recipe == job.recipe();
  if (!is_trained_so) make_blocks(own, job, recipe);
  const ModelBlocks& blocks = is_trained_so ? built : own;
  std::int64_t most = 0;
  for (const KindBlocks& kind : blocks.kinds)
    for (const LayerBlocks* variant : {&kind.full, &kind.windowed})
      for (const BlockId id : {variant->forward, variant->forward_drop})
        if (id != kNoBlock) most = std::max(most, blocks.blocks[id].total.peak);
  return Bytes{most} + bytes_of(recipe.tokens() * job.model.spec.stream_width(), job.numerics.residual);
}

}  // namespace

Bytes gathered_weights(const Job& job) {
  if (!job.rules.gathers()) return {};
  const auto gathered = [&](const StateList& list) {
    const StateSizes z = state_sizes(list, job.numerics, job.recipe(), job.rules);
    return z.trained_gathered + z.frozen_gathered;
  };
  Bytes layer;
  for (const StateList& list : job.model.layers) layer = std::max(layer, gathered(list));
  const Bytes ends = gathered(job.model.before) + gathered(job.model.after);
  return (1 + job.engine().prefetch_units) * layer + (job.engine().keeps_root_gathered ? ends : Bytes{});
}

namespace {

/// The logits of an evaluation batch on their way to the loss: in the compute dtype, in fp32, and their log-softmax.
Bytes loss_of_evaluation(const Job& job) {
  const Recipe& recipe = job.recipe();
  const bool is_spared = recipe.loss == LossKernel::Fused && job.framework.loss.fused_evaluates;
  if (is_spared || has_own_head(recipe)) return {};
  const std::int64_t logits =
      eval_batch(job.request) * recipe.objective.answers() * recipe.seq_len * job.model.spec.vocab_size;
  const Bytes all = bytes_of(logits, job.numerics.compute) + 2 * bytes_of(logits, Dtype::F32);
  return recipe.loss == LossKernel::Chunked ? Bytes{all.count / std::max<std::int64_t>(1, recipe.loss_chunks)} : all;
}

/// The largest weight of a layer takes this while it is unpacked.
Bytes unpacking_bytes(const TrainedModel& model) {
  std::int64_t most = 0;
  for (const StateList& list : model.layers)
    for (const StateTensor& t : list) most = std::max(most, t.elements_per_parameter());
  return model.spec.unpacking.bytes_of(most);
}

/// Embedding and head while they are in fp32, beside a base of bitsandbytes whose trainer then turns them back.
Bytes prepared_ends(const Job& job) {
  const BaseQuant base = job.recipe().quant.kind;
  if (!job.framework.dtypes.quantised_upcast.takes_back || !format_of(base).is_bitsandbytes) return {};
  std::int64_t elements = 0;
  for (const StateList* list : {&job.model.before, &job.model.after})
    for (const StateTensor& t : *list)
      if (t.kind == StateKind::FrozenEnd) elements += t.elements();
  return bytes_of(elements, Dtype::F32) - bytes_of(elements, job.numerics.ends);
}

/// The largest parameter of a layer that is quantised, or any, in 16 bit.
Bytes largest_converted(const TrainedModel& model, bool is_quantised) {
  std::int64_t most = 0;
  for (const StateList& list : model.layers)
    for (const StateTensor& t : list)
      if (!is_quantised || t.kind == StateKind::Quantised) most = std::max(most, t.elements_per_parameter());
  return bytes_of(most, Dtype::BF16);
}

}  // namespace

std::int64_t eval_batch(const EstimateRequest& r) { return r.eval_batch > 0 ? r.eval_batch : r.recipe.micro_batch; }

Bytes generation_cache(const EstimateRequest& r, const ModelSpec& model) {
  const std::int64_t tokens = r.eval_generate > 0 ? eval_batch(r) * (r.recipe.seq_len + r.eval_generate) : 0;
  return tokens * kv_bytes_per_token(model) + (tokens > 0 ? eval_batch(r) * state_bytes_per_sequence(model) : Bytes{});
}

Bytes kv_bytes_per_token(const ModelSpec& model) {
  const std::int64_t making = model.num_layers_with(attends) - model.num_shared_kv_layers,
                     windowed = model.global.is_present() ? std::min(model.sliding_layers, making) : making;
  const ModelSpec global = global_of(model);
  return bytes_of(windowed * (model.kv_width() + model.value_width()) +
                      (making - windowed) * (global.kv_width() + global.value_width()),
                  Dtype::BF16);
}

Bytes state_bytes_per_sequence(const ModelSpec& model) {
  Bytes bytes;
  const auto add = [&](std::int64_t layers, std::int64_t state, std::int64_t convolved) {
    bytes += layers * (bytes_of(state, Dtype::F32) + bytes_of(convolved, Dtype::BF16));
  };
  const Mamba2Spec& m = model.mamba2;
  const DeltaNetSpec& d = model.delta_net;
  add(model.num_layers_with(has_mamba1), model.mamba1.state_elements(),
      model.mamba1.inner_width * model.mamba1.conv_kernel);
  add(model.num_layers_with(has_mamba2), m.state_elements(), m.conv_channels() * m.conv_kernel);
  add(model.num_layers_with(has_short_convolution), 0, model.hidden_size * model.short_convolution.kernel);
  add(model.num_layers_with(has_delta_net), d.state_elements(), d.conv_channels() * d.conv_kernel);
  return bytes;
}

bool is_evaluated(const EstimateRequest& r) {
  return r.eval_batch > 0 || r.eval_logits != EvalLogits::None || r.eval_generate > 0;
}

Bytes kept_logits(const Job& job) {
  const Bytes of_token = bytes_of(job.model.spec.vocab_size, Dtype::F32);
  return eval_batch(job.request) * job.recipe().objective.answers() *
         (job.recipe().seq_len * (job.strategy.mesh.batch_replicas() * of_token));
}

Bytes evaluated_logits(const Job& job) {
  const Bytes kept = kept_logits(job);
  // what was kept before and its concatenation with a new batch exist together
  return loss_of_evaluation(job) + (job.request.eval_logits == EvalLogits::Last   ? kept
                                    : job.request.eval_logits == EvalLogits::Kept ? 2 * kept
                                                                                  : Bytes{});
}

EvaluationNeeds evaluation_needs(const Job& job, const StepProgram& program) {
  // generation comes before the loss; it needs the logits of one token
  const Bytes generation = job.request.eval_generate > 0
                               ? generation_cache(job.request, job.model.spec) +
                                     bytes_of(eval_batch(job.request) * job.model.spec.vocab_size, Dtype::F32)
                               : Bytes{};
  return {.gathered = gathered_weights(job),
          .activations = layer_activations(job, *program.made),
          .logits = evaluated_logits(job),
          .generation = generation};
}

Bytes evaluation_tensors(const Job& job, const EvaluationNeeds& needs, const StepProgram& program,
                         const RankClass& rank_class, const Peak& step) {
  const bool has_head = program.programs[rank_class.program].last_unit == job.model.num_layers() + 1;
  const Bytes head = has_head ? needs.logits : Bytes{};
  return step.resident + needs.gathered + std::max({needs.activations, head, needs.generation});
}

namespace {

/// Weights of a list as they are stored, whole.
Bytes stored_whole(const Job& job, const StateList& list) {
  const StateSizes z = state_sizes(list, job.numerics, job.recipe(), {});
  return z.trained + z.frozen;
}

Bytes largest_unit(const Job& job) {
  Bytes most;
  for (const StateList& list : job.model.layers) most = std::max(most, stored_whole(job, list));
  const Bytes before = stored_whole(job, job.model.before), after = stored_whole(job, job.model.after);
  return std::max(most, job.engine().keeps_root_gathered ? before + after : std::max(before, after));
}

Bytes largest_parameter(const Job& job) {
  Bytes most;
  job.model.each_state([&](const StateList& list, std::int64_t) {
    for (const StateTensor& t : list)
      most = std::max(most, weight_bytes(t, t.elements_per_parameter(), job.numerics, job.recipe().quant));
  });
  return most;
}

/// A tensor in 16 bit before it is quantised, one that is unpacked, or ends in fp32 for a moment.
LoadingNeeds conversion_needs(const Job& job) {
  const bool is_quantised_here = job.recipe().quant.kind != BaseQuant::None && !job.model.spec.checkpoint.is_present();
  const Bytes unpacking = unpacking_bytes(job.model);
  const Bytes quantised = is_quantised_here ? largest_converted(job.model, true) : Bytes{};
  const Bytes unpacked = unpacking.count > 0 ? largest_converted(job.model, false) : Bytes{};
  return {.beside = std::max(quantised, prepared_ends(job)) + unpacking,
          .alone = std::max(quantised, unpacked + unpacking),
          .spare = job.model.spec.unpacking.moves_to_host ? unpacking : Bytes{}};
}

/// Sharded weights are converted on the way to the host, tensor by tensor. Sources: quantised weights under FSDP and
/// ZeRO-3 in _load_state_dict_into_meta_model of transformers/modeling_utils.py @v4.57.6; `module.to` in
/// _configure_distributed_model of deepspeed/runtime/engine.py; _load_raw_module_state of
/// lightning/fabric/strategies/fsdp.py (summon_full_params).
LoadingNeeds loading_needs(const Job& job) {
  LoadingNeeds needs = conversion_needs(job);
  if (!job.rules.gathers()) return needs;
  const auto whole = [&] {
    const StateSizes z = model_state(job.model, job.numerics, job.recipe(), {});
    return z.trained + z.frozen;
  };
  needs.beside = {};
  switch (job.engine().loading) {
    case ShardedLoading::Parts: break;
    case ShardedLoading::Units: needs.beside = gathered_at_once(job); break;
    case ShardedLoading::WholeFirst: needs.alone = std::max(needs.alone, whole()); break;
    case ShardedLoading::WholeBeside: needs.beside = whole(); break;
  }
  return needs;
}

}  // namespace

Bytes gathered_at_once(const Job& job) {
  if (!job.rules.gathers() || job.engine().loading == ShardedLoading::Parts) return {};
  return job.engine().gathers_parameters ? largest_parameter(job) : largest_unit(job);
}

PhaseNeeds phase_needs(const Job& job) {
  return {.loading = loading_needs(job), .evaluation = {}, .gathered_to_save = gathered_at_once(job)};
}

std::vector<PhasePeak> phase_peaks(const Job& job, const PhaseNeeds& needs, const StepProgram& program,
                                   const RankClass& rank_class, const Peak& step) {
  const LoadingNeeds& loading = needs.loading;
  std::vector<PhasePeak> phases{{.phase = PeakInstant::Loading,
                                 .tensors = std::max(loading.alone, step.weights + loading.beside),
                                 .spare = loading.spare}};
  if (needs.evaluation)
    phases.push_back({.phase = PeakInstant::Evaluation,
                      .tensors = evaluation_tensors(job, *needs.evaluation, program, rank_class, step),
                      .spare = {},
                      .counts = is_evaluated(job.request)});
  phases.push_back({.phase = PeakInstant::Saving, .tensors = step.resident + needs.gathered_to_save, .spare = {}});
  return phases;
}

}  // namespace gpuplan

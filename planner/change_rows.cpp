// The rows of the table of changes: how each value is applied to a request, and when it is worth suggesting or trying.
#include "planner/changes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "cluster/cluster_spec.h"
#include "models/ledger.h"
#include "models/optimizers.h"
#include "models/rank_model.h"
#include "models/recipe_names.h"
#include "models/stack.h"
#include "models/training_method.h"
#include "planner/engine_changes.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "planner/machine_changes.h"
#include "planner/peaks.h"
#include "planner/step_batch.h"

namespace gpuplan {
namespace {

using Request = const EstimateRequest&;

// --- how values are applied ------------------------------------------------------------------------------------------

template <std::int64_t Recipe::*Field>
void set_count(Variant& v, const Setting& s) {
  v.request.recipe.*Field = parse_integer(s.value, s.change->name, 1);
}

template <class Enum, Enum Recipe::*Field>
void set_choice(Variant& v, const Setting& s) {
  v.request.recipe.*Field = parse_name<Enum>(s.value, s.change->name);
}

bool is_on(const Setting& s) {
  if (s.value == "on" || s.value == "yes") return true;
  if (s.value == "off" || s.value == "no") return false;
  throw InputError(kWhatIf, fmt::format("{}: '{}' is neither on nor off", s.change->name, s.value), "on or off");
}

/// PEFT's preparation of a quantised base decides how to checkpoint where nobody said it.
void set_usual_checkpointing(EstimateRequest& request, bool was_quantised) {
  Recipe& r = request.recipe;
  const FrameworkDefaults& d = r.framework->defaults;
  const bool is_quantised = r.quant.kind != BaseQuant::None;
  if (!request.not_given.contains("checkpointing") || is_quantised == was_quantised || !d.quantised_checkpointing)
    return;
  r.checkpointing = is_quantised ? *d.quantised_checkpointing : d.checkpointing.value_or(Checkpointing::None);
  if (r.checkpointing == Checkpointing::None) r.offload.activations = false;
}

/// Behind a rank: the base is loaded in 16 bit, where the trainer would load it in fp32.
constexpr std::string_view kBaseIn16Bit = ",base=bf16";

void set_method(Variant& v, const Setting& s, Method method, BaseQuant base) {
  Recipe& r = v.request.recipe;
  const bool was_quantised = r.quant.kind != BaseQuant::None;
  const bool keeps_base = v.request.model.checkpoint.is_present();
  std::string rank = s.value.starts_with("r=") ? s.value.substr(2) : s.value;
  if (const std::size_t at = rank.find(kBaseIn16Bit); at != std::string::npos) {
    r.lora.base_dtype = Dtype::BF16;
    rank.resize(at);
  }
  const std::int64_t before = r.lora.rank;
  r.lora.rank = parse_integer(rank, s.change->name, 1, kMostRank);
  if (r.lora.rank != before) r.lora.alpha = 2 * double(r.lora.rank);
  r.method = method;
  if (!keeps_base) r.quant.kind = base;
  if (base != BaseQuant::None && r.precision == Precision::Fp32) r.precision = Precision::Bf16Mixed;
  settle_reference(r);
  set_usual_checkpointing(v.request, was_quantised);
}

void set_lora(Variant& v, const Setting& s) { set_method(v, s, Method::Lora, BaseQuant::None); }
void set_qlora(Variant& v, const Setting& s) { set_method(v, s, Method::Qlora, BaseQuant::Nf4); }

void set_full(Variant& v, const Setting& s) {
  if (!is_on(s)) throw InputError(kWhatIf, "full=off does not say what is trained instead", "lora=r=8 or qlora=r=8");
  const bool was_quantised = v.request.recipe.quant.kind != BaseQuant::None;
  v.request.recipe.method = Method::Full;
  v.request.recipe.quant.kind = BaseQuant::None;
  settle_reference(v.request.recipe);
  set_usual_checkpointing(v.request, was_quantised);
}

void set_checkpointing(Variant& v, const Setting& s) {
  const CheckpointingChoice choice = parse_checkpointing_choice(s.value, s.change->name);
  v.request.recipe.checkpointing = choice.kind;
  v.request.recipe.checkpoint_every = choice.every;
}

/// A list inside of a list: "optimizer+params" is --offload optimizer,params.
void set_offload(Variant& v, const Setting& s) {
  std::string list = s.value;
  std::replace(list.begin(), list.end(), '+', ',');
  v.request.recipe.offload = parse_offload_list(list);
}

void set_optimizer(Variant& v, const Setting& s) { v.request.recipe.optimizer = s.value; }

void set_in_backward(Variant& v, const Setting& s) { v.request.recipe.optimizer_in_backward = is_on(s); }

void set_fsdp_version(Variant& v, const Setting& s) {
  v.request.options.fsdp_version = narrow<int>(parse_integer(s.value, s.change->name, 1, 2));
}

void set_eval_batch(Variant& v, const Setting& s) {
  v.request.eval_batch = parse_integer(s.value, s.change->name, 1, kMostMicroBatch);
}
void set_eval_logits(Variant& v, const Setting& s) {
  v.request.eval_logits = parse_name<EvalLogits>(s.value, s.change->name);
}

void set_eval_generate(Variant& v, const Setting& s) {
  v.request.eval_generate = parse_integer(s.value, s.change->name, 0);
}

void set_reference(Variant& v, const Setting& s) {
  v.request.recipe.objective.reference = parse_name<Reference>(s.value, s.change->name);
}

/// On as many GPUs in all, and as many answers a step where nobody gave the passes of a rank.
void set_engine(Variant& v, const Setting& s) {
  EstimateRequest& r = v.request;
  const std::int64_t in_all = num_gpus_in_all(r), passes = r.recipe.grad_accum * r.cluster.num_gpus();
  r.rollout.engine = parse_engine(s.value);
  if (in_all == 0) return;
  divide_gpus(r, in_all);
  const std::int64_t that_train = r.cluster.num_gpus();
  const bool may_change = r.not_given.rows.empty() || r.not_given.contains("grad-accum");
  if (may_change && passes % that_train == 0) r.recipe.grad_accum = passes / that_train;
}

void set_kernels(Variant& v, const Setting& s) {
  v.request.recipe.kernels = parse_name<LayerKernels>(s.value, s.change->name);
}

void set_compile(Variant& v, const Setting& s) { v.request.recipe.torch_compile = is_on(s); }
/// Leaves versions that are not named as they are.
void set_versions(Variant& v, const Setting& s) {
  Recipe& r = v.request.recipe;
  std::string list = s.value;
  std::replace(list.begin(), list.end(), '+', ',');
  StackVersions versions = parse_stack_versions(list);
  versions.insert(r.framework->versions.begin(), r.framework->versions.end());
  r.framework = resolve_framework(r.framework->name, {.given = std::move(versions), .date = {}});
  settle_stack(v.request);
}

void set_strategy(Variant& v, const Setting& s) {
  set_strategy_of_batch(v.request, std::string(canonical_strategy(s.value)));
}

void set_num_gpus(Variant& v, const Setting& s) { divide_gpus(v.request, parse_integer(s.value, s.change->name, 1)); }

void set_context(Variant& v, const Setting& s) { v.request.options.cp = parse_integer(s.value, s.change->name, 1); }

void set_no_reshard(Variant& v, const Setting& s) {
  v.request.options.reshards = !is_on(s);
  if (v.request.options.reshards) v.request.strategy = strategy_that_reshards(v.request.strategy);
}

void set_overlap_comm(Variant& v, const Setting& s) { v.request.options.overlap_comm = is_on(s); }
void set_quantized_weights(Variant& v, const Setting& s) { v.request.options.zero_quantized_weights = is_on(s); }

void set_machine(Variant& v, const Setting& s) { s.change->machine->apply(v.request.cluster, v.profile, s.number); }

// --- when a value is worth suggesting: the value, or "" --------------------------------------------------------------

std::string if_so(bool condition, std::string value) { return condition ? std::move(value) : ""; }

bool is_checkpointed(Request r) { return r.recipe.checkpointing != Checkpointing::None; }
std::string checkpoint_all(Request r) { return if_so(r.recipe.checkpointing != Checkpointing::Full, "full"); }
std::string checkpoint_nothing(Request r) { return if_so(is_checkpointed(r) && !r.recipe.offload.activations, "none"); }

/// A loss over pairs is fused where the trainer has it; a head of numbers has no logits to save.
bool can_fuse(Request r) {
  if (r.recipe.objective.method.is_usual()) return true;
  const std::vector<std::string>& fused = r.recipe.framework->preference.fused_methods;
  return std::ranges::find(fused, r.recipe.objective.method->like) != fused.end() &&
         reference_of(r.recipe) != Reference::Precomputed;
}
std::string fused_loss(Request r) { return if_so(r.recipe.loss == LossKernel::Plain && can_fuse(r), "fused"); }
/// A reference that runs in every step.
std::string precomputed(Request r) {
  const Reference now = reference_of(r.recipe);
  const bool runs = now != Reference::None && now != Reference::Precomputed;
  return if_so(runs && r.recipe.framework->preference.precomputes_reference && r.recipe.loss != LossKernel::Fused,
               "precomputed");
}
/// The same where the data are trained on more than once, so that it saves passes.
std::string precomputed_once(Request r) { return if_so(r.dataset.epochs > 1, precomputed(r)); }
/// Twice as many GPUs share each sequence, where the trainer does that and each keeps enough of it.
std::string shared_context(Request r) {
  const std::int64_t cp = 2 * r.options.cp;
  const bool is_possible = !r.recipe.framework->context_parallel.strategies.empty() &&
                           r.cluster.num_gpus() % (cp * r.options.tp * r.options.pp) == 0 &&
                           r.recipe.seq_len / cp >= kLeastContext && cp <= r.cluster.gpus_per_node;
  return if_so(is_possible, std::to_string(cp));
}
std::string one_sequence(Request r) { return if_so(r.recipe.micro_batch > 1 && !compares_rows(r.recipe), "1"); }
std::string sdpa(Request r) { return if_so(r.recipe.attention == AttentionKernel::Eager, "sdpa"); }

bool has_wide_states(Request r) { return r.recipe.optimizer->num_states >= 2 && !r.recipe.optimizer->is_8bit; }
std::string optimizer_8bit(Request r) {
  return if_so(has_wide_states(r) && !r.recipe.optimizer->is_paged, "adamw-8bit");
}
std::string optimizer_paged(Request r) {
  const OptimizerSpec& optimizer = *r.recipe.optimizer;
  return if_so(optimizer.num_states >= 2 && !(optimizer.is_8bit && optimizer.is_paged), "paged-adamw-8bit");
}
/// bitsandbytes steps neither on the host nor FSDP2's shards.
std::string optimizer_of_torch(Request r) {
  return if_so(r.recipe.optimizer->is_8bit || r.recipe.optimizer->is_paged, "adamw-fused");
}
std::string step_in_backward(Request r) {
  const bool can = r.recipe.framework->choices.optimizer_in_backward && r.recipe.method == Method::Full;
  return if_so(can && r.recipe.grad_accum == 1 && !r.recipe.optimizer_in_backward, "on");
}
std::string flat_shards(Request r) { return if_so(r.options.fsdp_version == 2, "1"); }
std::string evaluate_one(Request r) { return if_so(is_evaluated(r) && eval_batch(r) > 1, "1"); }
std::string no_logits(Request r) { return if_so(r.eval_logits != EvalLogits::None, "none"); }
std::string generate_nothing(Request r) { return if_so(r.eval_generate > 0, "0"); }

std::string adapters_for_full(Request r) {
  return if_so(r.recipe.method == Method::Full, adapters_of(r.recipe, Method::Lora));
}
/// A quantised checkpoint has one base, which no setting changes.
bool can_change_base(Request r) { return !r.model.checkpoint.is_present(); }
std::string adapters_on_16_bit(Request r) {
  const bool is_quantised = r.recipe.quant.kind != BaseQuant::None;
  return if_so(is_quantised && can_change_base(r), adapters_of(r.recipe, Method::Lora));
}
std::string adapters_on_4_bit(Request r) {
  return if_so(r.recipe.method != Method::Qlora && can_change_base(r), adapters_of(r.recipe, Method::Qlora));
}
std::string every_weight(Request r) { return if_so(r.recipe.method == Method::Lora && can_change_base(r), "on"); }

/// Rows that are padded to the full length, though shorter ones are known.
std::string padded_by_batch(Request r) {
  const std::int64_t row = r.dataset.tokens_per_row;
  return if_so(r.recipe.packing == Packing::Padded && row > 0 && row < r.recipe.seq_len && !generates(r.recipe) &&
                   !r.model.vision.is_present(),
               "dynamic");
}
std::string half_the_length(Request r) {
  constexpr std::int64_t kShort = 512;
  return if_so(r.recipe.seq_len > kShort && !generates(r.recipe), std::to_string(r.recipe.seq_len / 2));
}

/// The list of --offload with states of the optimizer or weights on the host beside what is there already.
std::string offloaded_too(Request r, bool states, bool weights) {
  Offload offload = r.recipe.offload;
  if (states && offload.optimizer == OffloadTarget::None) offload.optimizer = OffloadTarget::Cpu;
  if (weights && offload.params == OffloadTarget::None) offload.params = OffloadTarget::Cpu;
  return offload_list(offload);
}
bool has_states_to_offload(Request r) { return r.recipe.offload.optimizer == OffloadTarget::None; }
bool has_weights_to_offload(Request r) { return r.recipe.offload.params == OffloadTarget::None; }
std::string offload_states(Request r) { return if_so(has_states_to_offload(r), offloaded_too(r, true, false)); }
std::string offload_all(Request r) { return if_so(has_weights_to_offload(r), offloaded_too(r, true, true)); }
/// Of what is checkpointed, in so many words of --offload.
std::string offload_activations(Request r) {
  Offload offload = r.recipe.offload;
  if (offload.activations || !r.recipe.framework->choices.offload_activations) return "";
  offload.activations = true;
  return offload_list(offload);
}
/// A frozen base may live on the host, its layers coming and going.
std::string offload_weights(Request r) {
  const bool is_useful = has_states_to_offload(r) && has_weights_to_offload(r) && r.recipe.is_adapter();
  return if_so(is_useful, offloaded_too(r, false, true));
}
std::string weights_in_16_bit(Request r) {
  const bool may_be_fp32 = r.recipe.precision == Precision::Bf16Mixed || r.recipe.precision == Precision::Bf16Loaded;
  return if_so(r.recipe.method == Method::Full && may_be_fp32, "bf16-true");
}
std::string offload_nothing(Request r) { return if_so(r.recipe.offload.any(), "none"); }

/// Interleaved stages take micro-batches in groups of as many as there are stages.
std::string passes_of_stages(Request r) {
  const std::int64_t stages = r.options.pp, whole = (r.recipe.grad_accum + stages - 1) / stages * stages;
  return if_so(r.options.virtual_stages > 1 && whole != r.recipe.grad_accum, std::to_string(whole));
}
std::string more_passes(Request r) { return if_so(r.recipe.grad_accum < 8, "8"); }
std::string compiled(Request r) { return if_so(!r.recipe.torch_compile, "on"); }

/// Says where DeepSpeed's backward waits for its reductions.
std::string reduce_beside_backward(Request r) {
  const auto waits = [&](const StrategyRow& row) {
    if (r.strategy != "auto" && r.strategy != row.name) return false;
    EngineConvention engine = engine_of(*r.recipe.framework, row.engine);
    apply_zero_options(r.options, engine);
    return engine.is_deepspeed() && !engine.buckets_of(row.layout.shards_weights).overlap_comm;
  };
  const std::span<const StrategyRow> rows = strategy_rows();
  return if_so(std::any_of(rows.begin(), rows.end(), waits), "on");
}

std::string more_gpus(Request r) {
  return if_so(!r.cluster.is_mixed() && r.cluster.num_gpus() > 0, std::to_string(2 * num_gpus_in_all(r)));
}

/// 600 GB/s, both directions together, is what an A100 has.
std::string usual_nvlink(Request r) {
  const bool has_neighbours = std::min(r.cluster.gpus_per_node, r.cluster.num_gpus()) > 1;
  return if_so(has_neighbours && !is_board(r.cluster.fabric) && !is_nvlink(r.cluster.fabric), "600");
}

std::string twice_as_many(Request r) {
  constexpr std::int64_t kMany = 64;
  return if_so(r.recipe.micro_batch < kMany && !compares_rows(r.recipe), std::to_string(2 * r.recipe.micro_batch));
}

/// 400 Gbit/s is one NDR adapter for each GPU.
std::string fast_network(Request r) { return if_so(r.cluster.num_nodes() > 1, "400"); }

// --- what a search tries ---------------------------------------------------------------------------------------------

using Tried = std::vector<std::string_view>;

Tried tried_checkpointing(Request) { return {"none", "full"}; }
/// A trainer with a loss of its own has no other.
Tried tried_loss(Request r) {
  if (generates(r.recipe)) return {to_string(r.recipe.loss)};
  if (!r.recipe.objective.method.is_usual()) return can_fuse(r) ? Tried{"plain", "fused"} : Tried{"plain"};
  const FrameworkConvention& framework = *r.recipe.framework;
  if (const auto own = framework.defaults.loss) return {to_string(*own)};
  const bool has_fused = std::ranges::find(framework.choices.loss, LossKernel::Fused) != framework.choices.loss.end();
  return has_fused ? Tried{"plain", "fused"} : Tried{"plain"};
}
/// A trainer that takes another kernel than torch's by itself has no word for torch's.
Tried tried_attention(Request r) {
  const AttentionKernel usual = r.cluster.gpus.empty()
                                    ? r.recipe.framework->defaults.attention.value_or(AttentionKernel::Sdpa)
                                    : r.recipe.attention;
  if (usual != AttentionKernel::Sdpa) return {to_string(usual)};
  return {"sdpa", "flash"};
}
Tried tried_compile(Request) { return {"off", "on"}; }
Tried tried_packing(Request r) {
  if (!r.recipe.objective.method.is_usual()) return {to_string(r.recipe.packing)};  // answers are padded
  return {"packed", "dynamic"};
}

/// Adapters have little to step: the optimizer decides nothing there.
Tried tried_optimizer(Request r) {
  const std::string_view usual = r.recipe.optimizer->name;
  if (r.recipe.method != Method::Full) return {usual};
  Tried values{usual};
  for (const std::string& name : r.recipe.framework->choices.optimizers)
    if (name != usual) values.push_back(name);
  return values;
}
Tried tried_precision(Request r) {
  const std::string_view usual = to_string(r.recipe.precision);
  if (r.recipe.method != Method::Full || r.recipe.precision != Precision::Bf16Mixed) return {usual};
  return {usual, "bf16-true"};
}
/// The optimizers of bitsandbytes step on the GPU alone.
Tried tried_offload(Request r) {
  Tried values{"none"};
  const OptimizerSpec& optimizer = *r.recipe.optimizer;
  const bool steps_anywhere = !optimizer.needs_plain_tensors();
  if (r.recipe.method == Method::Full && steps_anywhere) values.insert(values.end(), {"optimizer", "optimizer,params"});
  if (r.recipe.is_adapter()) values.push_back("params");
  if (!is_checkpointed(r) || !r.recipe.framework->choices.offload_activations) return values;
  values.push_back("activations");
  if (r.recipe.is_adapter()) values.push_back("params,activations");
  if (r.recipe.method == Method::Full && steps_anywhere) values.push_back("optimizer,params,activations");
  return values;
}

// --- what is chosen where nobody gave it -----------------------------------------------------------------------------

/// The values but the one that is there.
template <class Name>
FreeValues others(std::initializer_list<Name> values, std::string_view now) {
  FreeValues out;
  for (const Name& value : values)
    if (value != now) out.values.emplace_back(value);
  return out;
}

FreeValues free_checkpointing(Request r) {
  return others<std::string_view>({"none", "full"}, to_string(r.recipe.checkpointing));
}

FreeValues free_loss(Request r) {
  FreeValues out;
  if (!r.recipe.objective.method.is_usual()) {
    if (const std::string value = fused_loss(r); !value.empty()) out.values.push_back(value);
    return out;
  }
  for (const LossKernel kernel : r.recipe.framework->choices.loss)
    if (kernel != r.recipe.loss) out.values.emplace_back(to_string(kernel));
  return out;
}

/// torch's attention is flash attention where it can, so that only what is faster still is another choice, or any
/// kernel that the model's code has in the place of an eager one.
FreeValues free_attention(Request r) {
  FreeValues out;
  const std::vector<GpuSpec>& cards = r.cluster.gpus.kinds();
  const auto used = [&](AttentionKernel kernel) {
    Recipe recipe = r.recipe;
    recipe.attention = kernel;
    return attention_kernel_used(r.model, recipe, *recipe.framework);
  };
  const bool is_slow = used(r.recipe.attention) == AttentionKernel::Eager;
  for (const AttentionKernel kernel : r.recipe.framework->choices.attention) {
    if (kernel == r.recipe.attention || used(kernel) != kernel) continue;
    const bool is_other = kernel == AttentionKernel::Flash3 ? std::ranges::all_of(cards, runs_flash_attention_3)
                          : kernel == AttentionKernel::Flash
                              ? is_slow && std::ranges::all_of(cards, runs_flash_attention_2)
                              : is_slow;
    if (is_other) out.values.emplace_back(to_string(kernel));
  }
  return out;
}

FreeValues free_optimizer(Request r) {
  FreeValues out;
  if (!has_wide_states(r) && !r.recipe.optimizer->is_8bit) return out;
  for (const std::string& name : r.recipe.framework->choices.optimizers)
    if (name != r.recipe.optimizer->name) out.values.push_back(name);
  return out;
}

FreeValues free_in_backward(Request r) {
  const std::string value = step_in_backward(r);
  return value.empty() ? FreeValues{} : FreeValues{{value}, {}};
}

/// Weights in 16 bit alone lose small updates: where that quality will do.
FreeValues free_precision(Request r) {
  const std::string value = weights_in_16_bit(r);
  const bool will_do = r.not_given.least_quality.value_or(Quality::Best) < Quality::Best;
  return value.empty() || !will_do ? FreeValues{} : FreeValues{{value}, {}};
}

FreeValues free_offload(Request r) {
  FreeValues out;
  if (const std::string value = offload_activations(r); !value.empty()) out.values.push_back(value);
  if (r.recipe.offload.any()) out.values.emplace_back("none");
  if (r.recipe.offload.optimizer != OffloadTarget::None || r.recipe.offload.params != OffloadTarget::None) return out;
  std::vector<std::string> parts{"optimizer", "optimizer,params"};
  if (r.recipe.is_adapter()) parts.emplace_back("params");
  const bool may_activations = r.recipe.framework->choices.offload_activations;
  for (const std::string& part : parts) {
    out.from_host.push_back(part);
    if (may_activations) out.from_host.push_back(part + ",activations");
  }
  return out;
}

// --- the table -------------------------------------------------------------------------------------------------------

std::vector<Change> make_table() {
  constexpr auto kSave = Purpose::SaveMemory, kLeave = Purpose::LeaveOut, kShorten = Purpose::ShortenStep,
                 kRun = Purpose::RunBetter;
  std::vector<Change> rows{
      {"checkpointing",
       set_checkpointing,
       {{kSave, checkpoint_all, "checkpointing"},
        {kLeave, checkpoint_nothing, "checkpointing"},
        {kRun, checkpoint_all},
        {kRun, checkpoint_nothing}}},
      {"loss",
       set_choice<LossKernel, &Recipe::loss>,
       {{kSave, fused_loss, "fused loss", "full logits never exist"}, {kRun, fused_loss}}},
      {"ref",
       set_reference,
       {{kSave, precomputed, "the reference before training", "its log-probs take one pass over the data before"},
        {kRun, precomputed_once}}},
      {"rollout-engine",
       set_engine,
       {{kSave, sleeping_engine, "an engine that sleeps", "it gives its memory back while the model trains"},
        {kSave, engine_with_less, "a smaller share for the engine", "fewer sequences at once"},
        {kSave, synced_adapter, "adapters alone sent to the engine", "the engine adds them itself"},
        {kRun, own_engine},
        {kShorten, lagging_engine, "one step of lag", "answers are of the weights before"},
        {kShorten, wider_engine, "more GPUs for the engine"},
        {kShorten, narrower_engine, "fewer GPUs for the engine"},
        {Purpose::Resolve, engine_with_half_more, "a larger share for the engine"},
        {Purpose::Resolve, engine_with_twice, "a larger share for the engine"},
        {Purpose::Resolve, engine_over_twice, "more GPUs share the engine's layers"},
        {Purpose::Resolve, engine_over_four_times, "more GPUs share the engine's layers"},
        {kRun, synced_adapter}}},
      {"completion-len",
       set_answers,
       {{kShorten, shorter_tail, "answers cut at twice their mean", "the longest ones keep a step waiting"}}},
      {"micro-batch",
       set_count<&Recipe::micro_batch>,
       {{kSave, one_sequence, "", "more --grad-accum keeps the batch"}, {kShorten, twice_as_many}}},
      {"attention", set_choice<AttentionKernel, &Recipe::attention>, {{kSave, sdpa, "sdpa attention"}, {kRun, sdpa}}},
      {"optimizer",
       set_optimizer,
       {{kSave, optimizer_8bit, "8-bit optimizer"},
        {kSave, optimizer_paged, "paged 8-bit optimizer", "states wait in host memory where the GPU is full"},
        {Purpose::Resolve, optimizer_of_torch}}},
      {"optimizer-in-backward", set_in_backward, {{kSave, step_in_backward, "", "no gradient outlives its step"}}},
      {"cp", set_context, {{kSave, shared_context, "", "GPUs share each sequence; more --grad-accum keeps the batch"}}},
      {"lora",
       set_lora,
       {{kSave, adapters_for_full, "", "quality good"},
        {kLeave, adapters_on_16_bit, "the quantised base", "quality good instead of ok, no dequantisation"}}},
      {"qlora", set_qlora, {{kSave, adapters_on_4_bit, "", "quality ok"}}},
      {"full", set_full, {{Purpose::Quality, every_weight, "adapters", "best quality"}}},
      {"seq-len", set_count<&Recipe::seq_len>, {{kSave, half_the_length}}},
      {"offload",
       set_offload,
       {{kSave, offload_activations, "offloaded activations"},
        {kSave, offload_states},
        {kSave, offload_weights},
        {kSave, offload_all},
        {kLeave, offload_nothing, "offload"},
        {Purpose::Resolve, offload_nothing},
        {kRun, offload_nothing}}},
      {"packing",
       set_choice<Packing, &Recipe::packing>,
       {{kRun, padded_by_batch, "", "rows are padded to the longest of their batch"}}},
      {"grad-accum", set_count<&Recipe::grad_accum>, {{kShorten, more_passes}, {Purpose::Resolve, passes_of_stages}}},
      {"precision",
       set_choice<Precision, &Recipe::precision>,
       {{kSave, weights_in_16_bit, "", "weights, gradients and optimizer states in bf16: small updates are lost"}}},
      {"compile", set_compile, {{kSave, compiled, "torch.compile"}, {kShorten, compiled}}},
      {"eval-batch", set_eval_batch, {{kSave, evaluate_one}}},
      {"eval-logits", set_eval_logits, {{kSave, no_logits}}},
      {"eval-generate", set_eval_generate, {{kSave, generate_nothing}}},
      {"fsdp-version", set_fsdp_version, {{Purpose::Resolve, flat_shards}}},
      {"kernels", set_kernels},
      {"versions", set_versions},
      {"strategy", set_strategy},
      {"no-reshard", set_no_reshard},
      {"overlap-comm",
       set_overlap_comm,
       {{kShorten, reduce_beside_backward}, {kRun, reduce_beside_backward}},
       "--overlap-comm {}"},
      {"zero-quantized-weights", set_quantized_weights},
      {"num-gpus", set_num_gpus, {{Purpose::MoreGpus, more_gpus}}, "{} GPUs of this kind"}};
  for (const MachineChange& machine : machine_changes())
    rows.push_back({machine.name, set_machine, {}, machine.wording, &machine});
  const auto row = [&](std::string_view name) {
    return std::find_if(rows.begin(), rows.end(), [&](const Change& change) { return change.name == name; });
  };
  row("checkpointing")->tried = tried_checkpointing;
  row("loss")->tried = tried_loss;
  row("attention")->tried = tried_attention;
  row("optimizer")->tried = tried_optimizer;
  row("offload")->tried = tried_offload;
  row("packing")->tried = tried_packing;
  row("packing")->needs_lengths = true;
  row("precision")->tried = tried_precision;
  row("compile")->tried = tried_compile;
  row("rollout-engine")->tried = tried_engine;
  row("checkpointing")->free = free_checkpointing;
  row("loss")->free = free_loss;
  row("attention")->free = free_attention;
  row("optimizer")->free = free_optimizer;
  row("optimizer-in-backward")->free = free_in_backward;
  row("precision")->free = free_precision;
  row("offload")->free = free_offload;
  row("rollout-engine")->free = free_engine;
  row("nvlink")->suggestions = {{kShorten, usual_nvlink}};
  row("nic")->suggestions = {{kShorten, fast_network}};
  return rows;
}

}  // namespace

void settle_reference(Recipe& recipe) {
  const std::optional<Reference> now = recipe.objective.reference;
  const bool is_model = now == Reference::Copy || now == Reference::Host || now == Reference::Adapter;
  const bool was_of_adapters = now == Reference::Adapter;
  const Reference usual = usual_reference(recipe);
  if (is_model && (was_of_adapters || usual == Reference::Adapter)) recipe.objective.reference = usual;
}

std::string adapters_of(const Recipe& recipe, Method method) {
  const bool loads_fp32 = !recipe.objective.method.is_usual() && recipe.framework->preference.loads_fp32;
  const bool is_said = loads_fp32 && method == Method::Lora && !recipe.lora.base_dtype;
  return fmt::format("r={}{}", recipe.lora.rank, is_said ? kBaseIn16Bit : "");
}

std::span<const Change> changes() {
  static const std::vector<Change> table = make_table();
  return table;
}

}  // namespace gpuplan

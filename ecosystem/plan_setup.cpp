// A plan in the vocabulary of set-ups: the inverse of meaning.cpp's reading.
#include "ecosystem/meaning.h"

#include <algorithm>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "base/names.h"
#include "ecosystem/meaning_words.h"
#include "ecosystem/rules.h"
#include "models/adapter_kind.h"
#include "models/expert_layout.h"
#include "models/fake_quant_table.h"
#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "models/trained_names.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

void write_method(Setup& s, const Recipe& r, bool shards) {
  s.adapter = r.is_adapter() ? std::string(to_string(r.method)) : "none";
  if (!r.is_adapter()) return;
  if (r.quant.packed) {  // the checkpoint says the rest
    s.adapter = "lora";
    if (r.quant.kind == BaseQuant::Gptq4) s.quant_method = "gptq";
  } else if (r.quant.kind != BaseQuant::None) {
    s.quant_bits = r.quant.bits();
    s.quant_method = r.quant.kind == BaseQuant::Gptq4 ? "gptq" : r.quant.kind == BaseQuant::Hqq ? "hqq" : "bnb";
    if (r.quant.kind == BaseQuant::Nf4) {
      s.quant_type = "nf4";
      s.double_quant = r.quant.double_quant;
      if (r.quant.quantises_experts) s.quant_experts = true;
      if (shards) s.quant_storage = word_of(r.quant.storage_dtype.value_or(computes_in(r.precision)));
    }
  }
  s.rank = r.lora.rank;
  s.alpha = r.lora.alpha;
  s.dropout = r.lora.dropout;
  s.targets = r.lora.targets;
  s.all_linear = r.lora.targets == std::vector<std::string>{"all-linear"};
  if (!*s.all_linear) s.module_targets = r.lora.targets;
  if (!r.lora.modules_to_save.empty()) s.saved_modules = r.lora.modules_to_save;
  if (r.lora.is_dora) s.dora = true;
  if (r.lora.kind->is_lora()) return;
  s.adapter_kind = r.lora.kind->name;
  if (r.lora.rotation_block > 0) s.rotation_block = r.lora.rotation_block;
  if (r.lora.factor > 0) s.adapter_factor = r.lora.factor;
  s.kind_rank = r.lora.rank;
}

void write_precision(Setup& s, const Recipe& r, bool is_local) {
  const bool is_loaded = r.precision == Precision::Bf16Loaded;
  s.bf16 = r.precision == Precision::Bf16Mixed || is_loaded;
  s.fp16 = r.precision == Precision::Fp16Mixed;
  if (r.fp8_matmul) s.fp8 = true;
  s.mixed_precision = r.fp8_matmul ? "fp8" : *s.bf16 ? "bf16" : *s.fp16 ? "fp16" : "no";
  if (r.precision == Precision::Fp32) s.own_dtype = "fp32";
  if (r.precision == Precision::Bf16True) s.own_dtype = "bf16";
  const bool keeps_fp32 = !r.is_adapter() && (*s.fp16 || (*s.bf16 && is_local && !is_loaded));
  s.dtype = keeps_fp32 ? "fp32" : word_of(r.lora.base_dtype.value_or(computes_in(r.precision)));
  if (!r.is_adapter() && !keeps_fp32) s.dtype = word_of(computes_in(r.precision));
}

void write_objective(Setup& s, const Recipe& r) {
  s.objective = std::string(r.objective.method->name);
  if (r.objective.method.is_usual()) return;
  if (r.objective.answers() > 1) s.pair_loss = s.objective;
  if (r.objective.reference) s.reference = std::string(to_string(*r.objective.reference));
  if (r.objective.labels > 0) s.labels = r.objective.labels;
  if (r.objective.teacher_topk > 0) s.teacher_topk = r.objective.teacher_topk;
  if (r.objective.texts_per_row > 0) s.texts_per_row = r.objective.texts_per_row;
}

/// States all that decides memory or time of generation, so that no default of another trainer takes its place.
void write_rollout(Setup& s, const EstimateRequest& request, const Strategy& strategy) {
  const Recipe& recipe = request.recipe;
  if (!generates(recipe) || !why_not_applicable(strategy, request.cluster, recipe, request.model).empty()) return;
  const EngineChoice& choice = request.rollout.engine;
  const JobRollout r = job_rollout(Job(request, strategy));
  const bool is_server = r.setup.place == EnginePlace::Server;
  s.engine = r.setup.engine->name;
  s.policy_loss = recipe.objective.method->name;
  s.generations = r.batch.generations;
  s.prompt_len = r.batch.prompt_len;
  s.completion_len = r.batch.max_completion;
  const auto at_least = [](Setup::Count& fact, std::int64_t number, std::int64_t least) {
    if (number >= least) fact = number;
  };
  at_least(s.mean_prompt, r.batch.mean_prompt, 1);
  at_least(s.mean_completion, r.batch.mean_completion, 1);
  s.iterations = request.rollout.iterations;
  const std::int64_t of_step = recipe.micro_batch * recipe.grad_accum * strategy.mesh.batch_replicas();
  s.steps_per_generation = recipe.grad_accum * (r.batch.sequences / of_step);
  if (r.batch.sequences % r.batch.generations == 0 && of_step % r.batch.generations == 0) {
    s.generation_prompts = r.batch.sequences / r.batch.generations;
    s.update_prompts = of_step / r.batch.generations;
  }
  constexpr double kUsualWeight = 0.04;  // of the distance to the reference, of Shao et al. 2024
  s.regularises = reference_of(recipe) == Reference::None ? 0 : kUsualWeight;
  if (request.rollout.step_tokens > 0) {
    s.fills_by_tokens = true;
    s.own_tokens = request.rollout.step_tokens / strategy.mesh.ways(Axis::Cp);
  }
  if (request.rollout.reward.value > 0) s.reward_seconds = request.rollout.reward.value;
  if (r.setup.engine->in_trainer) return;
  s.engine_place = std::string(to_string(r.setup.place));
  s.engine_utilisation = r.setup.utilisation;
  s.engine_tp = r.setup.tp;
  at_least(s.engine_sequences, r.setup.max_sequences, 1);
  if (!is_server && r.setup.engine->can_sleep) s.engine_sleeps = r.setup.sleeps;
  if (!is_server) {
    s.engine_offloads = moves_weights(r.offloads);
    if (moves_states(r.offloads) != moves_weights(r.offloads)) s.engine_offloads_states = moves_states(r.offloads);
  }
  at_least(s.old_batch, request.rollout.old_batch, 1);
  at_least(s.reference_batch, request.rollout.reference_batch, 1);
  if (is_server) at_least(s.engine_gpus, r.setup.num_gpus, 1);
  if (writes_ahead(request)) s.engine_async = true;
  if (choice.syncs_adapter) s.adapter_sync = true;
  at_least(s.sync_batches, choice.sync_batches, 2);
  at_least(s.sync_bucket, choice.sync_bucket.count >> 20, 1);
  if (!choice.version.empty()) s.engine_version = choice.version;
}

void write_batch(Setup& s, const EstimateRequest& request, std::int64_t data_parallel) {
  const Recipe& r = request.recipe;
  s.micro_batch = r.micro_batch;
  s.grad_accum = r.grad_accum;
  s.seq_len = r.seq_len;
  s.global_batch = r.micro_batch * r.grad_accum * data_parallel;
  s.packing = r.packing == Packing::Packed;
  // sequences that are packed are full anyhow; a trainer of answers pads by itself
  if (r.packing != Packing::Packed) s.pads = r.packing == Packing::Padded && !generates(r);
  if (s.pads.value_or(false)) s.pad_multiple = r.seq_len;
  s.epochs = request.dataset.epochs;
  if (request.eval_batch > 0) s.eval_batch = request.eval_batch, s.evaluates = true;
}

void write_kernels(Setup& s, const Recipe& r) {
  s.optimizer = std::string(r.optimizer->name);
  if (r.optimizer_in_backward) s.optimizer_in_backward = true;
  s.attention = std::string(to_string(r.attention));
  if (r.attention_groups > 1) s.attention_groups = r.attention_groups;
  s.compile_layers = r.torch_compile;
  s.checkpointing = r.checkpointing != Checkpointing::None;
  s.checkpointing_kind = std::string(to_string(r.checkpointing));
  if (r.offload.activations) s.activation_offload = true;
  const bool has_layers = r.kernels == LayerKernels::Fused, has_loss = r.loss == LossKernel::Fused;
  s.liger = has_layers || has_loss;
  if (*s.liger && !has_layers) s.liger_layers = false;
  if (*s.liger && !has_loss) s.liger_loss = false;
  if (r.loss == LossKernel::Chunked) s.loss = "chunked";
}

void write_fsdp(Setup& s, const EstimateRequest& request, const Strategy& strategy) {
  const bool is_v1 = strategy.engine == ShardingEngine::Fsdp1;
  const bool reshards = strategy.layout.reshards_after_forward, is_hybrid = strategy.mesh.copies() > 1;
  s.distributed = "fsdp";
  s.fsdp_version = is_v1 ? 1 : 2;
  if (is_v1) {
    s.fsdp_sharding = is_hybrid ? (reshards ? "hybrid" : "hybrid-grad-op") : reshards ? "full" : "grad-op";
    s.fsdp_sync = true;
    s.fsdp_orig_params = !request.recipe.is_adapter();
    s.fsdp_backward_prefetch = "pre";
    s.fsdp_forward_prefetch = false;
  } else {
    s.fsdp_reshard = reshards ? "yes" : "no";
  }
  const std::int64_t context = strategy.mesh.ways(Axis::Cp);
  if (!is_v1 && (is_hybrid || context > 1)) {
    s.dp_replicate = strategy.mesh.copies();
    s.dp_shard = strategy.mesh.shard_ways() / context;
    if (is_hybrid) s.shard_ranks = strategy.mesh.shard_ways();
  }
  s.fsdp_wrap = strategy.wrap == WrapPolicy::Layer ? "layer" : "size";
  if (strategy.wrap == WrapPolicy::Size) s.fsdp_min_params = strategy.wrap_min_params;
  s.fsdp_offload = request.recipe.offload.params != OffloadTarget::None;
  s.fsdp_ram_efficient = true;
  s.fsdp_state_dict = "sharded";
  s.fsdp_checkpointing = false;
}

void write_zero(Setup& s, const EstimateRequest& request, const Strategy& strategy) {
  s.distributed = "deepspeed";
  s.zero_stage = strategy.layout.shards_weights ? 3 : strategy.layout.shards_gradients ? 2 : 1;
  s.deepspeed_file = "deepspeed.json";
  if (*s.zero_stage == 3) s.zero_init = s.zero_gathers_for_save = true;
  EngineConvention zero = request.recipe.framework->zero;
  apply_zero_options(request.options, zero);
  const GradientBuckets& buckets = zero.buckets_of(*s.zero_stage == 3);
  const std::int64_t hidden = request.model.hidden_size;
  s.zero_bucket = buckets.size != 0 ? buckets.elements(hidden) : hidden * hidden;
  s.zero_overlap = buckets.overlap_comm ? "on" : "off";
  if (zero.gathers_int8) s.zero_quantized_weights = true;
}

/// "24-27,31" as "(24|25|26|27|31)"; other parts of a name as they are, '*' for any text between two dots.
std::string pattern_of_part(const std::string& part) {
  const bool is_list = !part.empty() && part.find_first_not_of("0123456789-,") == std::string::npos;
  if (!is_list) {
    std::string pattern;
    for (const char c : part) pattern += c == '*' ? std::string("[^.]*") : std::string(1, c);
    return pattern;
  }
  std::vector<std::string> numbers;
  for (const std::string& range : split(part, ',')) {
    const std::size_t dash = range.find('-');
    const auto first = as_number(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : as_number(range.substr(dash + 1));
    for (double n = first.value_or(0); n <= last.value_or(-1) && numbers.size() < 4096; ++n)
      numbers.push_back(fmt::format("{}", std::int64_t(n)));
  }
  return numbers.size() == 1 ? numbers.front() : fmt::format("({})", fmt::join(numbers, "|"));
}

/// axolotl's unfrozen_parameters, as trained_parameters.cpp reads them: from the beginning, a dot for a dot.
void write_unfrozen(Setup& s, const Recipe& r) {
  if (r.trained.empty() || r.is_adapter()) return;
  s.unfrozen.emplace();
  for (const std::string& name : r.trained) {
    std::vector<std::string> parts;
    for (const std::string& part : split(name, '.')) parts.push_back(pattern_of_part(part));
    s.unfrozen->push_back(fmt::format("(.+.)?{}(.|$)", fmt::join(parts, ".")));
  }
}

/// LLaMA-Factory's freeze can say whole layers at the end (a number of them) or the beginning (a negative one), and
/// modules outside of layers by the last part of their name. What it cannot say stays unsaid.
void write_frozen_layers(Setup& s, const EstimateRequest& request) {
  const Recipe& r = request.recipe;
  if (r.trained.empty() || r.is_adapter() || r.trained_in_turn) return;
  const auto is_meant = [&](const std::string& name) {
    return std::ranges::any_of(r.trained, [&](const std::string& own) { return names_parameter(own, name); });
  };
  const ModelWeights weights = list_weights(request.model);
  std::vector<bool> is_whole;
  for (std::int64_t i = 0; i < weights.num_layers(); ++i) {
    const LayerKind& kind = weights.layer(i);
    const auto of_tensor = [&](const WeightTensor& t) { return is_meant(parameter_name(kind, i, t)); };
    is_whole.push_back(std::ranges::all_of(kind.tensors, of_tensor));
    if (!is_whole.back() && std::ranges::any_of(kind.tensors, of_tensor)) return;
  }
  const auto count = std::int64_t(std::ranges::count(is_whole, true));
  const bool is_end = std::all_of(is_whole.end() - count, is_whole.end(), std::identity{}),
             is_beginning = std::all_of(is_whole.begin(), is_whole.begin() + count, std::identity{});
  if (count == 0 || !(is_end || is_beginning)) return;
  s.freezes_layers = true;
  s.freeze_layers = double(is_end ? count : -count);
  for (const auto* list : {&weights.before, &weights.after})
    for (const WeightTensor& t : *list)
      if (is_meant(t.name)) {
        if (!s.freeze_extra) s.freeze_extra.emplace();
        s.freeze_extra->push_back(module_name(t.name));
      }
}

void write_fake_quantisers(Setup& s, const Recipe& r) {
  if (r.qat != Qat::None && fake_quant_row(r.qat).work) s.qat = std::string(to_string(r.qat));
  if (r.qat == Qat::None || fake_quant_row(r.qat).dtypes.empty()) return;
  const std::string& both = fake_quant_row(r.qat).dtypes.front();
  s.qat_weights = both.substr(0, both.find(' '));
  const std::string inputs = both.substr(both.find(' ') + 1);
  if (inputs != "none") s.qat_inputs = inputs;
}

void write_degrees(Setup& s, const EstimateRequest& request, const Strategy& strategy) {
  const Mesh& mesh = strategy.mesh;
  const auto write = [](Setup::Count& fact, std::int64_t ways) {
    if (ways > 1) fact = ways;
  };
  write(s.tensor_parallel, mesh.ways(Axis::Tp));
  if (s.tensor_parallel) s.splits_sequence = mesh.splits_sequence();
  if (s.tensor_parallel) s.overlaps_tensor_parallel = strategy.overlaps_tensor_parallel;
  write(s.context_parallel, mesh.ways(Axis::Cp));
  if (s.context_parallel) s.context_exchange = std::string(to_string(mesh.context_exchange()));
  if (!strategy.takes_turns()) write(s.pipeline_parallel, mesh.num_stages());
  write(s.virtual_stages, strategy.chunks);
  if (const std::span<const std::int64_t> layers = strategy.stage_layers; layers.size() > 1) {
    const auto between = layers.subspan(1, layers.size() - 2);
    if (std::ranges::adjacent_find(between, std::ranges::not_equal_to()) != between.end()) {
      s.stage_layers = to_string(strategy.stage_layers);
    } else {
      if (layers.front() > 0) s.first_stage_layers = layers.front();
      if (layers.back() > 0) s.last_stage_layers = layers.back();
    }
  }
  write(s.expert_parallel, mesh.ways(Axis::Ep));
  if (!request.recipe.framework->expert_parallel.gathers_tokens) {  // whose sharers of a layer always share each expert
    write(s.expert_tensor_parallel, mesh.ways(Axis::Etp));
    if (request.model.moe.is_present() && mesh.ways(Axis::Tp) > 1)  // some trainers take tp where nothing is said
      s.expert_tensor_parallel = mesh.ways(Axis::Etp);
  }
  const Routing& routing = request.recipe.routing;
  s.expert_capacity = routing.capacity;
  if (routing.pads_to_capacity) s.pads_experts = true;
  if (routing.dispatcher != Routing{}.dispatcher) s.dispatcher = routing.dispatcher->name;
}

}  // namespace

Setup setup_of(const EstimateRequest& request, const Strategy& strategy) {
  Setup s;
  const Offload& offload = request.recipe.offload;
  const bool is_local = strategy.engine == ShardingEngine::Local;
  s.model = request.model.id.empty() ? request.model.name : request.model.id;
  s.model_type = request.model.model_type;
  write_objective(s, request.recipe);
  if (request.teacher) s.teacher = request.teacher->id.empty() ? request.teacher->name : request.teacher->id;
  write_method(s, request.recipe, strategy.layout.shards_weights);
  write_precision(s, request.recipe, is_local);
  write_batch(s, request, strategy.mesh.batch_replicas());
  write_rollout(s, request, strategy);
  write_degrees(s, request, strategy);
  write_kernels(s, request.recipe);
  write_unfrozen(s, request.recipe);
  write_frozen_layers(s, request);
  write_fake_quantisers(s, request.recipe);
  if (request.model.vision.is_present()) {
    if (request.recipe.images.train == TrainVision::Whole) s.trains_tower_whole = true;
    s.freezes_tower = !trains_tower(request.recipe.images.train);
    s.freezes_projector = request.recipe.images.train == TrainVision::No;
  }
  s.fsdp2_shards_4bit = request.recipe.framework->distributed.fsdp2_shards_4bit;
  s.fsdp2_shards_8bit = request.recipe.framework->distributed.fsdp2_shards_8bit;
  const bool is_one_process = strategy.schedule == Schedule::Naive || strategy.mesh.world() == 1;
  s.num_processes = is_one_process ? 1 : strategy.mesh.world();
  s.num_machines = strategy.is_one_gpu() ? 1 : request.cluster.num_nodes();
  if (offload.optimizer != OffloadTarget::None) s.offload_optimizer = std::string(to_string(offload.optimizer));
  if (offload.params != OffloadTarget::None) s.offload_params = std::string(to_string(offload.params));
  if (is_fsdp(strategy.engine))
    write_fsdp(s, request, strategy);
  else if (strategy.engine == ShardingEngine::Zero)
    write_zero(s, request, strategy);
  else
    s.distributed = is_one_process ? "no" : "multi";
  // towers that no row of text reaches: their parameters get no gradient, at which DDP stops unless it looks for them
  const bool has_idle_towers = list_weights(request.model).part_elements(ModelPart::Idle) > 0;
  if (has_idle_towers) s.freezes_tower = true;
  if (is_local && !is_one_process) s.finds_unused = has_idle_towers;
  if (s.checkpointing == true)
    s.reentrant = strategy.layout.shards_weights && request.recipe.is_adapter() &&
                  (strategy.engine == ShardingEngine::Zero || request.recipe.quant.kind != BaseQuant::None);
  return s;
}

}  // namespace gpuplan

#include "planner/job.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/rank_model.h"
#include "models/stack.h"
#include "models/trainer_limits.h"
#include "models/training_method.h"
#include "planner/refusal.h"
#include "planner/rollout_phases.h"

namespace gpuplan {

Job::Job(EstimateRequest r, TrainedModel m, FrameworkConvention f, Profile p, Strategy s)
    : request(std::move(r)),
      model(std::move(m)),
      framework(std::move(f)),
      profile(std::move(p)) {
  for (const EngineTraits& traits : kEngines) {
    EngineConvention& engine = framework.*traits.convention;
    apply_zero_options(request.options, engine);
    if (recipe().quant.kind != BaseQuant::None) engine.gathers_int8 = false;  // packed weights go as they are
  }
  use(std::move(s));
}

Job::Job(const EstimateRequest& r, Strategy s)
    : Job(r, prepare(r.model, r.recipe, *r.recipe.framework), *r.recipe.framework, profile_of(r), std::move(s)) {}

void Job::divide_model() {
  const Mesh shared = strategy.mesh.within_layers();
  if (shared == divided_by_) return;
  if (!whole_) whole_ = std::make_shared<const TrainedModel>(std::move(model));
  model = shared == Mesh() ? *whole_ : rank_model(*whole_, recipe(), framework, shared);
  divided_by_ = shared;
}

void Job::use(Strategy other) {
  strategy = std::move(other);
  divide_model();
  numerics = resolve_numerics(recipe(), framework, strategy.engine, &model.spec);
  rules = size_rules(strategy, framework, model.spec, recipe());
}

std::int64_t total_tokens(const EstimateRequest& r) {
  const std::int64_t iterations = generates(r.recipe) ? r.rollout.iterations : 1;
  const std::int64_t answers = generates(r.recipe) ? answers_of_row(r) : r.recipe.answers_apart();
  const std::int64_t per_answer = r.dataset.tokens_per_row > 0 ? r.dataset.tokens_per_row : r.recipe.seq_len;
  return std::int64_t(std::min(
      9e18, double(r.dataset.rows) * double(answers) * double(iterations) * double(per_answer) * r.dataset.epochs));
}

Quality quality_of(const Recipe& recipe) {
  if (recipe.quant.kind != BaseQuant::None) return Quality::Ok;
  if (recipe.method != Method::Full) return Quality::Good;
  const bool may_lose_updates = recipe.precision == Precision::Bf16True || recipe.precision == Precision::Bf16Loaded;
  return may_lose_updates ? Quality::Good : Quality::Best;
}

namespace {

/// A fact of a format, under the framework's libraries; null where none is known.
nlohmann::json fact_of(const FrameworkConvention& framework, const CheckpointQuant& checkpoint, std::string_view name) {
  const auto rows = facts_for(framework.versions, framework.name);
  const nlohmann::json* found = fact(rows, fmt::format("checkpoint.{}.{}", checkpoint.method, name));
  return found ? *found : nlohmann::json();
}

Unpacking unpacking_of(const FrameworkConvention& framework, const CheckpointQuant& checkpoint) {
  const nlohmann::json found = fact_of(framework, checkpoint, "unpacking");
  if (found.is_null()) return {};
  return {.bytes_per_value = found.value("bytes_per_value", 0.0),
          .bytes_at_once = found.value("bytes_at_once", 0.0),
          .values_at_once = found.value("values_at_once", std::int64_t{0}),
          .moves_to_host = found.value("moves_to_host", false)};
}

}  // namespace

CheckpointUse use_of_checkpoint(const FrameworkConvention& framework, const CheckpointQuant& checkpoint) {
  const auto value = [&](std::string_view name) { return fact_of(framework, checkpoint, name); };
  const nlohmann::json load = value("load");
  if (load.is_null()) return CheckpointUse::Unknown;
  if (load != "kept") return CheckpointUse::Unpacked;
  if (checkpoint.base && value("adapters") == true) return CheckpointUse::Kept;
  return value("can_dequantise") == true ? CheckpointUse::UnpackedOnRequest : CheckpointUse::Refused;
}

namespace {

/// The base of a checkpoint that stays as it is stored is the recipe's, whatever the recipe asked for.
std::string keep_checkpoint(EstimateRequest& r) {
  const QuantSpec& base = *r.model.checkpoint.base;
  QuantSpec asked = r.recipe.quant;
  asked.packed = base.packed;
  const bool wins = asked.kind != BaseQuant::None && asked != base;
  r.recipe.quant = base;
  if (r.recipe.is_adapter()) r.recipe.method = base.bits() <= 4 ? Method::Qlora : Method::Lora;
  return wins ? ", which wins over what the recipe says" : "";
}

/// A base that the recipe has of the checkpoint, from a plan of another framework.
bool is_of_checkpoint(const QuantSpec& quant, const CheckpointQuant& checkpoint) {
  if (!checkpoint.base || quant.kind != checkpoint.base->kind) return false;
  return !format_of(quant.kind).is_bitsandbytes || quant == *checkpoint.base;
}

void hold_in_16_bit(Recipe& recipe) {
  recipe.quant = {};
  if (recipe.is_adapter()) recipe.method = Method::Lora;
}

std::string settle_checkpoint(EstimateRequest& r) {
  const CheckpointQuant checkpoint = r.model.checkpoint;
  const FrameworkConvention& framework = *r.recipe.framework;
  const CheckpointUse use = use_of_checkpoint(framework, checkpoint);
  const std::string what = fmt::format("the checkpoint is quantised ({})", to_string(checkpoint));
  if (use == CheckpointUse::Kept) return what + keep_checkpoint(r);
  if (use == CheckpointUse::Refused)
    throw InputError("--model",
                     fmt::format("{} is quantised ({}), and adapters are not trained on that with {}", r.model.id,
                                 to_string(checkpoint), deciding_versions(framework.versions, framework.name)),
                     "a copy in 16 bit, or one in 4 bits of bitsandbytes, GPTQ or AWQ");
  r.model.checkpoint = {};
  if (use != CheckpointUse::Unknown) r.model.unpacking = unpacking_of(framework, checkpoint);
  if (is_of_checkpoint(r.recipe.quant, checkpoint)) hold_in_16_bit(r.recipe);
  if (use == CheckpointUse::Unpacked) {
    const bool wins = r.recipe.quant.kind != BaseQuant::None;
    if (wins) hold_in_16_bit(r.recipe);
    return fmt::format("{}: unpacked to 16 bit while it loads, as {} does{}", what, framework.name,
                       wins ? ", which wins over what the recipe says" : "");
  }
  if (r.recipe.quant.kind != BaseQuant::None)  // transformers src/transformers/quantizers/auto.py @v4.56.0
    return fmt::format("{}: planned as a copy in 16 bit, which {} needs", what, format_of(r.recipe.quant.kind).text);
  if (use == CheckpointUse::Unknown)
    return fmt::format("{}: planned as a copy in 16 bit, since {} is not known to read it", what, framework.name);
  return what + ": unpacked to 16 bit while it loads (dequantize=True), since it is not trained as it is stored";
}

}  // namespace

std::vector<std::string> settle_stack(EstimateRequest& r) {
  const FrameworkConvention& found = *r.recipe.framework;
  if (found.family != r.model.model_type)
    r.recipe.framework = resolve_framework(found.name, {.given = found.versions, .date = {}}, r.model.model_type);
  std::vector<std::string> notes;
  if (r.model.checkpoint.is_present()) notes.push_back(settle_checkpoint(r));
  return notes;
}

Profile profile_of(const EstimateRequest& r) {
  return r.profile ? *r.profile : default_profile(r.cluster.gpus.front());
}

std::int64_t batch_replicas(const EstimateRequest& r) {
  const std::string_view name =
      r.strategy == "auto" ? whole_copies(r.cluster.num_gpus()) : std::string_view(r.strategy);
  if (const auto mistake = strategy_mistake(name, r.cluster, r.options)) throw refusal_of(r).value_or(*mistake);
  return make_strategy(name, r.cluster, r.options).mesh.batch_replicas();
}

std::string strategy_title(const EstimateRequest& r) {
  return make_strategy(r.strategy, r.cluster, options_for(r)).title();
}

std::int64_t usual_ways_of_expert(const EstimateRequest& r, std::int64_t tp, std::int64_t ep) {
  const FrameworkExpertParallel& trainer = r.recipe.framework->expert_parallel;
  const bool cuts = (trainer.cuts_beside_tensor || trainer.gathers_tokens) && r.model.moe.is_present();
  return cuts && ep == 1 ? tp : 1;
}

StrategyOptions options_for(const EstimateRequest& r) {
  StrategyOptions options = r.options;
  const FrameworkDistributed& habits = r.recipe.framework->distributed;
  options.splits_sequence |= r.recipe.framework->tensor_parallel.sequence == SequenceSplit::Always;
  if (options.etp == 0) options.etp = usual_ways_of_expert(r, options.tp, options.ep);
  if (const auto& exchanges = r.recipe.framework->context_parallel.exchanges;
      !options.context_exchange && !exchanges.empty())
    options.context_exchange = parse_name<ContextExchange>(exchanges.front(), "exchanges");
  const bool needs_flat_shards = (r.recipe.quant.kind == BaseQuant::Nf4 && !habits.fsdp2_shards_4bit) ||
                                 (r.recipe.optimizer->is_8bit && r.recipe.optimizer->needs_plain_tensors());
  if (!options.fsdp_version && needs_flat_shards && !habits.own_quantised_shards) options.fsdp_version = 1;
  return options;
}

namespace {

using Mistake = std::optional<InputError>;

/// Image tokens are part of the sequence, and at most 2^32 positions of the tower can be counted.
Mistake image_mistake(const Recipe& r, const ModelSpec& m) {
  const ImageSpec& images = r.images;
  if (images.width < 1 || images.height < 1 || std::max(images.width, images.height) > kMostPixels)
    return InputError("--image-size", fmt::format("{}x{} is out of range", images.width, images.height),
                      fmt::format("sides of 1 to {} pixels", kMostPixels));
  if (images.per_row < 1 || images.per_row > kMostImages)
    return InputError("--images-per-row", fmt::format("{} is out of range", images.per_row),
                      fmt::format("1 to {}", kMostImages));
  constexpr std::int64_t kMostRatio = 200;  // of smart_resize
  if (m.vision.rule == ImageRule::Grid &&
      std::max(images.width, images.height) > kMostRatio * std::min(images.width, images.height))
    return InputError("--image-size",
                      fmt::format("{}x{} is longer than {} times its width", images.width, images.height, kMostRatio),
                      "the model's processor refuses such images");
  const ImageGrid grid = image_grid(m.vision, images.width, images.height);
  if (images.per_row * grid.tokens > r.seq_len)
    return InputError("--seq-len",
                      fmt::format("{} {} of {}x{} {} {} tokens, more than the {} of a sequence", images.per_row,
                                  images.per_row == 1 ? "image" : "images", images.width, images.height,
                                  images.per_row == 1 ? "is" : "are", format_grouped(images.per_row * grid.tokens),
                                  format_grouped(r.seq_len)),
                      "a longer sequence, smaller images (--image-size) or fewer (--images-per-row)");
  if (r.micro_batch * images.per_row * grid.positions() > (std::int64_t(1) << 32))
    return InputError("--micro-batch", "the images of a micro batch have more than 2^32 patches");
  return {};
}

Mistake adapter_mistake(const Recipe& r, const ModelSpec& m) {
  if (r.lora.rank < 1 || r.lora.rank > m.hidden_size)
    return InputError("--lora r", fmt::format("rank {} is out of range", r.lora.rank),
                      fmt::format("1 to {}", m.hidden_size));
  if (!(r.lora.dropout >= 0 && r.lora.dropout < 1))
    return InputError("--lora dropout", fmt::format("{} is out of range", r.lora.dropout), "0 or more, below 1");
  if (r.lora.targets.empty())
    return InputError("--lora targets", "no target modules", "for example targets=all-linear or targets=q_proj+v_proj");
  return {};
}

std::string trainers_with(const std::string& method) {
  std::vector<std::string> names;
  for (const FrameworkConvention& f : list_frameworks())
    if (std::ranges::find(f.preference.methods, method) != f.preference.methods.end()) names.push_back(f.name);
  return fmt::format("--framework {}", fmt::join(names, ", "));
}

/// Refuses what the trainer does not have, and what contradicts the method.
Mistake method_mistake(const ModelSpec& model, const Recipe& r) {
  const Objective& objective = r.objective;
  const TrainingMethod& method = *objective.method;
  const std::vector<std::string>& known = r.framework->preference.methods;
  const bool is_usual = &method == &training_methods().front();
  if (!is_usual && std::ranges::find(known, method.like) == known.end())
    return InputError("--method",
                      fmt::format("nothing is known of {} ({}) with {}", method.name, method.title, r.framework->name),
                      trainers_with(method.like));
  if (!is_usual && model.head == HeadKind::Pooler && method.head == MethodHead::Vocabulary)
    return InputError("--method", fmt::format("{} is an encoder, which writes no text for {}", model.name, method.name),
                      "--method classify, embed or rerank, or another --model");
  if (objective.reference && !method.has_pass_of(PassModel::Reference))
    return InputError("--ref", fmt::format("{} compares with no reference", method.name), "leave it out");
  if (reference_of(r) == Reference::Adapter && !r.is_adapter())
    return InputError("--ref", "all weights are trained, so that no adapter can be switched off",
                      "--ref copy, or --lora");
  const FrameworkPreference& habits = r.framework->preference;
  if (reference_of(r) == Reference::Precomputed && method.generates)
    return InputError("--ref", fmt::format("the answers of {} do not exist before training", method.name),
                      "--ref copy, or --ref adapter with adapters");
  if (reference_of(r) == Reference::Precomputed && !habits.precomputes_reference)
    return InputError("--ref", fmt::format("{} makes no log-probs before training", r.framework->name), "leave it out");
  const bool is_fused = !is_usual && r.loss == LossKernel::Fused && method.head == MethodHead::Vocabulary;
  if (is_fused && std::ranges::find(habits.fused_methods, method.like) == habits.fused_methods.end())
    return InputError("--loss", fmt::format("{} fuses no loss of {}", r.framework->name, method.name), "--loss plain");
  if (is_fused && reference_of(r) == Reference::Precomputed)
    return InputError("--loss", "a fused loss makes the log-probs of the reference itself",
                      "--loss plain, or another --ref");
  if (objective.completion_len > r.seq_len)
    return InputError("--completion-len",
                      fmt::format("{} is more than the {} tokens of a row", objective.completion_len, r.seq_len),
                      "a longer --seq-len");
  if (objective.labels > 0 && method.head != MethodHead::Score)
    return InputError("--labels", fmt::format("{} has no head of numbers", method.name), "leave it out");
  if (objective.texts_per_row > 0 && method.head != MethodHead::Pooled)
    return InputError("--texts-per-row", fmt::format("{} reads {} rows", method.name, method.answers), "leave it out");
  if (objective.teacher_topk > 0 && !method.distils)
    return InputError("--teacher-topk", fmt::format("{} has no teacher", method.name), "leave it out");
  if (objective.teacher_topk > 0 && !habits.compares_topk)
    return InputError("--teacher-topk", fmt::format("{} compares all logits of a teacher", r.framework->name),
                      "leave it out");
  if (objective.teacher_topk > 0 && r.loss != LossKernel::Plain)
    return InputError("--teacher-topk", "the highest logits are compared by the plain loss alone", "--loss plain");
  return {};
}

/// Refuses what the cards cannot do.
Mistake card_mistake(const Recipe& r, const std::vector<GpuSpec>& cards) {
  const auto lacks = [&](AttentionKernel kernel, bool (*runs)(const GpuSpec&), std::string_view needs,
                         const char* hint) -> Mistake {
    const auto other = std::find_if_not(cards.begin(), cards.end(), runs);
    if (r.attention != kernel || other == cards.end()) return {};
    return InputError("--attention", fmt::format("{}, and {} has {}", needs, other->name, other->compute_capability),
                      hint);
  };
  if (auto lack = lacks(AttentionKernel::Flash, runs_flash_attention_2,
                        "flash-attention 2 needs compute capability 8.0", "use --attention sdpa"))
    return lack;
  if (auto lack =
          lacks(AttentionKernel::Flash3, runs_flash_attention_3,
                "FlashAttention 3 needs compute capability 9.0 (Hopper)", "use --attention flash, cudnn or sdpa"))
    return lack;
  const auto multiplies_fp8 = [](const GpuSpec& gpu) { return gpu.fp8.value > 0; };
  if (r.fp8_matmul && !std::all_of(cards.begin(), cards.end(), multiplies_fp8))
    return InputError("--fp8", "these GPUs have no fp8 units", "Ada, Hopper and Blackwell have");
  return {};
}

}  // namespace

Mistake recipe_mistake(const Recipe& r, const ModelSpec& m, const ClusterSpec& cluster) {
  if (r.micro_batch < 1 || r.micro_batch > kMostMicroBatch)
    return InputError("--micro-batch", fmt::format("{} is out of range", r.micro_batch),
                      fmt::format("1 to {} sequences", kMostMicroBatch));
  if (r.seq_len < 1 || r.seq_len > kMostSeqLen)
    return InputError("--seq-len", fmt::format("{} is out of range", r.seq_len),
                      fmt::format("1 to {} tokens", kMostSeqLen));
  if (const auto beyond = beyond_limits(r, m.checkpoint.is_present()))
    return InputError(beyond->flag, beyond->why, beyond->hint);
  if (r.grad_accum < 1 || r.grad_accum > kMostGradAccum)
    return InputError("--grad-accum", fmt::format("{} is out of range", r.grad_accum),
                      fmt::format("1 to {}", kMostGradAccum));
  if (r.tokens() > kMostBatchTokens)
    return InputError("--micro-batch", "micro batch times sequence length exceeds 2^32 tokens");
  if (cluster.gpus.empty()) return InputError("--gpus", "no GPUs given", "for example --gpus 4xA6000");
  if (m.vision.is_present())
    if (auto mistake = image_mistake(r, m)) return mistake;
  if (m.learned_positions > 0 && r.seq_len > m.max_position_embeddings)
    return InputError("--seq-len", fmt::format("{} has {} learned positions", m.name, m.max_position_embeddings),
                      fmt::format("use --seq-len {} or less", m.max_position_embeddings));
  if (r.is_adapter())
    if (auto mistake = adapter_mistake(r, m)) return mistake;
  if (!r.objective.method.is_usual())
    if (auto mistake = method_mistake(m, r)) return mistake;
  if (r.method == Method::Qlora && r.quant.kind == BaseQuant::None)
    return InputError("--qlora", "a QLoRA recipe needs a quantised base");
  if (r.method == Method::Full && (r.quant.kind != BaseQuant::None || m.checkpoint.is_present()))
    return InputError("--full", "a quantised base cannot be trained itself",
                      m.checkpoint.is_present() ? "add --lora, or take a copy in 16 bit" : "use --qlora");
  if (r.quant.kind == BaseQuant::Nf4 &&
      (r.quant.block_size < 16 || (r.quant.block_size & (r.quant.block_size - 1)) != 0))
    return InputError("--qlora block",
                      fmt::format("block size {} is not a power of two of at least 16", r.quant.block_size),
                      "bitsandbytes uses 64");
  if (r.checkpointing == Checkpointing::EveryK && (r.checkpoint_every < 1 || r.checkpoint_every > m.num_layers()))
    return InputError("--checkpointing", fmt::format("every={} is out of range", r.checkpoint_every),
                      fmt::format("1 to {} layers", m.num_layers()));
  if (r.offload.activations && r.checkpointing == Checkpointing::None)
    return InputError("--offload activations", "offloads checkpoint boundaries, and nothing is checkpointed",
                      "add --checkpointing full");
  if (r.optimizer_in_backward && r.grad_accum != 1)
    return InputError("--optimizer-in-backward", "steps in every backward pass, so it cannot accumulate",
                      "use --grad-accum 1");
  if (r.attention_groups < 1 || r.attention_groups > kMostAttentionGroups)
    return InputError("--attention-groups", fmt::format("{} groups is out of range", r.attention_groups),
                      fmt::format("1 to {}", kMostAttentionGroups));
  if (r.attention_groups > 1 && r.seq_len % r.attention_groups != 0)
    return InputError("--attention-groups",
                      fmt::format("{} groups do not divide sequences of {} tokens", r.attention_groups, r.seq_len),
                      "another --seq-len");
  if (r.routing != Routing{} && !m.moe.is_present())
    return InputError(r.routing.capacity           ? "--expert-capacity"
                      : r.routing.imbalance > 1    ? "--expert-imbalance"
                      : r.routing.pads_to_capacity ? "--pad-experts"
                                                   : "--dispatcher",
                      fmt::format("{} has no experts", m.name), "leave it out, or take a mixture of experts");
  if (r.routing.pads_to_capacity && !r.routing.capacity)
    return InputError("--pad-experts", "pads to a capacity, and experts have none", "add --expert-capacity");
  if (r.images.train == TrainVision::Whole && r.method == Method::Full)
    return InputError("--train-vision", "whole is for adapters, beside which the tower is trained itself",
                      "--train-vision all");
  if (r.loss_chunks < 1 || r.loss_chunks > kMostLossChunks)
    return InputError("--loss", fmt::format("{} chunks is out of range", r.loss_chunks),
                      fmt::format("1 to {}", kMostLossChunks));
  if (auto mistake = card_mistake(r, cluster.gpus.kinds())) return mistake;
  if (r.qat != Qat::None && r.quant.kind != BaseQuant::None)
    return InputError("--qat", "fake quantisers work on weights in 16 or 32 bit, and the base is quantised",
                      "--lora in the place of --qlora");
  if (r.qat != Qat::None && r.fp8_matmul)
    return InputError("--qat", "its linears multiply in 16 bit, and --fp8 in 8", "leave one of them out");
  if (r.fp8_matmul && r.precision == Precision::Fp32)
    return InputError("--fp8", "needs a 16-bit precision beside it", "use bf16-mixed or bf16-true");
  const bool computes_as_asked = r.framework->dtypes.qlora_computes_in_fp32;
  if (r.precision == Precision::Fp32 && r.method == Method::Qlora && !computes_as_asked)
    return InputError("--precision", "QLoRA computes in 16 bit", "use bf16-mixed or bf16-true");
  return {};
}

/// "add --method ppo": the first method that always has such a model.
static std::string add_method_with(PassModel model) {
  const auto has_it = [&](const SidePass& pass) { return pass.of == model && !pass.when_asked; };
  const auto row = std::ranges::find_if(
      training_methods(), [&](const TrainingMethod& method) { return std::ranges::any_of(method.passes, has_it); });
  GPUPLAN_CHECK(row != training_methods().end(), "a model that no method has");
  return fmt::format("add --method {}", row->name);
}

void check_teacher(const EstimateRequest& r) {
  const TrainingMethod& method = *r.recipe.objective.method;
  const bool needs_teacher = method.has_pass_of(PassModel::Teacher);
  if (needs_teacher && !r.teacher)
    throw InputError("--teacher", fmt::format("{} needs a second model", method.name),
                     "for example --teacher qwen2.5-14b");
  if (!needs_teacher && r.teacher)
    throw InputError("--teacher", fmt::format("{} has none", method.name), add_method_with(PassModel::Teacher));
  if (const std::int64_t topk = r.recipe.objective.teacher_topk, most = r.teacher ? r.teacher->vocab_size : topk;
      topk > most)
    throw InputError("--teacher-topk",
                     fmt::format("{} is more than the {} logits of a token of {}", format_grouped(topk),
                                 format_grouped(most), r.teacher->name),
                     fmt::format("at most {}, or leave it out: all are compared", most));
  if (r.teacher && limits_of(r.recipe.framework->name).one_vocabulary && r.teacher->vocab_size != r.model.vocab_size)
    throw InputError("--teacher",
                     fmt::format("{} has {} tokens and {} has {}: {} compares the vocabularies whole", r.teacher->name,
                                 format_grouped(r.teacher->vocab_size), r.model.name,
                                 format_grouped(r.model.vocab_size), r.recipe.framework->name),
                     "a teacher with the same vocabulary");
  if (!method.has_pass_of(PassModel::Critic) && r.critic)
    throw InputError("--critic", fmt::format("{} has none", method.name), add_method_with(PassModel::Critic));
  if (!method.has_pass_of(PassModel::Reward) && r.reward_model)
    throw InputError("--reward-model", fmt::format("{} has none on the GPUs", method.name),
                     add_method_with(PassModel::Reward));
}

void validate_recipe(const Recipe& recipe, const ModelSpec& model, const ClusterSpec& cluster) {
  if (const auto mistake = recipe_mistake(recipe, model, cluster)) throw *mistake;
}

}  // namespace gpuplan

#include "run/native_job.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/narrow.h"
#include "device/quantisation.h"
#include "models/adapter_kind.h"
#include "models/families.h"
#include "models/optimizers.h"
#include "models/rope.h"
#include "models/training_method.h"
#include "planner/phases.h"

namespace gpuplan {

NativeJob::NativeJob(const EstimateRequest& asked, const Strategy& wanted) : NativeJob(Job(asked, wanted)) {}

NativeJob::NativeJob(Job job) : Job(std::move(job)) {
  GPUPLAN_CHECK(framework.state.arrays == StateArrays::Flat, "the executor runs plans of its own framework record");
  require_native(request.model, recipe(), strategy, numerics);
  weights_ = parts().ways > 1 ? prepare(request.model, recipe(), framework).weights : model.weights;
  build_step_program(program_, *this, {});
  verify(program_);
  const auto place = [&](const StateList& list) { layouts_.push_back(unit_layout(list, numerics, recipe().quant)); };
  place(model.before);
  for (const std::uint8_t kind : model.weights.order) place(model.layers[kind]);
  place(head_state());
  if (recipe().pass == Pass::Train) make_passes();
}

/// A pass over the model that is trained expects its frozen weights where they lie.
void NativeJob::make_passes() {
  if (request.reward_model)
    throw InputError("--reward-model", "the native executor judges no answers: they are given with their advantages",
                     "leave it out");
  for (SidePhase& phase : side_phases(*this)) {
    if (phase.is_before_training) continue;  // rows of the data say what it made
    std::unique_ptr<const NativeJob> job(new NativeJob(std::move(phase.job)));
    for (std::size_t unit = 0; unit < layouts_.size() && !phase.has_own_weights; ++unit)
      GPUPLAN_CHECK(job->layouts_[unit].frozen == layouts_[unit].frozen && job->layouts_[unit].trained.empty(),
                    "a pass over the frozen weights finds them where they are");
    passes_.push_back({std::move(phase.name), std::move(job), phase.has_own_weights});
  }
}

/// A pipeline's last stage holds its own copy of a tied embedding, behind its own tensors.
StateList NativeJob::head_state() {
  head_weights_ = weights_.after;
  StateList state = model.after;
  const auto own = std::find_if(head_weights_.begin(), head_weights_.end(),
                                [](const WeightTensor& t) { return t.role == WeightRole::Head; });
  if (!model.has_tied_head) head_matrix_ = {head_unit(), narrow<std::uint16_t>(own - head_weights_.begin())};
  if (!model.has_tied_head || strategy.mesh.num_stages() == 1) return state;
  for (StateTensor t : model.before) {
    t.tensor = narrow<std::uint16_t>(t.tensor + head_weights_.size());
    state.push_back(t);
  }
  head_matrix_ = {head_unit(), narrow<std::uint16_t>(head_weights_.size())};
  head_weights_.insert(head_weights_.end(), weights_.before.begin(), weights_.before.end());
  return state;
}

const std::vector<WeightTensor>& NativeJob::weights_of(std::uint16_t unit) const {
  if (unit == 0) return weights_.before;
  if (unit == head_unit()) return head_weights_;
  return weights_.layer(unit - 1).tensors;
}

std::string NativeJob::tensor_name(std::uint16_t unit, std::uint16_t tensor) const {
  const WeightTensor& t = weights_of(unit)[tensor];
  if (unit == 0 || unit == head_unit()) return t.name;
  const LayerKind& kind = weights_.layer(unit - 1);
  return fmt::format(fmt::runtime(kind.prefix), unit - 1 - kind.offset) + t.name;
}

const LayerLinears* NativeJob::linears_of(std::uint16_t unit) const {
  if (unit == 0 || unit == head_unit()) return nullptr;
  return &model.linears[model.weights.order[unit - 1U]];
}

RankPlace place_of(std::int64_t rank, const Mesh& mesh) {
  const Domain state;
  return {.rank = rank,
          .stage = rank / mesh.ranks_per_stage(),
          .layer_part = layer_parts(mesh).of(rank),
          .batch = mesh.batch_replica(rank),
          .copy = mesh.place(rank, state.replicate),
          .shard = mesh.place(rank, state.shard)};
}

namespace {

constexpr std::string_view kOthers =
    "transformers with accelerate runs it (framework hf-trainer); `gpuplan run` will start it with --engine accelerate";

constexpr std::string_view kOthersWithImages =
    "a script of your own that loads the images: gpuplan run PLAN.json --engine accelerate -- train.py";

constexpr std::string_view kOthersWithMethods =
    "a trainer that has it (gpuplan export), or a script of your own: gpuplan run PLAN.json --engine accelerate -- "
    "train.py";

/// One thing that the executor may lack: whether this plan needs it, and its name.
struct Lack {
  bool is_needed;
  std::string where, what;
  std::string_view instead = kOthers;
};

[[noreturn]] void refuse(const Lack& lack) {
  throw InputError(lack.where, fmt::format("the native executor has no {}", lack.what), std::string(lack.instead));
}

/// "llama, mistral, …".
std::string executable_families() {
  std::string names;
  for (const Family* family : families())
    if (family->is_executable) names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

bool is_llama_like(const ModelSpec& m) {
  return family_of(m).is_executable && m.norm == NormKind::RmsNorm && m.mlp == MlpKind::Gated &&
         m.position == PositionKind::Rope && m.residual == ResidualKind::Sequential &&
         m.norm_placement == NormPlacement::Pre && m.activation == "silu" && !m.moe.is_present() && !m.has_fused_qkv &&
         !m.has_fused_gate_up;
}

std::vector<Lack> of_model(const ModelSpec& m, const Recipe& r) {
  const bool has_window = m.sliding_window > 0 && m.sliding_layers > 0 && r.seq_len > m.sliding_window;
  return {
      {m.vision.is_present(), "model", fmt::format("vision tower ({} has one)", m.name), kOthersWithImages},
      {m.is_hybrid(), "model", fmt::format("kernels of Mamba-2 and linear-attention layers ({} has them)", m.name)},
      {!is_llama_like(m), "model",
       fmt::format("family {}: it runs Llama-like decoders ({})", m.family, executable_families())},
      {!is_known_rope(m.rope), "config.json: rope_scaling",
       fmt::format("rotary scaling '{}' (default, linear, llama3)", m.rope.type)},
      {has_window && m.sliding_layers < m.num_hidden_layers, "model",
       "sliding window in some layers only, with a sequence beyond it"},
      {m.checkpoint.is_present(), "model", fmt::format("a quantised checkpoint ({})", to_string(m.checkpoint))},
      {m.attention_dropout > 0 || m.residual_dropout > 0 || m.mlp_dropout > 0, "config.json", "dropout in the model"}};
}

/// "sft, dpo, …".
std::string trained_methods() {
  std::vector<std::string> names;
  for (const TrainingMethod& method : training_methods())
    if (method.loss != MethodLoss::None) names.push_back(method.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Lack> of_recipe(const Recipe& r) {
  const std::string_view optimizer = r.optimizer->name;
  const bool is_adamw = optimizer == "adamw-fused" || optimizer == "adamw-foreach" || optimizer == "adamw-loop" ||
                        optimizer == "adamw-8bit";
  return {{!is_adamw, "--optimizer", fmt::format("{} (adamw, adamw-8bit)", optimizer)},
          {r.precision == Precision::Fp16Mixed, "--precision", "fp16 (fp32, bf16-true, bf16-mixed)"},
          {r.precision == Precision::Bf16Loaded, "--precision", "bf16-loaded (fp32, bf16-true, bf16-mixed)"},
          {r.quant.kind != BaseQuant::None && r.quant.kind != BaseQuant::Nf4, "--lora", "int8 or GPTQ base (NF4)"},
          {r.quant.kind == BaseQuant::Nf4 && r.quant.block_size != kNf4Block, "--lora",
           fmt::format("NF4 blocks other than {}", kNf4Block)},
          {!r.trained.empty(), "--train-only", "training of some parameters alone"},
          {r.qat != Qat::None, "--qat", "fake quantisers"},
          {r.lora.dropout > 0 && r.is_adapter(), "--lora dropout", "adapter dropout"},
          {r.lora.is_dora && r.is_adapter(), "--lora", "DoRA"},
          {!r.lora.kind->is_lora() && r.is_adapter(), "--lora kind", r.lora.kind->title},
          {r.lora.linear_experts && r.is_adapter(), "--lora linear-experts", "experts as linears"},
          {!r.lora.modules_to_save.empty() && r.is_adapter(), "--lora modules_to_save",
           "full copies of modules beside adapters"},
          {r.attention == AttentionKernel::Eager, "--attention", "eager attention (its own kernel needs O(s) memory)"},
          {r.attention == AttentionKernel::Cudnn || r.attention == AttentionKernel::Flash3, "--attention",
           "attention by cuDNN or FlashAttention 3 (sdpa and flash name its own kernel)"},
          {r.torch_compile, "--compile", "torch.compile (it has kernels of its own)"},
          {r.attention_groups > 1, "--attention-groups", "attention within groups"},
          {r.loss == LossKernel::Chunked || r.loss == LossKernel::Fused, "--loss",
           "chunked or fused loss (its own works in place)"},
          {r.optimizer_in_backward, "--optimizer-in-backward", "optimizer step inside backward"},
          {r.fp8_matmul, "--fp8", "fp8 products"},
          {r.objective.method->loss == MethodLoss::None, "--method",
           fmt::format("loss of {} ({})", r.objective.method->title, trained_methods()), kOthersWithMethods},
          {reference_of(r) == Reference::Host, "--ref", "reference that waits on the host (copy, adapter, precomputed)",
           kOthersWithMethods},
          {r.offload.optimizer == OffloadTarget::Nvme || r.offload.params == OffloadTarget::Nvme, "--offload",
           "offload to NVMe (cpu)"},
          {r.offload.params != OffloadTarget::None && r.quant.kind != BaseQuant::None, "--offload params",
           "offload of quantised weights"}};
}

/// A product has one dtype: what is frozen is stored in it, adapters in it or in fp32.
std::vector<Lack> of_dtypes(const Recipe& r, const DtypePolicy& n) {
  const auto under = [&](const char* what, Dtype dtype) {
    return fmt::format("{} of {} where it computes in {}", what, to_string(dtype), to_string(n.compute));
  };
  return {{r.is_adapter() && n.frozen != n.compute, "--lora base", under("base weights", n.frozen)},
          {r.is_adapter() && n.adapter != Dtype::F32 && n.adapter != n.compute, "--lora dtype",
           under("adapters", n.adapter)}};
}

std::vector<Lack> of_strategy(const ModelSpec& m, const Recipe& r, const Strategy& s) {
  const std::int64_t parts = layer_parts(s.mesh).ways;
  return {
      {s.wrap == WrapPolicy::Size, "--wrap", "wrapping by size (layers)"},
      {s.mesh.num_stages() > 1 && m.tie_word_embeddings && !r.is_adapter(), lays_stages(s.name) ? "--strategy" : "--pp",
       "full fine-tuning of a tied head over pipeline stages: its two ends are one tensor"},
      {m.vocab_size % parts != 0, "--tp",
       fmt::format("vocabulary of {} that tp {} does not divide", m.vocab_size, parts)},
      {parts > 1 && (r.offload.optimizer != OffloadTarget::None || r.offload.params != OffloadTarget::None),
       "--offload", "offload of optimizer or weights beside tp"},
      {r.offload.params != OffloadTarget::None && r.offload.optimizer == OffloadTarget::None &&
           s.engine == ShardingEngine::Zero,
       "--offload params", "optimizer on the device that steps weights of the host (params,optimizer)"},
      {r.offload.params != OffloadTarget::None && s.mesh.shard_ways() == 1, "--offload params",
       "offload of weights that are not sharded over two GPUs or more"}};
}

}  // namespace

void require_native(const ModelSpec& model, const Recipe& recipe, const Strategy& strategy,
                    const DtypePolicy& numerics) {
  for (const auto& lacks :
       {of_model(model, recipe), of_recipe(recipe), of_dtypes(recipe, numerics), of_strategy(model, recipe, strategy)})
    for (const Lack& lack : lacks)
      if (lack.is_needed) refuse(lack);
}

}  // namespace gpuplan

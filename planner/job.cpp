#include "planner/job.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/framework.h"
#include "models/optimizers.h"

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
    : Job(r, prepare(r.model, r.recipe, find_framework(r.recipe.framework)), find_framework(r.recipe.framework),
          profile_of(r), std::move(s)) {}

void Job::use(Strategy other) {
  strategy = std::move(other);
  numerics = resolve_numerics(recipe(), framework, strategy.engine, &model.spec);
  rules = size_rules(strategy, framework, model.spec, recipe());
}

Profile profile_of(const EstimateRequest& r) {
  return r.profile ? *r.profile : default_profile(r.cluster.gpus.front());
}

StrategyOptions options_for(const EstimateRequest& r, const FrameworkConvention& framework) {
  StrategyOptions options = r.options;
  const bool needs_flat_shards = r.recipe.quant.kind == BaseQuant::Nf4 || find_optimizer(r.recipe.optimizer).is_8bit;
  if (!options.fsdp_version && needs_flat_shards && !framework.distributed.fsdp2_shards_quantised)
    options.fsdp_version = 1;
  return options;
}

namespace {

void require(bool condition, const char* where, const std::string& problem, const std::string& hint = {}) {
  if (!condition) throw InputError(where, problem, hint);
}

/// Image tokens are part of the sequence, and at most 2^32 positions of the tower can be counted.
void check_images(const Recipe& r, const ModelSpec& m) {
  const ImageSpec& images = r.images;
  require(images.width >= 1 && images.height >= 1 && std::max(images.width, images.height) <= kMostPixels,
          "--image-size", fmt::format("{}x{} is out of range", images.width, images.height),
          fmt::format("sides of 1 to {} pixels", kMostPixels));
  require(images.per_row >= 1 && images.per_row <= kMostImages, "--images-per-row",
          fmt::format("{} is out of range", images.per_row), fmt::format("1 to {}", kMostImages));
  constexpr std::int64_t kMostRatio = 200;  // of smart_resize
  require(m.vision.rule != ImageRule::Grid ||
              std::max(images.width, images.height) <= kMostRatio * std::min(images.width, images.height),
          "--image-size",
          fmt::format("{}x{} is longer than {} times its width", images.width, images.height, kMostRatio),
          "the model's processor refuses such images");
  const ImageGrid grid = image_grid(m.vision, images.width, images.height);
  require(images.per_row * grid.tokens <= r.seq_len, "--seq-len",
          fmt::format("{} {} of {}x{} {} {} tokens, more than the {} of a sequence", images.per_row,
                      images.per_row == 1 ? "image" : "images", images.width, images.height,
                      images.per_row == 1 ? "is" : "are", format_grouped(images.per_row * grid.tokens),
                      format_grouped(r.seq_len)),
          "a longer sequence, smaller images (--image-size) or fewer (--images-per-row)");
  require(r.micro_batch * images.per_row * grid.positions() <= (std::int64_t(1) << 32), "--micro-batch",
          "the images of a micro batch have more than 2^32 patches");
}

}  // namespace

void validate_recipe(const Recipe& r, const ModelSpec& m, const ClusterSpec& cluster) {
  require(r.micro_batch >= 1 && r.micro_batch <= kMostMicroBatch, "--micro-batch",
          fmt::format("{} is out of range", r.micro_batch), fmt::format("1 to {} sequences", kMostMicroBatch));
  require(r.seq_len >= 1 && r.seq_len <= kMostSeqLen, "--seq-len", fmt::format("{} is out of range", r.seq_len),
          fmt::format("1 to {} tokens", kMostSeqLen));
  require(r.grad_accum >= 1 && r.grad_accum <= kMostGradAccum, "--grad-accum",
          fmt::format("{} is out of range", r.grad_accum), fmt::format("1 to {}", kMostGradAccum));
  require(r.tokens() <= kMostBatchTokens, "--micro-batch", "micro batch times sequence length exceeds 2^32 tokens");
  require(!cluster.gpus.empty(), "--gpus", "no GPUs given", "for example --gpus 4xA6000");
  if (m.vision.is_present()) check_images(r, m);
  if (m.learned_positions > 0)
    require(r.seq_len <= m.max_position_embeddings, "--seq-len",
            fmt::format("{} has {} learned positions", m.name, m.max_position_embeddings),
            fmt::format("use --seq-len {} or less", m.max_position_embeddings));
  if (r.is_adapter()) {
    require(r.lora.rank >= 1 && r.lora.rank <= m.hidden_size, "--lora r",
            fmt::format("rank {} is out of range", r.lora.rank), fmt::format("1 to {}", m.hidden_size));
    require(r.lora.dropout >= 0 && r.lora.dropout < 1, "--lora dropout",
            fmt::format("{} is out of range", r.lora.dropout), "0 or more, below 1");
    require(!r.lora.targets.empty(), "--lora targets", "no target modules",
            "for example targets=all-linear or targets=q_proj+v_proj");
  }
  require(r.method != Method::Qlora || r.quant.kind != BaseQuant::None, "--qlora",
          "a QLoRA recipe needs a quantised base");
  require(r.method != Method::Full || r.quant.kind == BaseQuant::None, "--full",
          "a quantised base cannot be trained itself", "use --qlora");
  if (r.quant.kind == BaseQuant::Nf4)
    require(r.quant.block_size >= 16 && (r.quant.block_size & (r.quant.block_size - 1)) == 0, "--qlora block",
            fmt::format("block size {} is not a power of two of at least 16", r.quant.block_size),
            "bitsandbytes uses 64");
  require(r.checkpointing != Checkpointing::EveryK || (r.checkpoint_every >= 1 && r.checkpoint_every <= m.num_layers()),
          "--checkpointing", fmt::format("every={} is out of range", r.checkpoint_every),
          fmt::format("1 to {} layers", m.num_layers()));
  require(!r.offload.activations || r.checkpointing != Checkpointing::None, "--offload activations",
          "offloads checkpoint boundaries, and nothing is checkpointed", "add --checkpointing full");
  require(!r.optimizer_in_backward || r.grad_accum == 1, "--optimizer-in-backward",
          "steps in every backward pass, so it cannot accumulate", "use --grad-accum 1");
  require(r.loss_chunks >= 1 && r.loss_chunks <= kMostLossChunks, "--loss",
          fmt::format("{} chunks is out of range", r.loss_chunks), fmt::format("1 to {}", kMostLossChunks));
  const auto require_card = [&](AttentionKernel kernel, bool (*runs)(const GpuSpec&), std::string_view needs,
                                const char* hint) {
    const auto other = std::find_if_not(cluster.gpus.kinds().begin(), cluster.gpus.kinds().end(), runs);
    if (r.attention == kernel && other != cluster.gpus.kinds().end())
      throw InputError("--attention", fmt::format("{}, and {} has {}", needs, other->name, other->compute_capability),
                       hint);
  };
  require_card(AttentionKernel::Flash, runs_flash_attention_2, "flash-attention 2 needs compute capability 8.0",
               "use --attention sdpa");
  require_card(AttentionKernel::Flash3, runs_flash_attention_3,
               "FlashAttention 3 needs compute capability 9.0 (Hopper)", "use --attention flash, cudnn or sdpa");
  const auto multiplies_fp8 = [](const GpuSpec& gpu) { return gpu.fp8.value > 0; };
  require(!r.fp8_matmul || std::all_of(cluster.gpus.kinds().begin(), cluster.gpus.kinds().end(), multiplies_fp8),
          "--fp8", "these GPUs have no fp8 units", "Ada, Hopper and Blackwell have");
  require(!r.fp8_matmul || r.precision != Precision::Fp32, "--fp8", "needs a 16-bit precision beside it",
          "use bf16-mixed or bf16-true");
  const bool computes_as_asked = find_framework(r.framework).dtypes.qlora_computes_in_fp32;
  require(r.precision != Precision::Fp32 || r.method != Method::Qlora || computes_as_asked, "--precision",
          "QLoRA computes in 16 bit", "use bf16-mixed or bf16-true");
  find_optimizer(r.optimizer);
}

}  // namespace gpuplan

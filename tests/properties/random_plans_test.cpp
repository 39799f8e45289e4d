// Random recipes over every option, framework and strategy: each program verifies, both replays agree, time is finite.
// The seed and the case are printed when one fails.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "base/names.h"
#include "models/catalogue.h"
#include "models/optimizers.h"
#include "models/weights.h"
#include "planner/estimate.h"
#include "sanitized.h"

using namespace gpuplan;

namespace {

class RecipeDice {
 public:
  explicit RecipeDice(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return std::int64_t(random_() % std::uint64_t(n)); }
  bool often() { return below(2) == 0; }
  bool rarely() { return below(5) == 0; }
  template <class T, std::size_t N>
  const T& pick(const T (&values)[N]) {
    return values[std::size_t(below(N))];
  }

 private:
  std::mt19937_64 random_;
};

Recipe random_recipe(RecipeDice& dice) {
  Recipe r;
  r.method = dice.pick({Method::Full, Method::Lora, Method::Qlora});
  if (r.method == Method::Qlora)
    r.quant = {.kind = dice.rarely() ? BaseQuant::Int8 : BaseQuant::Nf4, .double_quant = dice.often()};
  r.lora.rank = dice.pick({1, 8, 64});
  r.lora.dropout = dice.often() ? 0 : 0.1;
  r.lora.is_dora = dice.rarely();
  r.precision = r.method == Method::Qlora
                    ? dice.pick({Precision::Bf16Mixed, Precision::Bf16True})
                    : dice.pick({Precision::Bf16Mixed, Precision::Bf16True, Precision::Fp16Mixed, Precision::Fp32});
  r.optimizer = std::string(optimizers()[std::size_t(dice.below(std::int64_t(optimizers().size())))].name);
  r.micro_batch = dice.pick({1, 2, 5});
  r.seq_len = dice.pick({64, 512, 1000});
  r.grad_accum = dice.pick({1, 1, 2, 3, 7});
  r.optimizer_in_backward = r.grad_accum == 1 && dice.rarely();
  r.checkpointing =
      dice.pick({Checkpointing::None, Checkpointing::Full, Checkpointing::Selective, Checkpointing::EveryK});
  r.checkpoint_every = dice.pick({1, 2, 3});
  r.attention = dice.pick({AttentionKernel::Eager, AttentionKernel::Sdpa, AttentionKernel::Flash});
  r.loss = dice.pick({LossKernel::Plain, LossKernel::InPlace, LossKernel::Chunked, LossKernel::Fused});
  if (dice.often()) r.kernels = dice.pick({LayerKernels::Plain, LayerKernels::Fused});
  if (dice.rarely()) r.offload.optimizer = OffloadTarget::Cpu;
  if (dice.rarely()) r.offload.optimizer = r.offload.params = dice.pick({OffloadTarget::Cpu, OffloadTarget::Nvme});
  r.offload.activations = r.checkpointing != Checkpointing::None && dice.rarely();
  const auto frameworks = list_frameworks();
  r.framework = frameworks[std::size_t(dice.below(std::int64_t(frameworks.size())))].name;
  return r;
}

/// "model.embed_tokens.weight" -> "embed_tokens"
std::string embedding_module(const ModelSpec& model) {
  const std::vector<std::string> parts = split(list_weights(model).before.front().name, '.');
  return parts[parts.size() - 2];
}

}  // namespace

TEST_CASE("random recipes: every applicable strategy verifies, replays agree, memory and time are sane") {
  const char* models[] = {"gpt2",        "llama-3.2-1b",     "gemma-2-2b",    "gemma-3-270m", "phi-3-mini",
                          "qwen3-0.6b",  "smollm2-135m",     "qwen2.5-0.5b",  "olmoe-1b-7b",  "qwen1.5-moe-a2.7b",
                          "gpt-oss-20b", "deepseek-v2-lite", "flan-t5-small", "t5-small",     "bert-base",
                          "opt-350m",    "bloom-560m",       "pythia-160m",   "falcon-7b",    "santacoder-1.1b",
                          "olmo2-1b",    "mpt-125m",         "phi-1.5",       "starcoder2-3b"};
  const char* clusters[] = {"1xA100", "2x4090", "3xA6000", "4xH100", "8xA100", "2x4090,2x3090", "16xH100"};
  int evaluated = 0;
  constexpr unsigned kSeeds = test::kIsSanitized ? 20 : 160;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    RecipeDice dice(seed);
    EstimateRequest r;
    r.model = load_model(dice.pick(models)).spec;
    r.recipe = random_recipe(dice);
    if (r.model.learned_positions > 0) r.recipe.seq_len = std::min(r.recipe.seq_len, r.model.max_position_embeddings);
    r.cluster = parse_gpus(dice.pick(clusters));
    r.options.fsdp_version = dice.often() ? 1 : 2;
    r.options.reshards = !dice.rarely();
    if (dice.rarely())
      r.options.wrap = WrapPolicy::Size, r.options.wrap_min_params = dice.pick({1'000'000, 20'000'000, 1'000'000'000});
    if (r.recipe.method != Method::Full && dice.rarely()) r.recipe.lora.modules_to_save = {embedding_module(r.model)};
    Job job(r, {});
    StepProgram program;
    for (const std::string_view name : strategy_names()) {
      INFO("seed " << seed << ": " << r.model.name << " on " << r.cluster.name << ", " << std::string(name)
                   << ", framework " << r.recipe.framework->name << ", optimizer " << r.recipe.optimizer->name);
      const Strategy strategy = make_strategy(name, r.cluster, r.options);
      if (!why_not_applicable(strategy, r.cluster, r.recipe, r.model).empty()) continue;
      job.use(strategy);
      StrategyEstimate e;
      REQUIRE_NOTHROW(e = estimate_strategy(job, program));
      CHECK_NOTHROW(verify(program));
      Bytes sum;
      for (const Bytes part : e.memory) {
        CHECK(part.count >= 0);
        sum += part;
      }
      CHECK(sum == e.tiers.process);
      CHECK(e.tiers.tensors <= e.tiers.reserved);
      CHECK(e.tiers.reserved <= e.tiers.process);
      CHECK(std::isfinite(e.time.step.value));
      CHECK(e.time.step.value > 0);
      CHECK(e.time.step.value >= e.time.compute.value * 0.999);
      for (const RankClass& c : program.classes)
        CHECK(replay(program, c).tensors == replay_detailed(program, c, r.model.num_layers()).tensors);
      ++evaluated;
    }
  }
  CHECK(evaluated > 5 * kSeeds / 2);
}

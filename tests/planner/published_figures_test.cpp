// Figures that papers, documentation and the field's folklore state, held against what the planner computes.
#include <cmath>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "models/optimizers.h"
#include "models/quantisation.h"
#include "planner/estimate.h"
#include "planner/explain.h"
#include "planner/state_sizes.h"

using namespace gpuplan;

namespace {

StateSizes whole_state(const TrainedModel& model, const Recipe& recipe, const SizeRules& rules) {
  const FrameworkConvention& framework = *recipe.framework;
  const DtypePolicy n = resolve_numerics(recipe, framework, rules.engine);
  StateSizes total;
  model.each_state([&](const StateList& list, std::int64_t times) {
    const StateSizes z = state_sizes(list, n, recipe, rules);
    for (std::int64_t i = 0; i < times; ++i) total += z;
  });
  return total;
}

/// Persistent bytes per parameter: weights, gradients, master, optimizer state.
double bytes_per_parameter(const Recipe& recipe, const char* name, const SizeRules& rules = {}) {
  const TrainedModel model = prepare(load_model(name).spec, recipe, *recipe.framework);
  const StateSizes z = whole_state(model, recipe, rules);
  const Bytes weights = rules.layout.shards_weights || rules.ways == 1 ? z.trained : z.trained;
  const Bytes gradients = rules.layout.shards_gradients || rules.ways == 1 ? z.gradient : z.full_gradient;
  return double((weights + gradients + z.master + z.state).count) / double(model.parameters);
}

Peak step_peak(Recipe recipe, const char* name) {
  EstimateRequest r;
  r.model = load_model(name).spec;
  r.recipe = recipe;
  r.recipe.micro_batch = 1;
  r.recipe.seq_len = 16;  // activations small: the optimizer step sets the peak
  r.cluster = parse_gpus("1xH200");
  const FrameworkConvention& framework = *recipe.framework;
  StepProgram program;
  const Job job(r, prepare(r.model, r.recipe, framework), framework, default_profile("h200-sxm"),
                make_strategy("single", r.cluster, {}));
  return estimate_strategy(job, program).peak;
}

}  // namespace

TEST_CASE("pure bf16 keeps 8 bytes per trained parameter, fp32 weights 16") {
  Recipe r;
  r.precision = Precision::Bf16True;
  CHECK(bytes_per_parameter(r, "llama-3-8b") == doctest::Approx(8).epsilon(0.005));  // 2 + 2 + 4
  r.precision = Precision::Bf16Mixed;
  CHECK(bytes_per_parameter(r, "llama-3-8b") == doctest::Approx(16).epsilon(0.005));  // 4 + 4 + 8
  r.precision = Precision::Fp32;
  CHECK(bytes_per_parameter(r, "gpt2-xl") == doctest::Approx(16).epsilon(0.005));
}

TEST_CASE("a foreach optimizer peaks at 10 and 20 bytes per parameter at the step, a fused one at 8 and 16") {
  const auto peak = [](Precision precision, const char* optimizer) {
    Recipe r;
    r.precision = precision;
    r.optimizer = optimizer;
    const Peak p = step_peak(r, "llama-3-8b");
    return double(p.tensors.count) / 8'030'261'248.0;
  };
  CHECK(peak(Precision::Bf16True, "adamw-foreach") == doctest::Approx(10).epsilon(0.005));
  CHECK(peak(Precision::Bf16Mixed, "adamw-foreach") == doctest::Approx(20).epsilon(0.005));
  CHECK(peak(Precision::Bf16True, "adamw-fused") == doctest::Approx(8).epsilon(0.005));
}

TEST_CASE("Adam under ZeRO-2 runs out of memory where it was seen to: in a division, with 28.28 GiB held") {
  // Llama-7B in fp16 on 8 V100 of 32 GB (hiyouga/LLaMA-Factory issue 1221): 3.14 GiB were asked for. Weights 12.55 GiB;
  // master, m, v and fp32 gradients of an eighth 4 x 3.14; sqrt(v) 3.14: 28.25. The division makes 31.39.
  EstimateRequest r;
  r.model = load_model("llama-7b").spec;
  r.recipe.framework = "llama-factory";
  r.recipe.precision = Precision::Fp16Mixed;
  r.recipe.checkpointing = Checkpointing::Full;
  r.recipe.seq_len = 512, r.recipe.micro_batch = 1;
  r.cluster = parse_gpus("8xV100-32GB");
  const FrameworkConvention& framework = *r.recipe.framework;
  const auto tensors = [&](const char* optimizer) {
    r.recipe.optimizer = optimizer;
    StepProgram program;
    const Job job(r, prepare(r.model, r.recipe, framework), framework, default_profile(r.cluster.gpus.front()),
                  make_strategy("zero2", r.cluster, {}));
    return double(estimate_strategy(job, program).peak.tensors.count) / double(1 << 30);
  };
  CHECK(tensors("adamw-foreach") == doctest::Approx(28.28).epsilon(0.003));
  CHECK(tensors("adamw-loop") == doctest::Approx(28.28 + 3.14).epsilon(0.003));
}

TEST_CASE("under ZeRO-2 AdamW holds two tensors of a partition more than Muon at the step") {
  // Qwen2.5-3B on 8 A100 (deepspeedai/DeepSpeed blogs/muon-optimizer @edaa7221): 34.5 against 31.4 GiB. One moment of
  // the 2.77 B elements of blocks / 8 is 1.29 GiB; Muon adds its update in place where AdamW takes sqrt(v). The
  // embedding has both moments (set_optimizer_flags of deepspeed/__init__.py).
  Recipe r;
  r.framework = "hf-deepspeed";
  const TrainedModel model = prepare(load_model("qwen2.5-3b").spec, r, *r.framework);
  const FrameworkConvention& framework = *r.framework;
  const SizeRules rules = size_rules(make_strategy("zero2", parse_gpus("8xA100"), {}), framework, model.spec, r);
  const auto at_step = [&](const char* optimizer) {
    r.optimizer = optimizer;
    const StateSizes z = whole_state(model, r, rules);
    return double((z.state + z.step_temporary).count) / double(1 << 30);
  };
  CHECK(at_step("adamw-foreach") - at_step("muon") == doctest::Approx(2 * 1.29).epsilon(0.01));
}

TEST_CASE("bf16 optimizer states halve the moments of fp32 weights: 12 bytes per parameter") {
  Recipe r;
  r.optimizer = "adamw-bf16-states";
  CHECK(bytes_per_parameter(r, "llama-3-8b") == doctest::Approx(12).epsilon(0.005));  // 4 + 4 + 2 x 2
  r.optimizer = "adamw-8bit";
  CHECK(bytes_per_parameter(r, "llama-3-8b") == doctest::Approx(10.03).epsilon(0.005));  // 4 + 4 + 2 (1 + 4/256)
}

TEST_CASE("Megatron: 18 bytes per parameter, 6 + 12/n with the distributed optimizer") {
  // theoretical_memory_usage.py: 2 weights + 4 fp32 gradients + 4 master + 8 states
  Recipe r;
  r.framework = "megatron";
  CHECK(bytes_per_parameter(r, "llama-2-7b", {.engine = ShardingEngine::Zero}) == doctest::Approx(18).epsilon(0.001));
  const StateLayout zero1{true, false, false, true};
  CHECK(bytes_per_parameter(r, "llama-2-7b", {.engine = ShardingEngine::Zero, .layout = zero1, .ways = 8}) ==
        doctest::Approx(6 + 12.0 / 8).epsilon(0.001));
}

TEST_CASE("ZeRO paper: 3.82x, 7.21x and 64x less state for stages 1, 2 and 3 on 64 GPUs") {
  // arXiv 1910.02054 figure 1: 16 P against 2P + 2P + 12P/64, 2P + 14P/64, 16P/64; 16 / 4.1875 = 3.82, 16 / 2.21875
  // = 7.21
  Recipe r;
  r.framework = "deepspeed";
  const auto state = [&](StateLayout layout) {
    return bytes_per_parameter(r, "llama-2-7b", {.engine = ShardingEngine::Zero, .layout = layout, .ways = 64});
  };
  const double replicated = bytes_per_parameter(r, "llama-2-7b", {.engine = ShardingEngine::Zero});
  CHECK(replicated == doctest::Approx(16).epsilon(0.001));
  CHECK(replicated / state({true, false, false, true}) == doctest::Approx(3.82).epsilon(0.005));
  CHECK(replicated / state({true, true, false, true}) == doctest::Approx(7.21).epsilon(0.005));
  CHECK(replicated / state({true, true, true, true}) == doctest::Approx(64).epsilon(0.005));
}

TEST_CASE("LoRA's worked example: a 1024 x 1024 linear with r = 8 trains 1/64 of it") {
  const std::int64_t r = 8, in = 1024, out = 1024;
  CHECK(r * (in + out) * 64 == in * out);
  // and in a model: GPT-2 medium's c_proj of attention is 1024 x 1024
  Recipe recipe;
  recipe.method = Method::Lora;
  recipe.lora.targets = {"c_proj"};
  const TrainedModel model = prepare(load_model("gpt2-medium").spec, recipe, find_framework("hf-trainer"));
  CHECK(model.trainable == 24 * (8 * (1024 + 1024) + 8 * (4096 + 1024)));  // attention and MLP c_proj
}

TEST_CASE("adapter counts by arithmetic: Llama-3.1-8B r = 8") {
  const auto trainable = [](std::vector<std::string> targets, std::int64_t rank) {
    Recipe r;
    r.method = Method::Lora;
    r.lora.rank = rank;
    r.lora.targets = std::move(targets);
    return prepare(load_model("llama-3.1-8b").spec, r, find_framework("hf-trainer")).trainable;
  };
  CHECK(trainable({"q_proj", "v_proj"}, 8) == 3'407'872);
  CHECK(trainable({"q_proj", "k_proj", "v_proj", "o_proj"}, 8) == 6'815'744);
  CHECK(trainable({"all-linear"}, 8) == 20'971'520);
  CHECK(trainable({"all-linear"}, 16) == 41'943'040);
}

TEST_CASE("the ladder 16 -> 2 -> 0.5 bytes per parameter: trained, frozen in 16 bit, frozen in NF4") {
  Recipe lora;
  lora.method = Method::Lora;
  const TrainedModel model = prepare(load_model("llama-3.1-8b").spec, lora, find_framework("hf-trainer"));
  CHECK(double(whole_state(model, lora, {}).frozen.count) / double(model.parameters) == doctest::Approx(2));
  QuantSpec nf4{.kind = BaseQuant::Nf4};
  CHECK(double(quantised_bytes(1 << 24, 4096, nf4).count) / (1 << 24) ==
        doctest::Approx(0.515869).epsilon(1e-5));  // 0.5 + 1/64 + 4/(64*256)
  nf4.double_quant = false;
  CHECK(double(quantised_bytes(1 << 24, 4096, nf4).count) / (1 << 24) == doctest::Approx(0.5625));  // 0.5 + 4/64
}

TEST_CASE(
    "Llama-3.1-8B resident QLoRA base: 5.31 GiB with 16-bit ends, 7.27 GiB after prepare_model_for_kbit_training") {
  Recipe r;
  r.method = Method::Qlora;
  r.quant.kind = BaseQuant::Nf4;
  const auto base = [&](const char* framework) {
    r.framework = framework;
    return double(whole_state(prepare(load_model("llama-3.1-8b").spec, r, find_framework(framework)), r, {})
                      .frozen.count) /
           0x1p30;
  };
  CHECK(base("hf-trainer") == doctest::Approx(7.27).epsilon(0.002));
  CHECK(base("fms-hf-tuning") == doctest::Approx(5.31).epsilon(0.002));
}

TEST_CASE("--explain shows the rules of thumb beside the truth for llama-3-8b") {
  EstimateRequest r;
  r.model = load_model("llama-3-8b").spec;
  r.cluster = parse_gpus("8xH100");
  r.strategy = "fsdp";
  const EstimateResult result = estimate(r);
  std::string all;
  for (const ExplainSection& s : explain(r, result, result.strategies.front()))
    for (const ExplainLine& l : s.lines) all += l.term + " | " + l.value + " | " + l.source + "\n";
  CHECK(all.find("4 x the half-precision bytes | 59.8 GiB (64.2 GB)") != std::string::npos);  // 8 x 8,030,261,248
  CHECK(all.find("accelerate estimate-memory, float16 | 64.2 GB") != std::string::npos);
  CHECK(all.find("accelerate estimate-memory, float32 | 128.5 GB") != std::string::npos);
  CHECK(all.find("no activations") != std::string::npos);
}

TEST_CASE("Muon orthogonalises matrices: 666 TFLOP a step for llama-3.1-8b, shared by ranks that share its state") {
  // 5 (4 n^2 m + 2 n^3) of each matrix: q and o 4096 x 4096, 30 n^3; k and v 1024 x 4096, 90 n^3; gate, up and down
  // 4096 x 14336, 80 n^3: 32 layers (2 * 2.06 + 2 * 0.0966 + 3 * 5.50) T = 666 T
  CHECK(orthogonalisation_flops(4096, 14336, NewtonSchulz::Standard) == doctest::Approx(80 * std::pow(4096.0, 3)));
  CHECK(orthogonalisation_flops(14336, 4096, NewtonSchulz::Gram) == doctest::Approx(56 * std::pow(4096.0, 3)));
  CHECK(orthogonalisation_flops(4096, 4096, NewtonSchulz::Gram) == doctest::Approx(30 * std::pow(4096.0, 3)));
  Recipe r;
  r.optimizer = "muon";
  const auto flops = [&](const char* strategy, const char* framework) {
    r.framework = find_framework(framework);
    const TrainedModel model = prepare(load_model("llama-3.1-8b").spec, r, *r.framework);
    return whole_state(model, r,
                       size_rules(make_strategy(strategy, parse_gpus("8xH200"), {}), *r.framework, model.spec, r))
        .step_flops;
  };
  const double whole = flops("ddp", "llama-factory");
  CHECK(whole == doctest::Approx(666e12).epsilon(0.005));
  CHECK(flops("zero2", "llama-factory") == doctest::Approx(505.5e12 / 8).epsilon(0.005));  // DeepSpeed's Gram iteration
  EstimateRequest q;
  q.model = load_model("llama-3.1-8b").spec;
  q.cluster = parse_gpus("8xH200");
  q.recipe.method = Method::Full;
  q.recipe.precision = Precision::Bf16True;
  q.strategy = "ddp";
  const auto step = [&](const char* optimizer) {
    q.recipe.optimizer = optimizer;
    return estimate(q).strategies.front().time.step.value;
  };
  CHECK(step("muon") - step("adamw-fused") == doctest::Approx(1.0).epsilon(0.3));
}

// Recurrent layers: what they keep for backward, how they grow with the length, and what takes adapters.
#include <algorithm>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/stack.h"
#include "planner/estimate.h"
#include "planner/job_metrics.h"
#include "planner/peaks.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

ModelSpec hybrid_model(const char* name) { return load_model(name).spec; }

/// A small Qwen3-Next without experts: h = 64, 2 key heads and 4 value heads of 16.
ModelSpec tiny_delta_net(bool has_fused_projections) {
  ModelSpec m = tiny_llama();
  m.family = has_fused_projections ? "qwen3_next" : "qwen3_5_text";
  m.norm = NormKind::GemmaRmsNorm;
  m.has_attention_gate = true;
  m.qk_norm = QkNorm::PerHead;
  m.mixers = {Mixer::DeltaNet, Mixer::DeltaNet, Mixer::DeltaNet, Mixer::Attention};
  m.delta_net = {.num_key_heads = 2,
                 .num_value_heads = 4,
                 .key_dim = 16,
                 .value_dim = 16,
                 .conv_kernel = 4,
                 .has_fused_projections = has_fused_projections};
  return m;
}

double flops_of(const ModelSpec& spec, std::int64_t seq_len) {
  Plan plan;
  plan.spec = spec;
  plan.recipe.seq_len = seq_len;
  plan.strategy = make_strategy("ddp", plan.cluster, {});
  return model_flops(plan.job(), 1, seq_len);
}

}  // namespace

TEST_CASE("a Mamba-2 layer keeps its input projection, the scan's output and the norm's statistics") {
  // granite-4.0-h-micro: h = 2048, inner width 4096, projected 2 * 4096 + 2 * 128 + 64 = 8512, f = 8192.
  // Two norms (fp32 copy 4, value 2, output 2 each): 16 h; projected 2 * 8512, output 2 * 4096, statistics 4; the
  // output projection's input is made again; gate and up 4 f, silu 2 f, product 2 f
  const ModelSpec m = hybrid_model("granite-4.0-h-micro");
  const std::int64_t per_token = 16 * 2048 + 2 * 8512 + 2 * 4096 + 4 + 8 * 8192;
  CHECK(Ledger{}.saved(m) == 64 * per_token);
  CHECK_FALSE(Ledger{}.keeps(m, "gated output, normalised"));
  CHECK_FALSE(Ledger{}.keeps(m, "x, B and C after the convolution"));
}

TEST_CASE(
    "a layer of the first Mamba keeps a copy of its input projection, what is selected, the scan and its states") {
  // mamba-130m: h = 768, inner width 1536, state 16, low rank 48. Norm of the stream in 16 bit (4 + 2 + 2) h; x and z
  // 2 * 3072, selected 2 * (48 + 32), B and C 2 * 32, the scan 2 * 1536; and two fp32 values of each channel and state
  // once in 2048 tokens
  const ModelSpec m = hybrid_model("mamba-130m");
  CHECK(Ledger{}.saved(m) == 64 * (8 * 768 + 2 * 3072 + 2 * 80 + 2 * 32 + 2 * 1536) + 4 * 2 * 16 * 1536);
  CHECK_FALSE(Ledger{}.keeps(m, "x after the convolution"));
  CHECK_FALSE(Ledger{}.keeps(m, "time steps"));
  CHECK(Ledger{}.keeps(m, "x and z, channel by channel"));
}

TEST_CASE("a gated delta net keeps what flash-linear-attention's kernels save") {
  // h = 64, f = 128, 4 value heads, V = 64, convolved 2 * 32 + 64 = 128; queries and keys expanded to 4 heads: 64 each
  const std::int64_t norms = 2 * (4 + 4 + 2) * 64, mlp = 8 * 128;  // 1 + weight: the normalised value is in fp32
  const std::int64_t convolution = 2 * 128, queries_and_keys = 2 * 2 * 64, their_norms = 2 * 4 * 4, values = 2 * 64;
  const std::int64_t gates = (2 + 4 + 4) * 4, sums = 4 * 4, inverses = 2 * 64 * 4;
  const std::int64_t output = 2 * 64, z = 2 * 64, statistics = 4 * 4, normed = 2 * 64;
  const std::int64_t per_token = norms + mlp + convolution + queries_and_keys + their_norms + values + gates + sums +
                                 inverses + output + z + statistics + normed;
  for (const bool is_fused : {true, false}) {
    CAPTURE(is_fused);
    CHECK(Ledger{}.saved(tiny_delta_net(is_fused)) == 64 * per_token);
  }
}

TEST_CASE("a gated short convolution keeps B, C and x, their product, what is convolved, and the gated output") {
  // lfm2-1.2b: norms 16 h, six tensors of the width 2 h each, MLP 8 f with f = 8192
  CHECK(Ledger{}.saved(hybrid_model("lfm2-1.2b")) == 64 * ((16 + 6 * 2) * 2048 + 8 * 8192));
}

TEST_CASE("attention's output gate keeps its sigmoid and the gated output: 4 rho more") {
  ModelSpec with = tiny_llama(), without = with;
  with.family = without.family = "qwen3_5_text";
  with.has_attention_gate = true;
  CHECK(Ledger{}.saved(with) - Ledger{}.saved(without) == 4 * 64 * 64);
}

TEST_CASE("a lone layer is one norm and one branch; a parallel one shares its norm between attention and Mamba-2") {
  const ModelSpec nemotron = hybrid_model("nemotron-nano-9b-v2");  // first: Mamba-2 alone
  // norm 8 h; projected 2 * 10240 + 2 * 8 * 128 + 128 = 22656, output 10240, 8 groups of statistics
  CHECK(Ledger{}.saved(nemotron) == 64 * (8 * 4480 + 2 * 22656 + 2 * 10240 + 4 * 8));
  const ModelSpec falcon = hybrid_model("falcon-h1-7b");
  ModelSpec attention_only = falcon, mamba_only = falcon;
  attention_only.family = "llama", attention_only.mixers.clear();
  CHECK(Ledger{}.saved(falcon) - Ledger{}.saved(attention_only) == 64 * (2 * 6680 + 2 * 3072 + 4));
}

TEST_CASE("what a recurrent layer keeps per token does not grow with the length, and its FLOPs are linear in it") {
  for (const char* name : {"granite-4.0-h-350m", "nemotron-nano-9b-v2"}) {
    CAPTURE(name);
    Ledger brief, lengthy;
    brief.recipe.seq_len = 4096, lengthy.recipe.seq_len = 65536;
    CHECK(lengthy.saved(hybrid_model(name)) == 16 * brief.saved(hybrid_model(name)));
    const Mixer mixer = hybrid_model(name).mixer(0);
    CHECK(recurrence_flops(hybrid_model(name), mixer, 1, 65536) ==
          doctest::Approx(16 * recurrence_flops(hybrid_model(name), mixer, 1, 4096)));
  }
  CHECK(recurrence_flops(tiny_llama(), Mixer::Attention, 1, 4096) == 0);
}

TEST_CASE("FLOPs of a scan are those of its chunks' products") {
  // granite-4.0-h-350m: chunk 256, state 128, one group, inner width 1536. Per token: C B^T 2 * 256 * 128, its lower
  // half times x 256 * 1536, x B^T and C times the state 2 * 128 * 1536 each
  CHECK(recurrence_flops(hybrid_model("granite-4.0-h-350m"), Mixer::Mamba2, 1, 1024) ==
        doctest::Approx(1024.0 * (65'536 + 393'216 + 2 * 393'216)));
  // 4 heads of 16, chunk 64: three products with the state 2 * 4 * 16 * 16, three of keys and two of values 2 * 64 * 64
  CHECK(recurrence_flops(tiny_delta_net(true), Mixer::DeltaNet, 1, 1024) ==
        doctest::Approx(1024.0 * (3 * 2'048 + 5 * 8'192)));
  // What grows with the square of the length is attention's: of 4 layers, 12 heads of 64, against 28 of 16 heads of 64
  const auto squared = [](const ModelSpec& m) { return flops_of(m, 65536) - 2 * flops_of(m, 32768); };
  CHECK(squared(hybrid_model("granite-4.0-h-350m")) / squared(hybrid_model("granite-4.0-350m")) ==
        doctest::Approx(4 * 12.0 / (28 * 16)));
}

TEST_CASE("Mamba-2's output projection takes no adapter and stays in 16 bit; a delta net's does") {
  Recipe recipe;
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  const FrameworkConvention framework = find_framework("hf-trainer");
  const TrainedModel mamba = prepare(hybrid_model("granite-4.0-h-micro"), recipe, framework);
  const LayerLinears& first = mamba.linears[0];
  CHECK(first[LinearSlot::MixIn].is_adapted);
  CHECK(first[LinearSlot::MixIn].is_quantised);
  CHECK_FALSE(first[LinearSlot::MixOut].is_adapted);
  CHECK_FALSE(first[LinearSlot::MixOut].is_quantised);
  const TrainedModel delta = prepare(tiny_delta_net(true), recipe, framework);
  CHECK(delta.linears[0][LinearSlot::MixOut].is_adapted);
  CHECK(delta.linears[0][LinearSlot::MixBeta].is_quantised);

  recipe.lora.targets = {"out_proj"};
  CHECK_THROWS_WITH_AS(prepare(hybrid_model("granite-4.0-h-micro"), recipe, framework),
                       doctest::Contains("the weight of 'out_proj' is multiplied without its module"), InputError);
  CHECK_NOTHROW(prepare(tiny_delta_net(true), recipe, framework));
}

TEST_CASE("generation keeps keys and values of the layers that attend, and a state per sequence of the others") {
  const ModelSpec m = hybrid_model("granite-4.0-h-350m");
  CHECK(kv_bytes_per_token(m) == Bytes{4 * 2 * 4 * 64 * 2});  // 4 layers, keys and values, 4 heads of 64, 16 bit
  // 28 layers: states 48 * 32 * 128 in fp32, and 4 inputs of 1792 channels in 16 bit
  CHECK(state_bytes_per_sequence(m) == Bytes{28 * (4 * 48 * 32 * 128 + 2 * 4 * 1792)});
  CHECK(state_bytes_per_sequence(tiny_llama()) == Bytes{});
}

TEST_CASE("what Apertus' activation keeps: its input, two intermediates, the choice, and a third where it is trained") {
  // apertus-8b: h = 4096, f = 21504. Two norms 16 h, attention as Llama's with norms on queries and keys; of the MLP up
  // 2 f, its output 2 f, a x and expm1 4 f, where x > 0 1 f, and the difference 2 f
  const ModelSpec m = load_model("apertus-8b").spec;
  ModelSpec relu = m;
  relu.activation = "relu";  // keeps its output alone, the input of down_proj: 2 f
  CHECK(Ledger{}.saved(m) - Ledger{}.saved(relu) == 64 * (2 + 3 * 2 + 1) * 21504);
}

TEST_CASE("streams side by side: what a layer keeps for them, and what a sparse gate adds") {
  // Gemma 3n with 4 streams of h = 2048, a token in 16 bit. For the streams: all of them side by side and what the
  // layer changed for each, 8 h each; of two routers an fp32 norm and the input, 10 h each; the corrected stream before
  // and behind its scale, 4 h; the low-rank branch's norm, 8 h. For the rest: five norms 40 h, two normed inputs 4 h,
  // norms of q 8 h and of k and v, a quarter as wide, 4 h; q, expanded k and v, the output twice, 10 h, and a
  // log-sum-exp
  const std::int64_t h = 2048, narrow = 64 + 4 + 16 + 4 + 4;  // of the low-rank branch and the coefficients
  const ModelSpec sparse = load_model("gemma-3n-e2b").spec;
  ModelSpec dense = sparse;
  dense.altup.num_sparse_layers = 0;
  CHECK(Ledger{}.saved(dense) ==
        64 * ((16 + 20 + 4 + 8) * h + 2 * narrow + (40 + 4 + 8 + 4 + 10) * h + 4 * 8 + 4 * 2 * 8192 + 3 * 2 * 256));
  CHECK(Ledger{}.saved(sparse) - Ledger{}.saved(dense) == 64 * 2 * 8192);  // what std was taken of
}

TEST_CASE("the stream between layers of Gemma 3n is four times as wide, which is what a checkpoint keeps") {
  Ledger ledger;
  CHECK(ledger.layer(load_model("gemma-3n-e4b").spec).locals[kSlotX].elements == 64 * 4 * 2048);
}

TEST_CASE("Qwen3.5 and Gemma 4: Unsloth's stated memory") {
  // LoRA in 16 bit: unsloth.ai/docs/models/qwen3.5/fine-tune: 3, 5, 10, 22, 56 and 74 GB, without saying of which
  // length; its notebooks train 2048 tokens at a time. Gemma 4: 17 GB for LoRA of E4B; QLoRA of E2B 8 and of 31B 22 GB
  // (its documentation, as repeated in public code). Not met: QLoRA of E4B, 10 GB.
  struct Stated {
    const char* name;
    double gigabytes;
    Method method = Method::Lora;
  };
  for (const auto& [name, gigabytes, method] :
       {Stated{"qwen3.5-0.8b", 3}, Stated{"qwen3.5-2b", 5}, Stated{"qwen3.5-4b", 10}, Stated{"qwen3.5-9b", 22},
        Stated{"qwen3.5-27b", 56}, Stated{"qwen3.5-35b-a3b", 74}, Stated{"gemma-4-e4b", 17},
        Stated{"gemma-4-e2b", 8, Method::Qlora}, Stated{"gemma-4-31b", 22, Method::Qlora}}) {
    CAPTURE(name);
    EstimateRequest r;
    r.model = hybrid_model(name);
    r.recipe.framework = "unsloth";
    r.recipe.method = method;
    if (method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
    r.recipe.lora.rank = 16;
    r.recipe.checkpointing = Checkpointing::Full;
    r.recipe.loss = LossKernel::Fused;
    r.recipe.micro_batch = 1;
    r.recipe.seq_len = 2048;
    r.cluster = parse_gpus("1xH100");
    const FrameworkConvention& framework = *r.recipe.framework;
    StepProgram program;
    const Job job(r, prepare(r.model, r.recipe, framework), framework, default_profile("h100-sxm"),
                  make_strategy("single", r.cluster, {}));
    CHECK(double(estimate_strategy(job, program).tiers.process.count) / 1e9 ==
          doctest::Approx(gigabytes).epsilon(0.15));
  }
}

TEST_CASE("without flash-linear-attention linear attention is several times slower, and says so") {
  // huggingface/transformers issue 48718: Qwen3.5-9B, full, FSDP2 on 8 B200: 1.22 s a step without the library, 0.70
  // with it, before 0.49 by other changes; huggingface/peft pull request 3712: the fallback is most of 52.8 s
  const auto step = [](const char* versions) {
    EstimateRequest r;
    r.model = hybrid_model("qwen3.5-9b");
    r.cluster = parse_gpus("8xB200");
    r.recipe.method = Method::Full;
    r.recipe.seq_len = 1024;
    r.recipe.micro_batch = 8;
    r.strategy = "fsdp";
    r.recipe.framework = resolve_framework("hf-trainer", {.given = parse_stack_versions(versions), .date = {}});
    const EstimateResult result = estimate(r);
    const bool says = std::ranges::any_of(
        result.assumptions, [](const std::string& text) { return text.starts_with("linear attention runs"); });
    CHECK(says);
    return result.strategies.front().time.step.value;
  };
  const double ratio = step("flash-linear-attention=none") / step("transformers=5.15");
  CAPTURE(ratio);
  CHECK(ratio >= 1.22 / 0.70 / 1.3);
  CHECK(ratio <= 4);
  CHECK_THROWS_AS(parse_stack_versions("torch=none"), InputError);
}

// Ranks that share layers of several kinds: Mamba-2, gated delta nets, attention with windows, sinks, or heads of its
// own where it is full. Parameters, kept bytes and exchanges of one rank, counted by hand. t is the number of ranks.
#include <ostream>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/rank_model.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

using Bytes64 = std::vector<std::int64_t>;

/// A layer of one kind of a model, as one rank has it.
struct KindOfLayer {
  ModelSpec spec;
  Recipe recipe;
  FrameworkConvention framework;
  Mesh mesh;
  std::size_t kind = 0;
  LayerGraph graph;

  KindOfLayer(ModelSpec model, const char* trainer, std::int64_t ways, bool splits_sequence = true)
      : spec(std::move(model)),
        framework(resolve_framework(trainer, {}, spec.model_type)) {
    recipe.seq_len = 64;
    recipe.precision = Precision::Bf16Mixed;
    recipe.attention = AttentionKernel::Cudnn;
    mesh = Mesh{{Axis::Tp, ways}, {Axis::DpShard, 2}}.set_splits_sequence(splits_sequence);
    if (spec.moe.is_present()) mesh.set_expert_ways(2);
  }
  static KindOfLayer of(const char* model, const char* trainer, std::int64_t ways, bool splits_sequence = true) {
    return {load_model(model).spec, trainer, ways, splits_sequence};
  }
  KindOfLayer& in_context(std::int64_t ways) {
    mesh.set(Axis::Cp, ways).set(Axis::DpShard, std::max<std::int64_t>(2, ways));
    recipe.attention = AttentionKernel::Flash;
    return *this;
  }
  std::string refusal() const {
    const std::string tp = why_not_shared(spec, recipe, framework, "zero1", mesh);
    return tp.empty() ? why_not_in_context(spec, recipe, framework, "zero1", mesh) : tp;
  }
  TrainedModel part() const {
    REQUIRE(refusal() == "");
    return rank_model(prepare(spec, recipe, framework), recipe, framework, mesh);
  }
  struct Sums {
    std::int64_t elements = 0, partial = 0;
    bool operator==(const Sums&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const Sums& s) {
      return out << s.elements << ", of which partial " << s.partial;
    }
  };
  /// Parameters of a rank but for routed experts, and those of them whose gradient it sums with the others.
  Sums held() const {
    Sums out;
    const TrainedModel model = part();
    for (const StateTensor& t : model.layers[kind])
      if (is_trained(t.kind) && !t.is_routed)
        out.elements += t.elements(), out.partial += t.is_partial ? t.elements() : 0;
    return out;
  }
  KindOfLayer& emit() {
    const TrainedModel model = part();
    LedgerContext c =
        make_context(model, recipe, framework, resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec));
    c.kind = kind;
    emit_layer(graph, c);
    return *this;
  }
  std::int64_t saved() const {
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return bytes;
  }
  Bytes64 exchanged(Exchange kind_of_message, const std::vector<LayerOp>& ops, Axis axis = Axis::Tp) const {
    Bytes64 out;
    for (const LayerOp& op : ops)
      if (op.exchange == kind_of_message && op.axis == axis)
        out.push_back(std::max(graph.locals[op.reads[0]].bytes(), graph.locals[op.writes[0]].bytes()).count);
    return out;
  }
};

/// A small Qwen3-Next without experts, every layer a delta net but the last: h 64, 4 key heads and 8 value heads of 16.
ModelSpec tiny_nets(bool has_fused_projections = true) {
  ModelSpec m = tiny_llama();
  m.family = has_fused_projections ? "qwen3_next" : "qwen3_5_text";
  m.model_type = m.family;
  m.norm = NormKind::GemmaRmsNorm;
  m.has_attention_gate = true;
  m.qk_norm = QkNorm::PerHead;
  m.mixers = {Mixer::DeltaNet, Mixer::DeltaNet, Mixer::DeltaNet, Mixer::Attention};
  m.delta_net = {.num_key_heads = 4,
                 .num_value_heads = 8,
                 .key_dim = 16,
                 .value_dim = 16,
                 .conv_kernel = 4,
                 .has_fused_projections = has_fused_projections};
  return m;
}

/// A small Nemotron-H: Mamba-2, attention and an MLP in turn. 8 heads of 16 in 4 groups, states of 32.
ModelSpec tiny_mamba() {
  ModelSpec m = tiny_llama();
  m.family = m.model_type = "nemotron_h";
  m.mlp = MlpKind::Plain;
  m.activation = "relu2";
  m.position = PositionKind::None;
  m.mixers = {Mixer::Mamba2, Mixer::Attention, Mixer::None, Mixer::Mamba2};
  m.mamba2 = {.num_heads = 8,
              .head_dim = 16,
              .num_groups = 4,
              .state_size = 32,
              .conv_kernel = 4,
              .chunk = 16,
              .has_conv_bias = true};
  return m;
}

constexpr std::int64_t kTokens = 64;

}  // namespace

TEST_CASE("Qwen3-Next's delta net: heads are divided, the norm of a head is whole on every rank") {
  // h 2048; 16 key and 32 value heads of 128: q, k, v and z 2 * 2048 + 2 * 4096 = 12288, beta and decay 64, convolved
  // 8192 channels by 4, A and dt_bias 32 each, out 4096. Shared expert of 512: 3 * 2048 * 512
  const std::int64_t divided = 2048 * (12288 + 64) + 8192 * 4 + 2 * 32 + 4096 * 2048 + 3 * 2048 * 512;
  const std::int64_t whole = 128 + 2 * 2048 + 2048 * 512 + 2048;  // norms, router, switch of the shared expert
  KindOfLayer alone = KindOfLayer::of("qwen3-next-80b-a3b", "megatron", 1);
  CHECK(alone.held() == KindOfLayer::Sums{divided + whole, 0});
  for (const std::int64_t t : {2, 4}) {
    CAPTURE(t);
    const KindOfLayer layer = KindOfLayer::of("qwen3-next-80b-a3b", "megatron", t);
    CHECK(layer.held() == KindOfLayer::Sums{divided / t + whole, whole});
    CHECK(t * layer.held().elements == alone.held().elements + (t - 1) * whole);
  }
}

TEST_CASE(
    "Qwen3-Next's attention beside it: 16 heads and their gates are divided, 2 KV heads held by 2 of 4 ranks each") {
  // heads of 256: q and gate 8192 outputs, k and v 512 each, o 4096 inputs; norms of q and k 256 each
  const std::int64_t queries = 2048 * 8192 + 4096 * 2048, keys = 2 * 2048 * 512, expert = 3 * 2048 * 512;
  const std::int64_t whole = 2 * 256 + 2 * 2048 + 2048 * 512 + 2048;
  for (const std::int64_t t : {2, 4}) {
    CAPTURE(t);
    KindOfLayer layer = KindOfLayer::of("qwen3-next-80b-a3b", "megatron", t);
    layer.kind = 1;
    CHECK(layer.held() == KindOfLayer::Sums{(queries + expert) / t + keys / 2 + whole, whole});
  }
}

TEST_CASE("Nemotron-H's Mamba-2: heads, groups and channels are divided, and so is the norm per group") {
  // nemotron-nano-9b-v2: h 4480, 128 heads of 80 = 10240, 8 groups of B and C of 128: z, x, B, C and steps 22656;
  // convolved 12288 channels by 4 and their bias; dt_bias, A and D 128 each; norm 10240
  const std::int64_t divided = 4480 * 22656 + 12288 * 5 + 3 * 128 + 10240 + 10240 * 4480;
  CHECK(KindOfLayer::of("nemotron-nano-9b-v2", "megatron", 1).held() == KindOfLayer::Sums{divided + 4480, 0});
  for (const std::int64_t t : {2, 4}) {
    CAPTURE(t);
    const KindOfLayer layer = KindOfLayer::of("nemotron-nano-9b-v2", "megatron", t);
    CHECK(layer.held() == KindOfLayer::Sums{divided / t + 4480, 4480});
  }
  // 3 Nano: the Mamba-2 layer, beside layers of experts: h 2688, 64 heads of 64, 8 groups of 128
  const std::int64_t nano = 2688 * (2 * 4096 + 2 * 1024 + 64) + (4096 + 2048) * 5 + 3 * 64 + 4096 + 4096 * 2688;
  CHECK(KindOfLayer::of("nemotron-3-nano-30b-a3b", "megatron", 4).held() == KindOfLayer::Sums{nano / 4 + 2688, 2688});
}

TEST_CASE("windowed and full layers of Gemma 3 and gpt-oss have the same heads, sinks among them") {
  // gemma-3-12b: h 3840, 16 heads and 8 KV heads of 256, f 15360; norms of q and k, four of the stream
  const std::int64_t gemma = 2 * 3840 * 4096 + 2 * 3840 * 2048 + 3 * 3840 * 15360, norms = 2 * 256 + 4 * 3840;
  // gpt-oss-20b: h 2880, 64 heads and 8 KV heads of 64 with biases, a sink per head; o's bias joins a sum
  const std::int64_t oss = 2880 * 4096 + 4096 + 2 * (2880 * 512 + 512) + 64 + 4096 * 2880,
                     oss_whole = 2880 + 2 * 2880 + 32 * 2880 + 32;
  for (const std::int64_t t : {2, 4}) {
    CAPTURE(t);
    KindOfLayer window = KindOfLayer::of("gemma-3-12b-text", "megatron", t);
    CHECK(window.held() == KindOfLayer::Sums{gemma / t + norms, norms});
    CHECK(KindOfLayer::of("gpt-oss-20b", "megatron", t).held() == KindOfLayer::Sums{oss / t + oss_whole, oss_whole});
  }
}

TEST_CASE("Gemma 4: full layers divide heads of their own") {
  const ModelSpec m = load_model("gemma-4-31b").spec;
  // h 5376, f 21504; 32 heads: windowed of 256 with 16 KV heads, full of 512 with 4, whose keys are the values
  const std::int64_t mlp = 3 * 5376 * 21504, windowed = 2 * 5376 * 8192 + 2 * 5376 * 4096,
                     full = 2 * 5376 * 16384 + 5376 * 2048;
  for (const std::int64_t t : {2, 4, 8}) {
    CAPTURE(t);
    KindOfLayer layer{m, "megatron", t};
    const TrainedModel part = layer.part();
    const auto kind_of = [&](bool is_global) {
      return std::size_t(std::ranges::find_if(part.weights.kinds,
                                              [&](const LayerKind& k) {
                                                return k.part == ModelPart::Language && !k.is_bridge &&
                                                       k.is_global == is_global;
                                              }) -
                         part.weights.kinds.begin());
    };
    layer.kind = kind_of(false);
    CHECK(layer.held() == KindOfLayer::Sums{(mlp + windowed) / t + 2 * 256 + 4 * 5376 + 1, 2 * 256 + 4 * 5376 + 1});
    layer.kind = kind_of(true);
    const std::int64_t keys = 5376 * 2048, kept = keys / std::min<std::int64_t>(t, 4);
    CHECK(layer.held().elements == (mlp + full - keys) / t + kept + 2 * 512 + 4 * 5376 + 1);
  }
  const KindOfLayer titan{m, "torchtitan", 2};
  CHECK(why_not_shared(m, titan.recipe, titan.framework, "fsdp", titan.mesh) ==
        "torchtitan has no tp of full attention whose heads are not those of the windowed layers (gemma-4-31b) that is "
        "planned");
}

TEST_CASE("a mixer gathers its tokens for its columns once and scatters the sum of its row") {
  for (const ModelSpec& m : {tiny_nets(true), tiny_nets(false), tiny_mamba()}) {
    CAPTURE(m.family);
    const std::int64_t stream = kTokens * 64 * 2;
    const bool has_mlp = m.family != "nemotron_h";  // its layers are a mixer alone
    const Bytes64 once(has_mlp ? 2 : 1, stream), twice(has_mlp ? 4 : 2, stream);
    KindOfLayer layer{m, "megatron", 4};
    layer.emit();
    CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward) == once);
    CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.forward) == once);
    CHECK(layer.exchanged(Exchange::AllGather, layer.graph.backward) == twice);  // and the columns' input once more
    CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.backward) == once);
    KindOfLayer all{m, "megatron", 4, false};
    all.emit();
    CHECK(all.exchanged(Exchange::AllReduce, all.graph.forward) == once);
    CHECK(all.exchanged(Exchange::AllReduce, all.graph.backward) == once);
  }
}

TEST_CASE("what a mixer keeps is one t-th of what one rank does") {
  for (const ModelSpec& m : {tiny_nets(true), tiny_nets(false), tiny_mamba()}) {
    CAPTURE(m.family);
    const std::int64_t alone = KindOfLayer{m, "megatron", 1}.emit().saved();
    for (const std::int64_t t : {2, 4}) CHECK(KindOfLayer{m, "megatron", t}.emit().saved() * t == alone);
  }
  for (const char* name : {"nemotron-nano-9b-v2", "gemma-3-12b-text", "qwen3-next-80b-a3b"}) {
    CAPTURE(name);
    const std::int64_t alone = KindOfLayer::of(name, "megatron", 1).emit().saved();
    for (const std::int64_t t : {2, 4}) CHECK(KindOfLayer::of(name, "megatron", t).emit().saved() * t == alone);
  }
  // Mamba-2 of Megatron, per token: the norm's input and its output 2 h each; z, x, B, C and steps 2 (2 * 128 + 2 * 128
  // + 8); output of the scan, gated, and normalised 3 * 2 * 128, a statistic of each of 4 groups in fp32
  KindOfLayer mamba{tiny_mamba(), "megatron", 4};
  CHECK(mamba.emit().saved() == kTokens * (4 * 64 + 2 * 520 + 6 * 128 + 4 * 4) / 4);
}

TEST_CASE("a mixer that every rank has whole: all tokens come, nothing of it is summed") {
  KindOfLayer layer{tiny_nets(), "megatron-swift", 4};
  const std::int64_t stream = kTokens * 64 * 2;
  // 2 * 64 + 2 * 128 = 384 and 16 outputs, 256 channels by 4, A and dt_bias, a norm of 16, out 128; MLP 3 * 64 * 128
  const std::int64_t net = 64 * (384 + 16) + 256 * 4 + 2 * 8 + 16 + 128 * 64;
  CHECK(layer.held() == KindOfLayer::Sums{net + 3 * 64 * 128 / 4 + 2 * 64, 2 * 64});
  layer.emit();
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.backward).empty());
  KindOfLayer all{tiny_nets(), "megatron-swift", 4, false};
  all.emit();
  CHECK(all.exchanged(Exchange::AllReduce, all.graph.forward) == Bytes64{stream});  // of the MLP
  layer.recipe.method = Method::Lora;
  layer.recipe.lora.rank = 8;
  // A and B of the net whole: in_proj_qkvz 64 -> 384, in_proj_ba 64 -> 16, out_proj 128 -> 64; nothing of them summed
  const std::int64_t own = 8 * (64 + 384 + 64 + 16 + 128 + 64), columns = 2 * 8 * 64 + 2 * 8 * 128 / 4,
                     row = 8 * 128 / 4 + 8 * 64;
  CHECK(layer.held() == KindOfLayer::Sums{own + columns + row, 2 * 8 * 64 + 8 * 64});
}

TEST_CASE("adapters of a mixer: replicated and gathered as those of other columns and rows") {
  // in_proj_qkvz 64 -> 384, in_proj_ba 64 -> 16, gate and up 64 -> 128; out_proj 128 -> 64, down 128 -> 64
  const std::int64_t a_columns = 4 * 8 * 64, b_columns = 8 * (384 + 16 + 2 * 128), a_rows = 2 * 8 * 128,
                     b_rows = 2 * 8 * 64;
  for (const std::int64_t t : {2, 4}) {
    KindOfLayer layer{tiny_nets(), "megatron", t};
    layer.recipe.method = Method::Lora;
    layer.recipe.lora.rank = 8;
    CHECK(layer.held() == KindOfLayer::Sums{(a_columns + b_columns + a_rows + b_rows) / t, 0});
    layer.framework.tensor_parallel.adapters = AdapterSplit::Replicated;
    CHECK(layer.held() == KindOfLayer::Sums{a_columns + b_columns / t + a_rows / t + b_rows, a_columns + b_rows});
  }
  // Megatron's output projection of Mamba-2 is a linear like others, and takes one: in_proj 64 -> 520, out 128 -> 64
  KindOfLayer mamba{tiny_mamba(), "megatron", 2};
  mamba.recipe.method = Method::Lora;
  mamba.recipe.lora.rank = 8;
  CHECK(mamba.held() == KindOfLayer::Sums{8 * (64 + 520 + 128 + 64) / 2, 0});
}

TEST_CASE("ranks that share a sequence exchange positions for heads around a recurrence") {
  KindOfLayer mamba{tiny_mamba(), "megatron", 1};
  mamba.in_context(2).emit();
  const std::int64_t own = kTokens / 2, projected = own * 520 * 2, mixed = own * 128 * 2;
  CHECK(mamba.exchanged(Exchange::AllToAll, mamba.graph.forward, Axis::Cp) == Bytes64{projected, mixed});
  CHECK(mamba.exchanged(Exchange::AllToAll, mamba.graph.backward, Axis::Cp) == Bytes64{mixed, projected});
  CHECK(mamba.saved() * 2 == KindOfLayer{tiny_mamba(), "megatron", 1}.emit().saved());
  // eight ranks: each has a head, and the B and C of its group, of which there are four: twice 2 * 4 * 32 more
  KindOfLayer more{tiny_mamba(), "megatron", 1};
  more.in_context(8).emit();
  CHECK(more.exchanged(Exchange::AllToAll, more.graph.forward, Axis::Cp)[0] == kTokens / 8 * (520 + 256) * 2);
  KindOfLayer net{tiny_nets(), "megatron", 2};
  net.in_context(2).emit();
  // q, k, v and z of half the heads, beta and decay; what is normalised and gated
  CHECK(net.exchanged(Exchange::AllToAll, net.graph.forward, Axis::Cp) ==
        Bytes64{own * 192 * 2, own * 8 * 2, own * 64 * 2});
  CHECK(KindOfLayer{tiny_nets(), "megatron", 2}.in_context(4).refusal() ==
        "cp 4 does not divide the 2 key heads of the delta net of a rank");
  CHECK(KindOfLayer{tiny_nets(), "megatron-swift", 1}.in_context(2).refusal() ==
        "megatron-swift has no cp of gated delta nets (tiny) that is planned");
  CHECK(KindOfLayer{tiny_nets(false), "megatron-swift", 1}.in_context(2).refusal() == "");
}

TEST_CASE("a kind of layers that a trainer does not divide is refused by its name and the model's") {
  CHECK(KindOfLayer::of("granite-4.0-h-micro", "megatron", 2).refusal() ==
        "tp 2 does not divide 1 groups of B and C in Mamba-2");
  CHECK(KindOfLayer::of("falcon-h1-7b", "megatron-swift", 2).refusal() ==
        "megatron-swift has no tp of attention beside Mamba-2 (falcon-h1-7b) that is planned");
  CHECK(KindOfLayer::of("falcon-h1-7b", "megatron", 2).refusal() ==
        "tp 2 does not divide 1 groups of B and C in Mamba-2");
  CHECK(KindOfLayer::of("kimi-linear-48b-a3b", "megatron", 2).refusal() ==
        "megatron has no tp of Kimi delta attention (kimi-linear-48b-a3b) that is planned");
  CHECK(KindOfLayer::of("lfm2-1.2b", "megatron", 2).refusal() ==
        "megatron has no tp of short convolutions (lfm2-1.2b) that is planned");
  KindOfLayer titan{tiny_nets(), "torchtitan", 2};
  CHECK(why_not_shared(titan.spec, titan.recipe, titan.framework, "fsdp", titan.mesh) ==
        "torchtitan has no tp of gated delta nets (tiny) that is planned");
  KindOfLayer odd{tiny_mamba(), "megatron", 4};
  odd.spec.mamba2.num_heads = 12, odd.spec.mamba2.num_groups = 6;
  CHECK(odd.refusal() == "tp 4 does not divide 6 groups of B and C in Mamba-2");
}

TEST_CASE("adapters of Mamba-2 that give NaN under a trainer are refused before the run") {
  KindOfLayer layer = KindOfLayer::of("nemotron-nano-9b-v2", "megatron-swift", 2);
  layer.recipe.method = Method::Lora;
  CHECK_THROWS_WITH_AS(prepare(layer.spec, layer.recipe, layer.framework),
                       doctest::Contains("out_proj takes no adapter in models of type nemotron_h"), InputError);
  layer.recipe.lora.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"};
  CHECK_NOTHROW(prepare(layer.spec, layer.recipe, layer.framework));
}

TEST_CASE("records list kinds of layers by names that exist") {
  for (const FrameworkConvention& record : list_frameworks())
    for (const char* type : {"", "qwen3_next", "qwen3_5", "qwen3_5_moe_text", "nemotron_h", "falcon_h1", "gemma4"}) {
      const FrameworkConvention& f = resolve_framework(record.name, {}, type);
      for (const auto* names : {&f.tensor_parallel.layers, &f.tensor_parallel.whole_layers, &f.context_parallel.layers})
        for (const std::string& name : *names) {
          CAPTURE(record.name);
          CAPTURE(name);
          CHECK(is_shared_layer(name));
        }
    }
}

TEST_CASE("attention and Mamba-2 side by side: each gathers the normed input and scatters its sum") {
  ModelSpec m = tiny_mamba();
  m.family = m.model_type = "falcon_h1";
  m.mlp = MlpKind::Gated;
  m.activation = "silu";
  m.mixers.assign(4, Mixer::AttentionAndMamba2);
  KindOfLayer layer{m, "megatron", 2};
  layer.emit();
  const std::int64_t stream = kTokens * 64 * 2;
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward) == Bytes64{stream, stream, stream});
  CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.forward) == Bytes64{stream, stream, stream});
}

TEST_CASE("programs of shared recurrent layers hold their invariants, and are the same folded") {
  for (const ModelSpec& m : {tiny_nets(true), tiny_nets(false), tiny_mamba()})
    for (const char* trainer : {"megatron", "megatron-swift"})
      for (const bool splits : {false, true})
        for (const std::int64_t cp : {1, 2})
          for (const Method method : {Method::Full, Method::Lora})
            for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
              Plan plan;
              plan.spec = m;
              plan.framework = resolve_framework(trainer, {}, m.model_type);
              plan.recipe.attention = AttentionKernel::Flash;
              plan.recipe.method = method;
              plan.recipe.checkpointing = checkpointing;
              plan.recipe.grad_accum = 3;
              if (method == Method::Lora) plan.recipe.lora.targets = {"q_proj", "up_proj"};
              plan.options.tp = 2, plan.options.cp = cp, plan.options.splits_sequence = splits;
              plan.strategy = make_strategy("zero1", plan.cluster, plan.options);
              if (!why_not_shared(m, plan.recipe, plan.framework, "zero1", plan.strategy.mesh).empty() ||
                  !why_not_in_context(m, plan.recipe, plan.framework, "zero1", plan.strategy.mesh).empty())
                continue;
              plan.build("zero1");
              INFO(m.family << ", " << trainer << ", " << cp << ", " << int(method));
              verify(plan.program);
              StepProgram folded;
              build_step_program(folded, plan.job(), {}, {}, nullptr, Layers::Folded);
              CHECK(written_out(folded.programs[0]) == plan.of_rank());
              CHECK(replay(folded, folded.classes[0]).tensors == plan.peak().tensors);
            }
}

TEST_CASE("layers of several kinds that exchange much have more blocks than a byte counts") {
  Plan plan;
  plan.spec = load_model("gemma-4-31b").spec;
  plan.framework = resolve_framework("megatron", {}, plan.spec.model_type);
  plan.recipe.attention = AttentionKernel::Cudnn;
  plan.recipe.checkpointing = Checkpointing::EveryK;
  plan.recipe.checkpoint_every = 2;
  plan.recipe.method = Method::Lora;  // whose factors are gathered for every linear
  plan.options.tp = 2, plan.options.splits_sequence = true;
  plan.build("zero1");
  CHECK(plan.program.blocks.size() > 255);
  verify(plan.program);
}

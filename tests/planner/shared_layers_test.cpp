// Ranks that share each layer (tensor parallelism): what one of them holds, keeps for backward and exchanges, counted
// by hand. t is the number of ranks, N the tokens of a micro-batch, h the width.
#include <doctest/doctest.h>

#include <map>

#include "models/catalogue.h"
#include "models/rank_model.h"
#include "planner/comm_model.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

Mesh shared_by(std::int64_t ways, bool splits_sequence) {
  return Mesh{{Axis::Tp, ways}}.set_splits_sequence(splits_sequence);
}

FrameworkConvention trainer(AdapterSplit adapters = AdapterSplit::Gathered) {
  FrameworkConvention f = find_framework("megatron");
  f.tensor_parallel.adapters = adapters;
  f.tensor_parallel.quantised = true;
  return f;
}

/// One layer of a rank's part.
struct SharedLayer {
  Recipe recipe;
  FrameworkConvention framework = trainer();
  Mesh mesh = shared_by(4, false);
  LayerGraph graph;

  SharedLayer() {
    recipe.seq_len = 64;
    recipe.precision = Precision::Bf16Mixed;
    recipe.attention = AttentionKernel::Cudnn;
  }
  TrainedModel part(const ModelSpec& spec) const {
    return rank_model(prepare(spec, recipe, framework), recipe, framework, mesh);
  }
  void emit(const ModelSpec& spec, void (*emitter)(LayerGraph&, const LedgerContext&) = emit_layer) {
    const TrainedModel model = part(spec);
    emitter(graph,
            make_context(model, recipe, framework, resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec)));
  }
  double saved_per_unit(const ModelSpec& spec) {
    emit(spec);
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return double(bytes) / double(recipe.tokens() * spec.hidden_size);
  }
  /// Bytes of the whole tensors that are exchanged so, in this pass.
  std::vector<std::int64_t> exchanged(Exchange kind, const std::vector<LayerOp>& ops) const {
    std::vector<std::int64_t> out;
    for (const LayerOp& op : ops)
      if (op.exchange == kind)
        out.push_back(std::max(graph.locals[op.reads[0]].bytes(), graph.locals[op.writes[0]].bytes()).count);
    return out;
  }
};

/// GPT-2's layer in the size of Megatron's 7B: h 4096, 32 heads, 4 h inside.
ModelSpec gpt_7b() {
  ModelSpec m = load_model("gpt2-xl").spec;
  m.hidden_size = 4096, m.num_attention_heads = m.num_key_value_heads = 32, m.head_dim = 128;
  m.intermediate_size = 4 * 4096, m.num_hidden_layers = 32, m.vocab_size = 131073;
  m.learned_positions = m.max_position_embeddings = 8192;
  m.tie_word_embeddings = false;
  return m;
}
const double kLse = 4.0 * 32 / 4096;  // log-sum-exp, per token and hidden unit

using Bytes64 = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("t ranks keep s b h (10 + 24 / t) of a GPT layer, and 34 / t where they divide the sequence") {
  // Korthikanti et al. 2022, equations 2 and 4, without the scores that a fused kernel does not keep: norms' inputs 4,
  // linears' inputs 4, two masks 2; q, k, v 6, attention's output 2, the MLP's inner tensors 16
  SharedLayer layer;
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx(10 + 24.0 / 4 + kLse / 4).epsilon(1e-12));
  layer.mesh = shared_by(4, true);
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx(34.0 / 4 + kLse / 4).epsilon(1e-12));
  // a trainer that keeps what it gathered for two columns: 2 x 2 bytes whole
  layer.framework.tensor_parallel.gathers_again = false;
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx(30.0 / 4 + 4 + kLse / 4).epsilon(1e-12));
}

TEST_CASE("eager attention with a fused softmax keeps 5 bytes a score, in framework ops 7") {
  // Korthikanti et al. 2022, equations 1, 2 and 4: softmax in 16 bit 2, its mask 1, what dropout leaves of it 2
  SharedLayer layer;
  layer.recipe.attention = AttentionKernel::Eager;
  const double scores = 32.0 * 64 / 4096;  // a s / h
  layer.mesh = shared_by(1, false);
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx(34 + 5 * scores).epsilon(1e-12));
  layer.mesh = shared_by(4, false);
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx(10 + 24.0 / 4 + 5 * scores / 4).epsilon(1e-12));
  layer.mesh = shared_by(4, true);
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx((34 + 5 * scores) / 4).epsilon(1e-12));
  // in framework ops the softmax is kept in fp32
  layer.framework.layers.fused_softmax_keys = 0;
  CHECK(layer.saved_per_unit(gpt_7b()) == doctest::Approx((34 + 7 * scores) / 4).epsilon(1e-12));
}

TEST_CASE("kernels between the products of a GPT layer: bytes of scores and of the stream") {
  SharedLayer layer;
  layer.mesh = shared_by(1, false);
  layer.recipe.attention = AttentionKernel::Eager;
  const ModelSpec spec = gpt_7b();
  const double scores = 32.0 * 64 * 64, stream = 64.0 * 4096;
  const auto moved = [&](const std::vector<LayerOp>& ops, OpKind kind) {
    double bytes = 0;
    for (const LayerOp& op : ops) bytes += op.kind == kind ? op.traffic : 0;
    return bytes;
  };
  layer.emit(spec);
  CHECK(moved(layer.graph.forward, OpKind::Softmax) == 2 * 2 * scores);   // read and written in 16 bit
  CHECK(moved(layer.graph.backward, OpKind::Softmax) == 3 * 2 * scores);  // probabilities, their gradient, the scores'
  CHECK(moved(layer.graph.forward, OpKind::Cast) == 0);
  // dropout of the scores reads and writes them and writes the mask; each branch is dropped as it joins the stream
  CHECK(moved(layer.graph.forward, OpKind::Dropout) == 5 * scores + 2 * (3 * 2 + 1) * stream);
  layer.framework.layers.fused_softmax_keys = 0, layer.framework.layers.fuses_dropout = false;
  layer.graph = {};
  layer.emit(spec);
  CHECK(moved(layer.graph.forward, OpKind::Softmax) == (2 + 4) * scores);
  CHECK(moved(layer.graph.forward, OpKind::Cast) == (4 + 2) * scores);
  CHECK(moved(layer.graph.forward, OpKind::Dropout) == 5 * scores + 2 * 5 * stream);
  CHECK(moved(layer.graph.forward, OpKind::Add) == 2 * 2 * scores + 2 * 3 * 2 * stream);  // mask; residual sums
}

TEST_CASE("what a trained column's backward exchanges goes with its products; a row's does not") {
  SharedLayer layer;
  const auto beside = [&](const std::vector<LayerOp>& ops, Exchange kind) {
    std::vector<bool> out;
    for (const LayerOp& op : ops)
      if (op.exchange == kind) out.push_back(op.goes_with_columns);
    return out;
  };
  layer.emit(gpt_7b());
  CHECK(beside(layer.graph.backward, Exchange::AllReduce) == std::vector<bool>{true, true});
  CHECK(beside(layer.graph.forward, Exchange::AllReduce) == std::vector<bool>{false, false});
  layer.mesh = shared_by(4, true);
  layer.graph = {};
  layer.emit(gpt_7b());
  CHECK(beside(layer.graph.backward, Exchange::ReduceScatter) == std::vector<bool>{true, true});
  // the gradient of a row's output, then the input of a column, of the MLP and of attention
  CHECK(beside(layer.graph.backward, Exchange::AllGather) == std::vector<bool>{false, true, false, true});
  CHECK(beside(layer.graph.forward, Exchange::AllGather) == std::vector<bool>{false, false});
  layer.recipe.method = Method::Lora;  // frozen columns make no weight gradient
  layer.graph = {};
  layer.emit(gpt_7b());
  for (const bool is : beside(layer.graph.backward, Exchange::ReduceScatter)) CHECK_FALSE(is);
}

TEST_CASE("a layer sums two activations forward and two gradients backward") {
  SharedLayer layer;
  layer.emit(tiny_llama());
  const std::int64_t stream = 64 * 64 * 2;  // N h in 16 bit
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.backward) == Bytes64{stream, stream});
}

TEST_CASE("columns that sum their gradients by themselves: gate and up one each, q, k and v of one product together") {
  SharedLayer layer;
  layer.framework.tensor_parallel.sums_each_column = true;
  layer.framework.layers.accumulates_in_place = false;
  const std::int64_t stream = 64 * 64 * 2;
  const auto beside = [&] {
    std::vector<bool> out;
    for (const LayerOp& op : layer.graph.backward)
      if (op.exchange != Exchange::None) out.push_back(op.is_beside);
    return out;
  };
  layer.framework.layers.keeps_fused_qkv = true;
  layer.emit(tiny_llama());
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.backward) == Bytes64{stream, stream, stream});
  CHECK(beside() == std::vector<bool>{true, true, false});  // up and gate beside their weight gradients
  layer.graph = {};
  layer.framework.layers.keeps_fused_qkv = false;
  layer.emit(tiny_llama());
  CHECK(beside() == std::vector<bool>(5, true));
  // what is exchanged beside a product ends with it
  std::size_t sums = 0, ends = 0;
  for (const LayerOp& op : layer.graph.backward) sums += op.is_beside, ends += op.ends_beside;
  CHECK(sums == ends);
  // frozen columns have no such product: one sum of all that read the same input
  layer.graph = {};
  layer.recipe.method = Method::Lora;
  layer.emit(tiny_llama());
  for (const bool is : beside()) CHECK_FALSE(is);
}

TEST_CASE("with a divided sequence sums become a gather and a scatter, and inputs are gathered again") {
  SharedLayer layer;
  layer.mesh = shared_by(4, true);
  layer.emit(tiny_llama());
  const std::int64_t stream = 64 * 64 * 2;
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.forward) == Bytes64{stream, stream});
  // of the MLP and of attention: the gradient of the row's output, and the columns' input once more
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.backward) == Bytes64{stream, stream, stream, stream});
  CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.backward) == Bytes64{stream, stream});
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.backward).empty());
}

TEST_CASE("latents are made whole of a rank's own tokens, and gathered where heads are expanded from them") {
  SharedLayer layer;
  layer.mesh = shared_by(4, true);
  const ModelSpec m = load_model("deepseek-v3").spec;
  layer.emit(m);
  const auto sorted = [](Bytes64 bytes) {
    std::ranges::sort(bytes);
    return bytes;
  };
  const auto wide = [](std::int64_t width) { return 64 * width * 2; };
  const std::int64_t stream = wide(7168), q = wide(1536), kv = wide(512), rotated = wide(64);
  CHECK(sorted(layer.exchanged(Exchange::AllGather, layer.graph.forward)) == Bytes64{rotated, kv, q, stream});
  CHECK(layer.exchanged(Exchange::ReduceScatter, layer.graph.forward) == Bytes64{stream, stream});
  // gradients of the rows' outputs, and inputs of the columns once more
  CHECK(sorted(layer.exchanged(Exchange::AllGather, layer.graph.backward)) == Bytes64{kv, q, stream, stream, stream});
  CHECK(sorted(layer.exchanged(Exchange::ReduceScatter, layer.graph.backward)) == Bytes64{rotated, kv, q, stream});
  std::int64_t elements = 0, partial = 0;
  const TrainedModel part = layer.part(m);
  for (const StateTensor& t : part.layers[0]) elements += t.elements(), partial += t.is_partial ? t.elements() : 0;
  const std::int64_t downs = 7168 * (1536 + 512 + 64), norms = 2 * 7168 + 1536 + 512;
  CHECK(partial == downs + norms);
  const std::int64_t ups = 1536 * 128 * 192 + 512 * 128 * 256, rows = 128 * 128 * 7168, mlp = 3 * 7168 * 18432;
  CHECK(elements == downs + norms + (ups + rows + mlp) / 4);
  layer.mesh = shared_by(4, false);
  layer.emit(m);
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream, stream});
  CHECK(sorted(layer.exchanged(Exchange::AllReduce, layer.graph.backward)) == Bytes64{rotated, kv, q, stream});
  layer.framework.tensor_parallel.latent = false;
  CHECK(why_not_shared(m, layer.recipe, layer.framework, "zero1", layer.mesh) ==
        "megatron has every expert whole on each of the ranks that share layers, which is not planned: add --ep or "
        "--etp");
}

TEST_CASE("a vision tower is whole on every rank, and its features join rows of all tokens") {
  SharedLayer layer;
  layer.mesh = shared_by(2, true);
  layer.framework.tensor_parallel.towers = true;
  const ModelSpec m = load_model("qwen2.5-vl-3b").spec;
  CHECK(why_not_shared(m, layer.recipe, layer.framework, "zero1", layer.mesh).empty());
  const TrainedModel whole = prepare(m, layer.recipe, layer.framework), part = layer.part(m);
  std::int64_t num_towers = 0;
  for (std::size_t k = 0; k < whole.layers.size(); ++k) {
    const bool is_tower = whole.weights.kinds[k].part != ModelPart::Language;
    std::int64_t all = 0, own = 0, partial = 0;
    for (const StateTensor& t : whole.layers[k]) all += t.elements();
    for (const StateTensor& t : part.layers[k]) own += t.elements(), partial += t.is_partial;
    num_towers += is_tower;
    CHECK((own == all) == is_tower);
    if (is_tower) CHECK(partial == 0);
    LayerGraph graph;
    LedgerContext c = make_context(part, layer.recipe, layer.framework,
                                   resolve_numerics(layer.recipe, layer.framework, ShardingEngine::Zero, &m));
    c.kind = k;
    emit_layer(graph, c);
    if (whole.weights.kinds[k].part == ModelPart::Tower)
      for (const std::vector<LayerOp>* ops : {&graph.forward, &graph.backward})
        CHECK(std::ranges::none_of(*ops, [](const LayerOp& op) { return op.exchange != Exchange::None; }));
    if (whole.weights.kinds[k].part != ModelPart::Projector) continue;
    layer.graph = graph;
    const std::int64_t rows = 64 * 2048 * 2;
    CHECK(layer.exchanged(Exchange::AllReduce, graph.forward) == Bytes64{rows});
    CHECK(layer.exchanged(Exchange::ReduceScatter, graph.forward) == Bytes64{rows});
    CHECK(layer.exchanged(Exchange::AllGather, graph.backward) == Bytes64{rows});
  }
  CHECK(num_towers > 1);
  layer.framework.tensor_parallel.towers = false;
  CHECK(why_not_shared(m, layer.recipe, layer.framework, "zero1", layer.mesh) ==
        "tp of vision towers is not planned yet");
}

TEST_CASE("the loss sums three numbers per token over the ranks that share the vocabulary") {
  SharedLayer layer;
  layer.emit(tiny_llama(), emit_head);
  const std::int64_t stream = 64 * 64 * 2, numbers = 64 * 4;
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{numbers, numbers, numbers, stream});
  layer.emit(tiny_llama(), emit_embedding);
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream});
}

TEST_CASE("a rank has its heads, its part of the MLP and of the padded vocabulary") {
  SharedLayer layer;
  layer.mesh = shared_by(2, false);
  ModelSpec m = tiny_llama();
  m.vocab_size = 257;  // 129 of each rank, padded to 256
  const TrainedModel part = layer.part(m);
  CHECK(part.layers[0].size() == 9);
  std::int64_t elements = 0;
  for (const StateTensor& t : part.layers[0]) elements += t.elements();
  CHECK(elements == kTinyLinears / 2 + 2 * 64);  // norms whole
  CHECK(part.spec.vocab_size == 256);
  CHECK(part.parameters == prepare(m, layer.recipe, layer.framework).parameters);
}

TEST_CASE("ranks beyond the KV heads hold a head each, where the trainer does that") {
  SharedLayer layer;  // 4 ranks, 2 KV heads
  const TrainedModel part = layer.part(tiny_llama());
  CHECK(part.spec.num_key_value_heads == 1);
  const LinearRef& k = part.linears[0][LinearSlot::K];
  CHECK(k.out == 16);
  layer.framework.tensor_parallel.replicates_kv_heads = false;
  CHECK(why_not_shared(tiny_llama(), layer.recipe, layer.framework, "zero1", layer.mesh) ==
        "megatron does not share KV heads: tp 4 is more than the 2 there are");
}

TEST_CASE("adapters: replicated, the side that is not cut is whole; gathered, both factors are cut") {
  SharedLayer layer;
  layer.mesh = shared_by(2, false);
  layer.recipe.method = Method::Lora;
  layer.recipe.lora.rank = 8;
  const auto adapters = [&](AdapterSplit split) {
    layer.framework = trainer(split);
    std::int64_t elements = 0, partial = 0;
    const TrainedModel part = layer.part(tiny_llama());
    for (const StateTensor& t : part.layers[0]) {
      if (t.kind == StateKind::Adapter) elements += t.elements();
      if (t.is_partial) partial += t.elements();
    }
    return std::pair(elements, partial);
  };
  // columns q 64 -> 64, k and v 64 -> 32, gate and up 64 -> 128; rows o 64 -> 64, down 128 -> 64; r 8
  const std::int64_t a_columns = 5 * 8 * 64, b_columns = 8 * (64 + 2 * 32 + 2 * 128), a_rows = 8 * (64 + 128),
                     b_rows = 2 * 8 * 64;
  CHECK(adapters(AdapterSplit::Replicated) ==
        std::pair(a_columns + b_columns / 2 + a_rows / 2 + b_rows, a_columns + b_rows));
  CHECK(adapters(AdapterSplit::Gathered) == std::pair((a_columns + b_columns + a_rows + b_rows) / 2, std::int64_t{0}));
}

TEST_CASE("gathered adapters move the low-rank activation of a column, and the output of a row") {
  SharedLayer layer;
  layer.mesh = shared_by(2, false);
  layer.recipe.method = Method::Lora;
  layer.recipe.lora.rank = 8;
  layer.emit(tiny_llama());
  const std::int64_t stream = 64 * 64 * 2, mid = 64 * 8 * 2;
  // q, k, v; o's output; gate, up; down's output
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward) == Bytes64{mid, mid, mid, stream, mid, mid, stream});
  // rows sum their base, then their low-rank activation
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream, mid, stream, mid});
  layer.framework = trainer(AdapterSplit::Replicated);
  layer.emit(tiny_llama());
  CHECK(layer.exchanged(Exchange::AllGather, layer.graph.forward).empty());
  CHECK(layer.exchanged(Exchange::AllReduce, layer.graph.forward) == Bytes64{stream, stream});
}

TEST_CASE("programs of shared layers hold their invariants, and are the same folded") {
  for (const bool splits : {false, true})
    for (const char* strategy : {"single", "ddp", "zero1"})
      for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full, Checkpointing::Selective})
        for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
          for (const AdapterSplit adapters : {AdapterSplit::Gathered, AdapterSplit::Replicated}) {
            Plan plan;
            plan.spec = tiny_llama(32);
            plan.framework = trainer(adapters);
            plan.recipe.method = method;
            if (method == Method::Qlora) plan.recipe.quant.kind = BaseQuant::Nf4;
            plan.recipe.grad_accum = 3;
            plan.recipe.checkpointing = checkpointing;
            plan.options.tp = 2, plan.options.splits_sequence = splits;
            plan.build(strategy);
            INFO(plan.strategy.title() << ", " << int(checkpointing) << ", " << int(method) << ", " << int(adapters));
            verify(plan.program);
            StepProgram folded;
            build_step_program(folded, plan.job(), {}, {}, nullptr, Layers::Folded);
            CHECK(written_out(folded.programs[0]) == plan.of_rank());
            CHECK(replay(folded, folded.classes[0]).tensors == plan.peak().tensors);
          }
}

TEST_CASE("what ranks exchange is waited for, or runs beside the products, each layer as long as the longer of both") {
  Plan plan;
  plan.framework = trainer();
  plan.recipe.attention = AttentionKernel::Cudnn;
  plan.cluster = plain_cluster(2);
  plan.options.tp = 2, plan.options.splits_sequence = true;
  const auto step = [&](bool overlaps, double compute, double exchange, bool overlaps_columns = false) {
    plan.framework.tensor_parallel.overlaps = overlaps;
    plan.framework.tensor_parallel.overlaps_columns = overlaps_columns;
    CostModel device;
    device.gemm = device.gemm_fp32 = device.batched_gemm = device.flash = device.cudnn = {1e30};
    device.memory = {1e30};
    plan.build("single", {device});
    for (BlockCost& cost : plan.program.costs[0]) cost = {};
    for (std::size_t b = 0; b < plan.program.blocks.size(); ++b)  // a column's product is as long as the exchange
      if (plan.program.blocks[b].goes_with_columns) plan.program.costs[0][b].device = {exchange};
    std::int64_t calls = 0;
    for (const Instruction& i : plan.of_rank().instructions) {
      if (i.op != OpCode::Call || i.unit == 0 || i.unit > 4) continue;
      plan.program.costs[0][i.block].device = {compute};
      ++calls;
    }
    CommModel comm;
    comm.host_link = comm.cpu_optimizer = comm.nvme = {1e30};
    comm.axes[std::size_t(Axis::Tp)] = {{{exchange}, {1e30}, {1e30}, ""}, 2, false};
    verify(plan.program);
    return std::pair(forward_pass(plan.program, std::vector<CostModel>{device}, comm).step.value, calls);
  };
  const auto [waiting, calls] = step(false, 1, 0.25);
  const auto [beside, same] = step(true, 1, 0.25);
  CHECK(calls == same);
  CHECK(waiting > double(calls) + 4 * (4 + 6) * 0.25 - 1e-9);  // 4 layers of 4 exchanges forward and 6 backward
  CHECK(beside < double(calls) + 0.25 * (waiting - double(calls)));
  CHECK(beside >= double(calls));
  // of the 6 of a layer's backward 4 are a column's, and 2 of the head's
  const auto [columns, again] = step(false, 1, 0.25, true);
  CHECK(again == calls);
  CHECK(waiting - columns == doctest::Approx((4 * 4 + 2) * 0.25));
}

TEST_CASE("FSDP shards what ranks that share layers hold: each 1 / (t x s) of a linear") {
  for (const char* strategy : {"fsdp", "fsdp-grad-op", "hsdp"})
    for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
      Plan plan;
      plan.spec = tiny_llama(32);
      plan.framework = find_framework("torchtitan");
      plan.cluster = plain_cluster(8);
      plan.recipe.checkpointing = checkpointing;
      plan.options.tp = 2, plan.options.splits_sequence = true;
      if (std::string_view(strategy) == "hsdp") plan.options.shard_size = 2;
      plan.build(strategy);
      INFO(plan.strategy.title());
      verify(plan.program);
      StepProgram folded;
      build_step_program(folded, plan.job(), {}, {}, nullptr, Layers::Folded);
      CHECK(written_out(folded.programs[0]) == plan.of_rank());
      const std::int64_t ways = plan.strategy.mesh.shard_ways();
      std::int64_t weights = 0;
      for (const ProgramBuffer& b : plan.of_rank().buffers)
        if (b.is_persistent && b.category == Category::Weights && b.unit == 1) weights += b.bytes.count;
      CHECK(weights == 4 * (kTinyLinears / 2 + 2 * 64) / ways);  // fp32
    }
}

TEST_CASE("what ranks hold whole and sum is one message before the step") {
  Plan plan;
  plan.framework = trainer();
  plan.options.tp = 2;
  const auto messages = [&](bool splits) {
    plan.options.splits_sequence = splits;
    plan.build("zero1");
    std::int64_t bytes = 0;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.axis == Axis::Tp && i.stream == StreamId::Reduce) bytes += i.work.count;
    return bytes;
  };
  CHECK(messages(false) == 0);
  CHECK(messages(true) == 4 * (4 * 2 + 1) * 64 / 2);  // fp32; 9 norms; of each its shard over 2 data-parallel ranks
}

TEST_CASE("7B on 4 ranks, micro-batch 2 of 8,192: the bytes that Megatron-LM's functional test measured") {
  // Source: NVIDIA/Megatron-LM tests/functional_tests/test_cases/gpt/gpt3_7b_tp4_pp1_memory_speed, model_config.yaml
  // and golden_values_dev_dgx_h100.json @d98e8a64d: mem-max-allocated 53.2193 GiB, mem-allocated (after a step) 19.2444
  Plan plan;
  plan.spec = gpt_7b();
  plan.spec.num_key_value_heads = 8;
  plan.spec.vocab_size = 131072;
  plan.framework = trainer();
  plan.cluster = plain_cluster(8);
  plan.recipe.micro_batch = 2, plan.recipe.seq_len = 8192, plan.recipe.grad_accum = 2;
  plan.recipe.attention = AttentionKernel::Cudnn;
  plan.recipe.loss = LossKernel::InPlace;
  plan.options.tp = 4;
  plan.build("zero1");
  const DetailedPeak peak = replay_detailed(plan.program, plan.rank(), plan.spec.num_hidden_layers);
  const auto gb = [&](Category c) { return double(peak.by_category[std::size_t(c)].count) / 1e9; };
  // layers N h (10 + (2 + 2 x 2 / 4 + 2 + 16) / 4) x 32 = 32.75 GB with 8 KV heads; logits N x 32,768 in 16 and in 32
  // bit 3.22 GB; the last boundary and the final norm's output 0.27 GB
  CHECK(gb(Category::Activations) + gb(Category::Logits) == doctest::Approx(36.26).epsilon(0.001));
  CHECK(gb(Category::Activations) + gb(Category::Logits) == doctest::Approx(57.143 - 20.664).epsilon(0.02));
  CHECK(double(peak.tensors.count) == doctest::Approx(53.2193 * 0x1p30).epsilon(0.02));
  // A100 (golden_values_dev_dgx_a100.json), where flash-attn runs: its output [N, h / 4] of each layer is put in the
  // order of the sequence again, 33.6 MB of two rows
  plan.recipe.attention = AttentionKernel::Flash;
  plan.build("zero1");
  const Bytes flash = replay_detailed(plan.program, plan.rank(), plan.spec.num_hidden_layers).tensors;
  CHECK(double((flash - peak.tensors).count) == doctest::Approx(32.0 * 2 * 8192 * 1024 * 2).epsilon(0.04));
  CHECK(double(flash.count) == doctest::Approx(54.1919 * 0x1p30).epsilon(0.02));
}

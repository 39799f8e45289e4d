// Ranks that share each sequence (context parallelism): what one of them holds, computes and exchanges, counted by
// hand. c is the number of ranks, N the tokens of a micro-batch, h the width.
#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "models/rank_model.h"
#include "planner/comm_model.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

Mesh in_context(std::int64_t ways, ContextExchange exchange) {
  return Mesh{{Axis::Cp, ways}, {Axis::DpShard, ways}}.set_context_exchange(exchange);
}

/// One layer of a rank.
struct ContextLayer {
  Recipe recipe;
  FrameworkConvention framework = find_framework("megatron");
  Mesh mesh = in_context(4, ContextExchange::Ring);
  LayerGraph graph;

  ContextLayer() {
    recipe.seq_len = 64;
    recipe.precision = Precision::Bf16Mixed;
    recipe.attention = AttentionKernel::Flash;
  }
  void emit(const ModelSpec& spec, void (*emitter)(LayerGraph&, const LedgerContext&) = emit_layer) {
    const TrainedModel model = rank_model(prepare(spec, recipe, framework), recipe, framework, mesh);
    emitter(graph,
            make_context(model, recipe, framework, resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec)));
  }
  std::int64_t saved() const {
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return bytes;
  }
  struct Message {
    Exchange kind;
    std::int64_t bytes;
    bool is_beside;
    bool operator==(const Message&) const = default;
  };
  static std::vector<Message> messages(const std::vector<LayerOp>& ops) {
    std::vector<Message> out;
    for (const LayerOp& op : ops)
      if (op.exchange != Exchange::None) {
        CHECK(op.axis == Axis::Cp);
        out.push_back({op.exchange, op.message.count, op.is_beside});
      }
    return out;
  }
  static double attention_flops_of(const std::vector<LayerOp>& ops) {
    double flops = 0;
    for (const LayerOp& op : ops)
      if (op.kind == OpKind::Attention) flops += op.flops;
    return flops;
  }
  std::int64_t elements(const char* name) const {
    std::int64_t sum = 0;
    for (const Local& local : graph.locals)
      if (std::string_view(local.name) == name) sum += local.elements;
    return sum;
  }
};

// tiny_llama: 2 KV heads of 16, so k and v of 64 tokens are 2 x 64 x 32 elements
constexpr std::int64_t kKeysAndValues = 2 * 64 * 32;
using Messages = std::vector<ContextLayer::Message>;

}  // namespace

TEST_CASE("context: the ranks of a mesh that share a sequence are neighbours, and hold shards of one state") {
  const Mesh mesh{{Axis::Tp, 2}, {Axis::Cp, 2}, {Axis::DpShard, 4}, {Axis::DpReplicate, 2}, {Axis::Pp, 2}};
  CHECK(mesh.world() == 32);  // cp is within dp
  CHECK(mesh.ranks_per_stage() == 16);
  CHECK(mesh.stride(Axis::Cp) == 2);
  CHECK(mesh.stride(Axis::DpShard) == 2);
  CHECK(mesh.stride(Axis::DpReplicate) == 8);
  CHECK(mesh.batch_replicas() == 4);  // 4 x 2 / 2
  CHECK(mesh.shard_ways() == 4);
  std::vector<std::int64_t> count(4);
  for (std::int64_t rank = 0; rank < mesh.world(); ++rank) {
    ++count[std::size_t(mesh.batch_replica(rank))];
    const std::int64_t other = rank + (mesh.place(rank, Axis::Cp) == 0 ? 2 : -2);
    CHECK(mesh.batch_replica(rank) == mesh.batch_replica(other));
  }
  CHECK(count == std::vector<std::int64_t>(4, 8));
}

TEST_CASE("context: a rank keeps one c-th of a layer, and does one c-th of the attention") {
  ContextLayer part, whole;
  whole.mesh = Mesh();
  part.emit(tiny_llama());
  whole.emit(tiny_llama());
  CHECK(part.saved() * 4 == whole.saved());
  CHECK(ContextLayer::attention_flops_of(part.graph.forward) * 4 ==
        doctest::Approx(ContextLayer::attention_flops_of(whole.graph.forward)).epsilon(1e-12));
  CHECK(ContextLayer::attention_flops_of(part.graph.backward) * 4 ==
        doctest::Approx(ContextLayer::attention_flops_of(whole.graph.backward)).epsilon(1e-12));
  part.emit(tiny_llama(), emit_head);
  whole.emit(tiny_llama(), emit_head);
  CHECK(part.saved() * 4 == doctest::Approx(double(whole.saved())).epsilon(0.01));  // logits too; the loss is a number
}

TEST_CASE("context: a ring brings all keys and values beside the attention, and takes their gradients back") {
  ContextLayer layer;
  layer.emit(tiny_llama());
  const std::int64_t bytes = 2 * kKeysAndValues;
  CHECK(layer.messages(layer.graph.forward) == Messages{{Exchange::AllGather, bytes, true}});
  CHECK(layer.messages(layer.graph.backward) ==
        Messages{{Exchange::AllGather, bytes, true}, {Exchange::ReduceScatter, bytes, true}});
  // Transformer Engine: buffers of all 4 steps forward, two backward; gradients sent, received and made
  CHECK(layer.elements("k and v of the other ranks") == kKeysAndValues + kKeysAndValues / 4 * 2);
  CHECK(layer.elements("outputs of single parts") == 64 * 64);
  CHECK(layer.elements("gradients of k and v of the parts") == kKeysAndValues / 4 * 3);
}

TEST_CASE("context: torch gathers keys and values before, and sums gradients in fp32 round a ring") {
  ContextLayer layer;
  layer.framework = find_framework("torchtitan");
  layer.recipe.attention = AttentionKernel::Sdpa;
  layer.mesh = in_context(4, ContextExchange::AllGather);
  layer.emit(tiny_llama());
  // with the heads that its model repeats: 4 of 16
  const std::int64_t elements = layer.framework.layers.repeats_kv ? 2 * kKeysAndValues : kKeysAndValues;
  CHECK(layer.messages(layer.graph.forward) == Messages{{Exchange::AllGather, 2 * elements, false}});
  CHECK(layer.messages(layer.graph.backward) ==
        Messages{{Exchange::AllGather, 2 * elements, false}, {Exchange::ReduceScatter, 4 * elements, true}});
  CHECK(layer.elements("k and v of the other ranks") == 2 * elements);
  CHECK(layer.elements("sum of the parts") == 64 / 4 * 64);
}

TEST_CASE("context: by heads, a rank has all positions of a part of the heads during attention") {
  ContextLayer part, whole;
  for (ContextLayer* layer : {&part, &whole}) layer->framework = find_framework("verl");
  part.mesh = in_context(2, ContextExchange::Heads);
  whole.mesh = Mesh();
  part.emit(tiny_llama());
  whole.emit(tiny_llama());
  // q, k and v, and the output back
  const Messages there_and_back(4, {Exchange::AllToAll, 0, false});  // each of what it sends
  CHECK(part.messages(part.graph.forward) == there_and_back);
  CHECK(part.messages(part.graph.backward) == there_and_back);
  CHECK(part.elements("q of some heads") == 32 * 64);  // 64 positions of 2 of 4 heads of 16
  CHECK(part.elements("k of some heads") == 32 * 32);
  CHECK(ContextLayer::attention_flops_of(part.graph.forward) * 2 ==
        doctest::Approx(ContextLayer::attention_flops_of(whole.graph.forward)).epsilon(1e-12));
  // attention keeps its output, and the product behind it that of all heads
  CHECK(part.saved() * 2 - whole.saved() == 2 * 32 * 64 * 2);
}

TEST_CASE("context: by heads, keys of fewer heads than ranks are repeated") {
  ContextLayer layer;
  layer.framework = find_framework("verl");
  layer.mesh = in_context(4, ContextExchange::Heads);  // of 2 KV heads
  layer.emit(tiny_llama());
  CHECK(layer.elements("q of some heads") == 16 * 64);
  CHECK(layer.elements("k of some heads") == 2 * 16 * 32);
}

TEST_CASE("context: whole gradients are summed and scattered where keys and values are gathered so") {
  ContextLayer layer;
  layer.mesh = in_context(4, ContextExchange::AllGather);
  layer.emit(tiny_llama());
  const std::int64_t bytes = 2 * kKeysAndValues;
  CHECK(layer.messages(layer.graph.backward) ==
        Messages{{Exchange::AllGather, bytes, false}, {Exchange::ReduceScatter, bytes, false}});
  CHECK(layer.elements("gradients of k and v of the parts") == kKeysAndValues);
}

TEST_CASE("context: a ring costs what it takes longer than the attention beside it") {
  constexpr std::int64_t kLayers = 4;
  const auto step = [&](double exchange, ContextExchange kind) {
    Plan plan;
    plan.framework = find_framework("megatron");
    plan.recipe.attention = AttentionKernel::Flash;
    plan.options.cp = 4, plan.options.context_exchange = kind;
    CostModel device;
    device.gemm = device.gemm_fp32 = device.batched_gemm = device.flash = device.cudnn = {1e30};
    device.memory = {1e30};
    plan.build("ddp", {device});
    verify(plan.program);
    for (BlockCost& cost : plan.program.costs[0]) cost = {};
    std::int64_t calls = 0;
    for (const Instruction& i : plan.of_rank().instructions) {
      if (i.op != OpCode::Call || i.unit == 0 || i.unit > kLayers) continue;
      plan.program.costs[0][i.block].device = {1.0};
      ++calls;
    }
    CommModel comm;
    comm.host_link = comm.cpu_optimizer = comm.nvme = {1e30};
    comm.axes[std::size_t(Axis::Cp)] = {{{exchange / 3}, {1e30}, {1e30}, ""}, 4, false};
    return forward_pass(plan.program, std::vector<CostModel>{device}, comm).step.value - double(calls);
  };
  // one exchange of three hops forward and two backward, beside an attention of a second each
  CHECK(step(0.25, ContextExchange::Ring) < 0.05);
  CHECK(step(3, ContextExchange::Ring) == doctest::Approx(kLayers * ((3 - 1) + (6 - 1))).epsilon(0.02));
  CHECK(step(0.25, ContextExchange::AllGather) == doctest::Approx(kLayers * 3 * 0.25).epsilon(0.05));
}

TEST_CASE("context: a state is sharded over the ranks that share a sequence too, and folds as it is written out") {
  for (const char* strategy : {"fsdp", "fsdp-grad-op", "hsdp"}) {
    Plan plan;
    plan.spec = tiny_llama(32);
    plan.framework = find_framework("torchtitan");
    plan.cluster = plain_cluster(8);
    plan.recipe.attention = AttentionKernel::Sdpa;
    plan.options.cp = 2;
    if (std::string_view(strategy) == "hsdp") plan.options.shard_size = 4;
    plan.build(strategy);
    INFO(plan.strategy.title());
    verify(plan.program);
    StepProgram folded;
    build_step_program(folded, plan.job(), {}, {}, nullptr, Layers::Folded);
    CHECK(written_out(folded.programs[0]) == plan.of_rank());
    const std::int64_t ways = std::string_view(strategy) == "hsdp" ? 4 : 8;
    CHECK(plan.strategy.mesh.shard_ways() == ways);
    CHECK(plan.strategy.mesh.batch_replicas() == 4);
    std::int64_t weights = 0;
    for (const ProgramBuffer& b : plan.of_rank().buffers)
      if (b.is_persistent && b.category == Category::Weights && b.unit == 1) weights += b.bytes.count;
    CHECK(weights == 4 * kTinyLayer / ways);  // fp32
  }
}

TEST_CASE("context: FSDP1 divides no sequences but by heads") {
  const auto why = [](int version, ContextExchange exchange) {
    Plan plan;
    plan.recipe.attention = AttentionKernel::Sdpa;
    plan.options.cp = 2, plan.options.context_exchange = exchange, plan.options.fsdp_version = version;
    return why_not_applicable(make_strategy("fsdp", plan.cluster, plan.options), plan.cluster, plan.recipe, plan.spec);
  };
  const char* const kReason = "FSDP version 1 divides no sequences among GPUs: --fsdp-version 2";
  CHECK(why(1, ContextExchange::AllGather) == kReason);
  CHECK(why(2, ContextExchange::AllGather) != kReason);
  CHECK(why(1, ContextExchange::Heads) != kReason);
}

TEST_CASE("context: what cannot be shared is refused with the reason") {
  const auto why = [](auto change) {
    Plan plan;
    plan.framework = find_framework("megatron");
    plan.recipe.attention = AttentionKernel::Flash;
    plan.options.cp = 4, plan.options.context_exchange = ContextExchange::Ring;
    change(plan);
    const Strategy s = make_strategy("ddp", plan.cluster, plan.options);
    return why_not_in_context(plan.spec, plan.recipe, plan.framework, s.name, s.mesh);
  };
  CHECK(why([](Plan&) {}).empty());
  CHECK(why([](Plan& p) { p.recipe.seq_len = 36; }) == "cp 4: 8 does not divide the sequence of 36");
  CHECK(why([](Plan& p) { p.recipe.attention = AttentionKernel::Eager; }) ==
        "cp needs --attention flash or cudnn or flash-3: parts of eager attention are not merged");
  CHECK(why([](Plan& p) { p.framework.context_parallel.strategies = {"zero1"}; }) == "megatron has cp with zero1");
  CHECK(why([](Plan& p) {
          p.framework = find_framework("verl"), p.framework.context_parallel.strategies = {"ddp"};
          p.options.context_exchange = ContextExchange::Heads, p.spec.num_attention_heads = 6;
        }) == "cp 4 does not divide 6 attention heads");
  CHECK(why([](Plan& p) { p.framework = find_framework("torchtune"); }) ==
        "torchtune has no context parallelism that is planned");
  CHECK(strategy_mistake("ddp", plain_cluster(6), {.cp = 4})->problem() ==
        "4 does not divide the 6 data parallel ranks");
  CHECK(strategy_mistake("hsdp", plain_cluster(12), {.cp = 4, .shard_size = 6})->problem() ==
        "4 does not divide the shard groups of 6 ranks");
  // verl's mesh of sequences is apart from that of FSDP
  const Mesh two_groups{{Axis::DpShard, 2}, {Axis::DpReplicate, 4}, {Axis::Cp, 4}};
  Plan plan;
  plan.recipe.attention = AttentionKernel::Flash;
  const auto beside = [&](const FrameworkConvention& trainer) {
    Mesh mesh = two_groups;
    mesh.set_context_exchange(ContextExchange::Heads);
    return why_not_in_context(plan.spec, plan.recipe, trainer, "hsdp", mesh);
  };
  FrameworkConvention verl = find_framework("verl");
  plan.spec.num_attention_heads = plan.spec.num_key_value_heads = 8;
  CHECK(beside(verl).empty());
  verl.context_parallel.shards_apart = false;
  CHECK(beside(verl) == "cp 4 does not divide the shard groups of 2 ranks, over which states are sharded too");
  CHECK_FALSE(strategy_mistake("hsdp", plain_cluster(8), {.cp = 8}));  // one group is left: not applicable
}

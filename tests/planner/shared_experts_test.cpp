// Ranks that share the experts of each layer (expert parallelism): what one of them holds, what it sends, and over
// which ranks gradients and states of experts are cut, counted by hand. N tokens of a micro-batch, k experts of each, h
// the width.
#include <doctest/doctest.h>

#include <map>

#include "models/catalogue.h"
#include "models/rank_model.h"
#include "planner/collective.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kExperts = 8, kChosen = 2, kWidth = 32, kExpert = 3 * 64 * kWidth;

/// A tiny Qwen3-MoE: h 64, 8 experts of width 32, 2 of them for each token.
ModelSpec eight_experts(std::int64_t layers = 4) {
  ModelSpec m = load_model("qwen3-30b-a3b").spec;
  m.name = m.id = "tiny-mixture";
  m.hidden_size = 64, m.num_hidden_layers = layers, m.num_attention_heads = 4, m.num_key_value_heads = 2,
  m.head_dim = 16, m.intermediate_size = 128, m.vocab_size = 256;
  m.moe.num_experts = kExperts, m.moe.experts_per_token = kChosen, m.moe.intermediate_size = kWidth;
  return m;
}

Plan plan_of(std::int64_t ep, const char* trainer = "megatron") {
  Plan plan;
  plan.spec = eight_experts();
  plan.framework = find_framework(trainer);
  plan.cluster = plain_cluster(8);
  plan.options.ep = ep;
  return plan;
}

struct ExpertLayer {
  Recipe recipe;
  FrameworkConvention framework = find_framework("megatron");
  Mesh mesh;
  LayerGraph graph;

  explicit ExpertLayer(const Mesh& shared) : mesh(shared) {
    recipe.seq_len = 64;
    recipe.precision = Precision::Bf16Mixed;
    recipe.attention = AttentionKernel::Cudnn;
    const ModelSpec spec = eight_experts();
    const TrainedModel model = rank_model(prepare(spec, recipe, framework), recipe, framework, mesh);
    emit_layer(graph, make_context(model, recipe, framework,
                                   resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec)));
  }
  std::vector<std::int64_t> sent(const std::vector<LayerOp>& ops) const {
    std::vector<std::int64_t> out;
    for (const LayerOp& op : ops)
      if (op.exchange == Exchange::AllToAll) {
        CHECK(op.axis == Axis::Ep);
        out.push_back(graph.locals[op.reads[0]].bytes().count);
      }
    return out;
  }
  std::int64_t saved() const {
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return bytes;
  }
};

Mesh experts_over(std::int64_t ep, std::int64_t tp = 1) {
  return Mesh{{Axis::Tp, tp}, {Axis::DpShard, 8 / tp}}.set_splits_sequence(tp > 1).set_expert_ways(ep);
}

}  // namespace

TEST_CASE("experts: the ranks of a stage are laid out once more, the sharers innermost") {
  const Mesh mesh = experts_over(4, 2);  // tp 2 x dp 4
  CHECK(mesh.world() == 8);
  CHECK(mesh.ways(Axis::ExpertData) == 2);
  CHECK(mesh.stride(Axis::Ep) == 1);
  CHECK(mesh.stride(Axis::ExpertData) == 4);
  CHECK(mesh.stride(Axis::DpShard) == 2);
  CHECK(mesh.place(5, Axis::Ep) == 1);
  CHECK(mesh.place(5, Axis::ExpertData) == 1);
  CHECK(mesh.batch_replicas() == 4);
  const Domain sharded = mesh.experts_domain();
  CHECK(mesh.shard_ways(sharded) == 2);
  CHECK(mesh.copies(sharded) == 1);
  const Mesh copied = Mesh{{Axis::DpReplicate, 8}}.set_expert_ways(4);
  CHECK(copied.shard_ways(copied.experts_domain()) == 1);
  CHECK(copied.copies(copied.experts_domain()) == 2);
  // hybrid sharding: copies of a shard group hold the same experts again
  const Mesh hybrid = Mesh{{Axis::DpShard, 4}, {Axis::DpReplicate, 2}, {Axis::Pp, 2}}.set_expert_ways(2);
  CHECK(hybrid.shard_ways(hybrid.experts_domain()) == 2);
  CHECK(hybrid.copies(hybrid.experts_domain()) == 2);
  CHECK(hybrid.stride(Axis::Pp) == 8);
  CHECK(hybrid.within_layers() == Mesh{{Axis::Ep, 2}});
}

TEST_CASE("experts: a rank holds one in so many of them, and the router whole") {
  Recipe recipe;
  const FrameworkConvention framework = find_framework("megatron");
  const TrainedModel part = rank_model(prepare(eight_experts(), recipe, framework), recipe, framework, experts_over(4));
  std::int64_t experts = 0, rest = 0;
  for (const StateTensor& t : part.layers[0]) (t.is_routed ? experts : rest) += t.elements();
  CHECK(experts == kExperts / 4 * kExpert);
  // q 64 -> 64, k and v 64 -> 32, o 64 -> 64, four norms, router 64 -> 8
  CHECK(rest == 2 * 64 * 64 + 2 * 64 * 32 + 2 * 64 + 2 * 16 + 64 * kExperts);
  CHECK(part.parameters == prepare(eight_experts(), recipe, framework).parameters);
}

TEST_CASE("experts: each pass sends N k h to the experts and back, of a rank's own tokens") {
  const ExpertLayer alone(experts_over(4));
  const std::int64_t rows = 64 * kChosen * 64 * 2;
  CHECK(alone.sent(alone.graph.forward) == std::vector<std::int64_t>{rows, rows});
  CHECK(alone.sent(alone.graph.backward) == std::vector<std::int64_t>{rows, rows});
  const ExpertLayer beside_tensor(experts_over(4, 2));
  CHECK(beside_tensor.sent(beside_tensor.graph.forward) == std::vector<std::int64_t>{rows / 2, rows / 2});
  const ExpertLayer nobody(experts_over(1));
  CHECK(nobody.sent(nobody.graph.forward).empty());
}

TEST_CASE("experts: ranks that share a sequence send their part of it, and count among those that share the experts") {
  // cp 2 of 8 data parallel ranks, ep 4: groups of 4 neighbours, of which two pairs have a sequence each
  const Mesh mesh = Mesh{{Axis::Cp, 2}, {Axis::DpShard, 8}}.set_expert_ways(4);
  CHECK(mesh.world() == 8);
  CHECK(mesh.ranks_of_experts() == 8);
  CHECK(mesh.ways(Axis::ExpertData) == 2);
  CHECK(mesh.stride(Axis::Ep) == 1);
  CHECK(mesh.batch_replicas() == 4);
  CHECK(mesh.shard_ways(mesh.experts_domain()) == 2);
  const ExpertLayer layer(mesh), alone(experts_over(4));
  const std::int64_t rows = 64 / 2 * kChosen * 64 * 2;
  CHECK(layer.sent(layer.graph.forward) == std::vector<std::int64_t>{rows, rows});
  CHECK(layer.sent(layer.graph.backward) == std::vector<std::int64_t>{rows, rows});
  CHECK(layer.saved() < alone.saved());
  Plan plan = plan_of(4);
  plan.options.cp = 2;
  plan.recipe.seq_len = 64;
  plan.recipe.attention = AttentionKernel::Flash;
  CHECK(why_not_by_experts(plan.spec, plan.recipe, plan.framework, "zero1", mesh).empty());
}

TEST_CASE(
    "experts: Megatron weighs and adds a bias in fp32: 28 bytes per element of their outputs, and 40 on the way back") {
  const auto traffic = [](bool has_bias, bool lora) {
    ModelSpec spec = eight_experts();
    spec.moe.has_expert_bias = has_bias;
    Recipe recipe;
    recipe.seq_len = 64;
    recipe.precision = Precision::Bf16Mixed;
    recipe.method = lora ? Method::Lora : Method::Full;
    const FrameworkConvention framework = find_framework("megatron");
    const TrainedModel model = rank_model(prepare(spec, recipe, framework), recipe, framework, experts_over(4));
    LayerGraph graph;
    emit_layer(graph, make_context(model, recipe, framework,
                                   resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec)));
    const auto sum = [](const std::vector<LayerOp>& ops) {
      double bytes = 0;
      for (const LayerOp& op : ops) bytes += op.traffic;
      return bytes;
    };
    return std::array{sum(graph.forward), sum(graph.backward)};
  };
  const double outputs = 64 * kChosen * 64;
  for (const bool lora : {false, true}) {
    const auto with = traffic(true, lora), without = traffic(false, lora);
    CHECK(with[0] - without[0] == doctest::Approx(28 * outputs));
    CHECK(with[1] - without[1] == doctest::Approx((lora ? 28 : 40) * outputs));  // a frozen bias has no gradient
  }
  // Megatron-Core 0.14 adds it as it is
  const auto weighs = [](const char* versions) {
    return resolve_framework("megatron", {.given = parse_stack_versions(versions), .date = {}}).experts.weighs_bias;
  };
  CHECK(weighs("megatron-core=0.15.0"));
  CHECK_FALSE(weighs("megatron-core=0.14.0"));
}

TEST_CASE("experts: what comes from others is kept in the place of what a rank had") {
  // as many rows, in equal numbers; copies on the way are let go
  CHECK(ExpertLayer(experts_over(4)).saved() == ExpertLayer(experts_over(1)).saved());
  // one expert each: nothing is sorted by expert
  const auto copies = [](const LayerGraph& graph) {
    return std::ranges::count(graph.forward, OpKind::Copy, &LayerOp::kind);
  };
  CHECK(copies(ExpertLayer(experts_over(4)).graph) == copies(ExpertLayer(experts_over(8)).graph) + 2);
}

TEST_CASE("experts: the trainer that weighs the activation keeps no output of experts") {
  ExpertLayer inside(experts_over(4));
  std::int64_t kept = 0;
  for (const LocalId id : saved_locals(inside.graph))
    if (inside.graph.locals[id].why == std::string_view("gradient of the router weights")) ++kept;
  CHECK(kept == 0);
}

TEST_CASE("experts: gradients and states are cut over the ranks that have the same experts") {
  const auto message = [](Plan& plan, OpCode op, Axis axis) {
    std::int64_t bytes = 0;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == op && i.axis == axis && !runs_block(i)) bytes += i.work.count;
    return bytes;
  };
  const std::int64_t of_experts = 4 * kExperts * kExpert;  // elements of 4 layers
  for (const std::int64_t ep : {2, 4, 8}) {
    Plan plan = plan_of(ep);
    plan.build("zero1");
    INFO("ep " << ep);
    verify(plan.program);
    std::int64_t states = 0;
    for (const ProgramBuffer& b : plan.of_rank().buffers)
      if (b.is_persistent && b.category == Category::Optimizer) states += b.bytes.count;
    // 8 bytes of Adam's states per parameter: all is cut into 8 in the end, experts by ep and by the ranks that share
    CHECK(states == doctest::Approx(8.0 * double(plan.job().whole().parameters) / 8).epsilon(0.01));
    const std::int64_t reduced = message(plan, OpCode::ReduceScatter, Axis::ExpertData);
    CHECK(reduced == (ep == 8 ? 0 : 4 * of_experts / ep));  // fp32 gradients
    CHECK(message(plan, OpCode::ReduceScatter, Axis::DpShard) > 0);
    plan.build("ddp");
    verify(plan.program);
    CHECK(message(plan, OpCode::AllReduce, Axis::ExpertData) == (ep == 8 ? 0 : 4 * of_experts / ep));
  }
}

TEST_CASE("experts: FSDP gathers a rank's experts from those that have the same ones") {
  Plan plan = plan_of(4, "torchtitan");
  for (const char* strategy : {"fsdp", "fsdp-grad-op"}) {
    plan.build(strategy);
    verify(plan.program);
    std::int64_t stored = 0, gathered = 0;
    for (const ProgramBuffer& b : plan.of_rank().buffers)
      if (b.is_persistent && b.category == Category::Weights && b.unit == 1) stored += b.bytes.count;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == OpCode::AllGather && i.axis == Axis::ExpertData && i.unit == 1 && i.phase == Phase::Forward)
        gathered += i.work.count;
    const std::int64_t layer = kExperts * kExpert + 2 * 64 * 64 + 2 * 64 * 32 + 2 * 64 + 2 * 16 + 64 * kExperts;
    CHECK(stored == doctest::Approx(4.0 * double(layer) / 8).epsilon(0.01));
    CHECK(gathered == 2 * kExperts / 4 * kExpert);  // in 16 bit
  }
}

TEST_CASE("experts: programs hold their invariants") {
  for (const std::int64_t tp : {1, 2})
    for (const std::int64_t pp : {1, 2})
      for (const char* strategy : {"ddp", "zero1"})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full})
          for (const Method method : {Method::Full, Method::Lora})
            for (const Layers layers : {Layers::WrittenOut, Layers::Folded}) {
              Plan plan = plan_of(4);
              plan.spec = eight_experts(12);
              plan.recipe.method = method;
              plan.recipe.grad_accum = 4;
              plan.recipe.checkpointing = checkpointing;
              plan.options.tp = tp, plan.options.splits_sequence = tp > 1, plan.options.pp = pp;
              plan.build(strategy);
              INFO(plan.strategy.title() << ", " << int(checkpointing) << ", " << int(method));
              StepProgram again;
              build_step_program(again, plan.job(), {}, {}, nullptr, layers);
              verify(again);
              CHECK(replay(again, again.classes[0]).tensors == plan.peak().tensors);
            }
}

TEST_CASE("experts: compute waits for their tokens, also where gathers along the sequence run beside the products") {
  Plan plan = plan_of(4);
  plan.options.tp = 2, plan.options.splits_sequence = true;
  REQUIRE(plan.framework.tensor_parallel.overlaps);
  plan.build("zero1");
  std::int64_t waited = 0, beside = 0;
  for (const Instruction& i : plan.of_rank().instructions) {
    if (!runs_block(i)) continue;
    if (i.op == OpCode::AllToAll) {
      CHECK(i.stream == StreamId::Compute);
      ++waited;
    }
    if (i.op == OpCode::AllGather && i.axis == Axis::Tp) beside += i.stream == StreamId::Gather;
  }
  CHECK(waited == 4 * 4);  // layers, there and back, forward and backward
  CHECK(beside > 0);
}

TEST_CASE("all to all: every rank's own bytes go out at once; between machines each crosses to all of them") {
  // no NCCL: one latency inside, one more across
  const GroupLinks inside{.shape = {.size = 8, .nodes = 1},
                          .bandwidth = {1e11},
                          .all_reduce_bandwidth = {1e11},
                          .intra_latency = {1e-6},
                          .inter_latency = {1e-5}};
  const Bytes message{80'000'000};
  CHECK(choose_collective(CollectiveKind::AllToAll, inside, message).time.value ==
        doctest::Approx(1e-6 + 7.0 / 8 * 80e6 / 1e11));
  GroupLinks across = inside;
  across.shape = {.size = 16, .nodes = 2};
  // of 8 ranks a machine each sends half its bytes over the network, whose adapters make 1e11 together
  CHECK(choose_collective(CollectiveKind::AllToAll, across, message).time.value ==
        doctest::Approx(1e-6 * 0 + 1e-5 + 8 * 0.5 * 80e6 / 1e11));
}

TEST_CASE("experts: a vision tower beside them is whole on every rank") {
  const ModelSpec spec = load_model("qwen3-vl-30b-a3b").spec;
  const FrameworkConvention framework = find_framework("megatron-swift");
  Recipe recipe;
  CHECK(why_not_by_experts(spec, recipe, framework, "zero1", experts_over(8)).empty());
  const TrainedModel whole = prepare(spec, recipe, framework);
  const TrainedModel part = rank_model(whole, recipe, framework, experts_over(8));
  const auto elements = [](const LayerKind& kind, bool is_routed) {
    std::int64_t sum = 0;
    for (const WeightTensor& t : kind.tensors) sum += t.is_routed == is_routed ? t.elements() : 0;
    return sum;
  };
  int num_mixtures = 0;
  for (std::size_t k = 0; k < whole.weights.kinds.size(); ++k) {
    const LayerKind &all = whole.weights.kinds[k], &own = part.weights.kinds[k];
    CHECK(elements(own, false) == elements(all, false));
    CHECK(elements(own, true) == elements(all, true) / 8);
    num_mixtures += elements(all, true) > 0 ? 1 : 0;
    if (elements(all, true) > 0) CHECK(elements(all, true) == 128LL * 3 * 2048 * 768);  // experts of three products
  }
  CHECK(num_mixtures >= 1);
  CHECK(whole.weights.kinds.size() > std::size_t(num_mixtures));  // blocks of the tower
}

TEST_CASE("experts: what cannot be shared says why") {
  const FrameworkConvention megatron = find_framework("megatron"), titan = find_framework("torchtitan");
  Recipe recipe;
  const auto why = [&](const ModelSpec& m, const FrameworkConvention& f, const char* strategy, const Mesh& mesh) {
    return why_not_by_experts(m, recipe, f, strategy, mesh);
  };
  CHECK(why(eight_experts(), megatron, "zero1", experts_over(4)).empty());
  CHECK(why(tiny_llama(), megatron, "zero1", experts_over(4)) == "ep: tiny has no experts");
  CHECK(why(eight_experts(), megatron, "fsdp", experts_over(4)) == "megatron has ep with single, ddp, zero1");
  CHECK(why(eight_experts(), find_framework("trl"), "fsdp", experts_over(4)) ==
        "trl has no expert parallelism that is planned");
  ModelSpec six = eight_experts();
  six.moe.num_experts = 6;
  CHECK(why(six, megatron, "zero1", experts_over(4)) == "ep 4 does not divide the 6 experts");
  recipe.method = Method::Lora;
  CHECK(why(eight_experts(), titan, "fsdp", experts_over(4)) == "torchtitan has no adapters beside ep");
  recipe.method = Method::Full;
  CHECK(why_not_shared(eight_experts(), recipe, megatron, "zero1", experts_over(1, 2)) ==
        "megatron has every expert whole on each of the ranks that share layers, which is not planned: add --ep or "
        "--etp");
  CHECK(why_not_shared(eight_experts(), recipe, megatron, "zero1", experts_over(4, 2)).empty());
}

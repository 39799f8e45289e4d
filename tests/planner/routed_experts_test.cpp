// Ranks that share each expert (expert tensor parallelism), uneven loads and capacities, and tokens that a rank gets
// once: what a rank holds, works on and sends, counted by hand. N = 64 tokens of a micro-batch, k = 2 experts of each,
// h = 64, 8 experts of width 32.
#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include <fmt/format.h>

#include "models/catalogue.h"
#include "models/rank_model.h"
#include "models/token_dispatcher.h"
#include "planner/estimate.h"
#include "planner/plan_builder.h"
#include "planner/strategy.h"

namespace gpuplan::test::routed_experts {

namespace {

constexpr std::int64_t kTokens = 64, kExperts = 8, kChosen = 2, kHidden = 64, kWidth = 32;
constexpr std::int64_t kRows = kTokens * kChosen, kExpert = 3 * kHidden * kWidth, kLayers = 4;

ModelSpec eight_experts() {
  ModelSpec m = load_model("qwen3-30b-a3b").spec;
  m.name = m.id = "tiny-mixture";
  m.hidden_size = kHidden, m.num_hidden_layers = kLayers, m.num_attention_heads = 4, m.num_key_value_heads = 2,
  m.head_dim = 16, m.intermediate_size = 128, m.vocab_size = 256;
  m.moe.num_experts = kExperts, m.moe.experts_per_token = kChosen, m.moe.intermediate_size = kWidth;
  return m;
}

Mesh experts_over(std::int64_t ep, std::int64_t etp = 1, std::int64_t tp = 1) {
  return Mesh{{Axis::Tp, tp}, {Axis::DpShard, 8 / tp}}.set_splits_sequence(tp > 1).set_expert_ways(ep, etp);
}

/// One exchange of a layer, and the bytes of its whole tensor; all to all, of a rank's.
struct Sent {
  Exchange kind;
  Axis axis;
  std::int64_t bytes;
  bool operator==(const Sent&) const = default;
};

struct Layer {
  LayerGraph graph;
  explicit Layer(const Mesh& mesh, const Routing& routing = {}, const char* trainer = "megatron",
                 const ModelSpec& spec = eight_experts()) {
    Recipe recipe;
    recipe.seq_len = kTokens;
    recipe.precision = Precision::Bf16Mixed;
    recipe.attention = AttentionKernel::Cudnn;
    recipe.routing = routing;
    const FrameworkConvention framework = find_framework(trainer);
    const TrainedModel model = rank_model(prepare(spec, recipe, framework), recipe, framework, mesh);
    emit_layer(graph, make_context(model, recipe, framework,
                                   resolve_numerics(recipe, framework, ShardingEngine::Zero, &spec)));
  }
  std::vector<Sent> sent(const std::vector<LayerOp>& ops) const {
    std::vector<Sent> out;
    for (const LayerOp& op : ops)
      if (is_of_experts(op.axis)) {
        const std::int64_t larger =
            std::max(graph.locals[op.reads[0]].bytes().count, graph.locals[op.writes[0]].bytes().count);
        out.push_back({op.exchange, op.axis, op.message.count > 0 ? op.message.count : larger});
      }
    return out;
  }
  /// Rows and widths of the experts' products.
  std::vector<std::array<std::int64_t, 3>> products() const {
    std::vector<std::array<std::int64_t, 3>> out;
    for (const LayerOp& op : graph.forward)
      if (op.experts > 1) out.push_back({op.m, op.n, op.k});
    return out;
  }
  double flops(const std::vector<LayerOp>& ops) const {
    return std::accumulate(ops.begin(), ops.end(), 0.0, [](double sum, const LayerOp& op) { return sum + op.flops; });
  }
  std::int64_t saved() const {
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return bytes;
  }
};

std::int64_t copies(const LayerGraph& graph) { return std::ranges::count(graph.forward, OpKind::Copy, &LayerOp::kind); }

Plan plan_of(std::int64_t ep, std::int64_t etp, const Routing& routing = {}) {
  Plan plan;
  plan.spec = eight_experts();
  plan.framework = find_framework("megatron");
  plan.cluster = plain_cluster(8);
  plan.options.ep = ep, plan.options.etp = etp;
  plan.recipe.routing = routing;
  return plan;
}

}  // namespace

TEST_CASE("etp: those that share an expert are neighbours, those that share the experts stand as far apart") {
  const Mesh mesh = experts_over(2, 2, 2);  // tp 2 x dp 4 = etp 2 x ep 2 x 2
  CHECK(mesh.world() == 8);
  CHECK(mesh.stride(Axis::Etp) == 1);
  CHECK(mesh.stride(Axis::Ep) == 2);
  CHECK(mesh.stride(Axis::ExpertData) == 4);
  CHECK(mesh.ways(Axis::ExpertData) == 2);
  CHECK(mesh.place(7, Axis::Etp) == 1);
  CHECK(mesh.place(7, Axis::Ep) == 1);
  CHECK(mesh.place(7, Axis::ExpertData) == 1);
  CHECK(mesh.batch_replicas() == 4);
  CHECK(mesh.shard_ways(mesh.experts_domain()) == 2);
  // tp 1: data parallel ranks can share an expert too; ep 1: all experts, a part of each
  CHECK(experts_over(1, 4).ways(Axis::ExpertData) == 2);
  CHECK(degrees_text(experts_over(2, 2, 2)) == "tp2+sp·ep2·etp2·dp4");
}

TEST_CASE("etp: a rank holds its part of the width of its experts, and the rest as without") {
  Recipe recipe;
  const FrameworkConvention framework = find_framework("megatron");
  const TrainedModel whole = prepare(eight_experts(), recipe, framework);
  for (const auto& [ep, etp] : {std::pair{2, 2}, {1, 4}, {4, 2}, {8, 1}}) {
    const TrainedModel part = rank_model(whole, recipe, framework, experts_over(ep, etp));
    std::int64_t experts = 0, rest = 0;
    for (const StateTensor& t : part.layers[0]) (t.is_routed ? experts : rest) += t.elements();
    CHECK(experts == kExperts * kExpert / (ep * etp));
    CHECK(rest == 2 * 64 * 64 + 2 * 64 * 32 + 2 * 64 + 2 * 16 + 64 * kExperts);
    CHECK(part.spec.vocab_size == whole.spec.vocab_size);
    CHECK(part.parameters == whole.parameters);
  }
}

TEST_CASE("etp: tokens go to the experts' ranks, are gathered by those that share each, and outputs are summed") {
  const std::int64_t rows = kRows * kHidden * 2;
  const Layer layer(experts_over(2, 2));
  const std::vector<Sent> forward{{Exchange::AllToAll, Axis::Ep, rows},
                                  {Exchange::AllGather, Axis::Etp, 2 * rows},
                                  {Exchange::ReduceScatter, Axis::Etp, 2 * rows},
                                  {Exchange::AllToAll, Axis::Ep, rows}};
  const std::vector<Sent> backward{{Exchange::AllToAll, Axis::Ep, rows},
                                   {Exchange::AllGather, Axis::Etp, 2 * rows},
                                   {Exchange::ReduceScatter, Axis::Etp, 2 * rows},
                                   {Exchange::AllToAll, Axis::Ep, rows}};
  CHECK(layer.sent(layer.graph.forward) == forward);
  CHECK(layer.sent(layer.graph.backward) == backward);
  // twice the rows, half the width: as much work, and four experts of the rank each
  const Layer alone(experts_over(2));
  using Product = std::array<std::int64_t, 3>;
  for (const Product& p : layer.products())
    CHECK((p == Product{2 * kRows, kWidth / 2, kHidden} || p == Product{2 * kRows, kHidden, kWidth / 2}));
  for (const Product& p : alone.products())
    CHECK((p == Product{kRows, kWidth, kHidden} || p == Product{kRows, kHidden, kWidth}));
  CHECK(layer.products().size() == alone.products().size());
  CHECK(layer.flops(layer.graph.forward) == doctest::Approx(alone.flops(alone.graph.forward)));
  CHECK(layer.flops(layer.graph.backward) == doctest::Approx(alone.flops(alone.graph.backward)));
  // what is kept of the experts: their inputs of all that share them, and as much in between
  CHECK(layer.saved() - alone.saved() == rows);
  // all experts on every rank, a part of each
  const Layer no_ep(experts_over(1, 2, 2));
  CHECK(no_ep.sent(no_ep.graph.forward) ==
        std::vector<Sent>{{Exchange::AllGather, Axis::Etp, rows}, {Exchange::ReduceScatter, Axis::Etp, rows}});
}

TEST_CASE("etp: gradients and states of experts are of the ranks that have the same part of the same ones") {
  const auto message = [](Plan& plan, OpCode op, Axis axis) {
    std::int64_t bytes = 0;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == op && i.axis == axis && !runs_block(i)) bytes += i.work.count;
    return bytes;
  };
  for (const auto& [ep, etp] : {std::pair{2, 2}, {1, 2}, {2, 4}, {4, 2}}) {
    Plan plan = plan_of(ep, etp);
    plan.build("zero1");
    INFO(plan.strategy.title());
    verify(plan.program);
    std::int64_t states = 0;
    for (const ProgramBuffer& b : plan.of_rank().buffers)
      if (b.is_persistent && b.category == Category::Optimizer) states += b.bytes.count;
    CHECK(states == doctest::Approx(8.0 * double(plan.job().whole().parameters) / 8).epsilon(0.01));
    const std::int64_t own = 4 * kLayers * kExperts * kExpert / (ep * etp);  // fp32 gradients
    CHECK(message(plan, OpCode::ReduceScatter, Axis::ExpertData) == (ep * etp == 8 ? 0 : own));
    plan.build("ddp");
    verify(plan.program);
    CHECK(message(plan, OpCode::AllReduce, Axis::ExpertData) == (ep * etp == 8 ? 0 : own));
  }
}

TEST_CASE("etp: programs hold their invariants, and compute waits for what sharers of an expert exchange") {
  for (const std::int64_t tp : {1, 2})
    for (const std::int64_t pp : {1, 2})
      for (const char* strategy : {"ddp", "zero1"})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
          Plan plan = plan_of(2, 2);
          plan.recipe.grad_accum = 4, plan.recipe.checkpointing = checkpointing;
          plan.options.tp = tp, plan.options.splits_sequence = tp > 1, plan.options.pp = pp;
          plan.build(strategy);
          INFO(plan.strategy.title());
          verify(plan.program);
          std::int64_t waited = 0;
          for (const Instruction& i : plan.of_rank().instructions)
            if (i.axis == Axis::Etp) {
              CHECK(i.stream == StreamId::Compute);
              ++waited;
            }
          CHECK(waited > 0);
        }
}

TEST_CASE("etp: what cannot be shared says why, with all degrees and their product") {
  const auto mistake = [](std::int64_t ep, std::int64_t etp) {
    const auto error = strategy_mistake("zero1", plain_cluster(8), {.ep = ep, .etp = etp});
    return error ? fmt::format("{}: {}; {}", error->where(), error->problem(), error->hint()) : std::string();
  };
  CHECK(mistake(4, 2).empty());
  CHECK(
      mistake(4, 4) ==
      "--etp: ep 4 x etp 4 = 16 does not divide the 8 ranks of a stage; ep x etp x ranks that have the same experts = "
      "tp x data parallel");
  Recipe recipe;
  const auto why = [&](const char* trainer, const char* strategy, const Mesh& mesh) {
    return why_not_by_experts(eight_experts(), recipe, find_framework(trainer), strategy, mesh);
  };
  for (const char* trainer : {"megatron", "megatron-swift", "verl-megatron", "nemo-rl-megatron"})
    CHECK(why(trainer, "zero1", experts_over(2, 2)).empty());
  CHECK(why("torchtitan", "fsdp", experts_over(2, 2)) == "torchtitan has no etp that is planned");
  CHECK(why("trl", "fsdp", experts_over(1, 2)) == "trl has no expert parallelism that is planned");
  CHECK(why("megatron", "zero1", Mesh{{Axis::DpShard, 64}}.set_expert_ways(1, 64)) ==
        "etp 64 does not divide the experts' width of 32");
  CHECK(why_not_shared(eight_experts(), recipe, find_framework("megatron"), "zero1", experts_over(1, 2, 2)).empty());
  recipe.method = Method::Lora;
  CHECK(why("megatron", "zero1", experts_over(2, 2)) == "etp with adapters of experts is not planned yet");
  recipe.lora.targets = {"q_proj", "v_proj"};
  CHECK(why("megatron", "zero1", experts_over(2, 2)).empty());
  CHECK_FALSE(resolve_framework("megatron", {.given = parse_stack_versions("megatron-core=0.9.0"), .date = {}})
                  .expert_parallel.cuts_experts);
}

TEST_CASE("tp without ep: Megatron has a part of each expert where nobody says more, torchtitan on the tokens of all") {
  const auto ways = [](const char* trainer, const StrategyOptions& options, const char* model = "mixtral-8x7b") {
    EstimateRequest r;
    r.model = load_model(model).spec;
    r.recipe.framework = std::string(trainer);
    r.options = options;
    return options_for(r).etp;
  };
  for (const char* trainer : {"megatron", "verl-megatron", "torchtitan"}) CHECK(ways(trainer, {.tp = 8}) == 8);
  for (const char* trainer : {"megatron-swift", "nemo-rl-megatron"}) CHECK(ways(trainer, {.tp = 8}) == 1);
  CHECK(ways("megatron", {.tp = 8, .etp = 2}) == 2);
  CHECK(ways("megatron", {.tp = 8, .ep = 2}) == 1);  // as recipes set it
  CHECK(ways("megatron", {.tp = 8}, "llama-3-8b") == 1);
  CHECK_FALSE(resolve_framework("megatron", {.given = parse_stack_versions("megatron-core=0.9.0"), .date = {}})
                  .expert_parallel.cuts_beside_tensor);

  // torchtitan: as an MLP's, N h elements to all and N h sums back; every rank routes all N tokens, half of each expert
  const Mesh shared = experts_over(1, 2, 2);
  const Layer layer(shared, {}, "torchtitan");
  CHECK(layer.sent(layer.graph.forward).empty());
  const auto along_tp = [](const Layer& of, Exchange kind, const std::vector<LayerOp>& ops) {
    std::int64_t bytes = 0;
    for (const LayerOp& op : ops)
      if (op.axis == Axis::Tp && op.exchange == kind)
        bytes += std::max(of.graph.locals[op.reads[0]].bytes(), of.graph.locals[op.writes[0]].bytes()).count;
    return bytes;
  };
  const std::int64_t stream = kTokens * kHidden * 2;  // of attention once, of the mixture once
  CHECK(along_tp(layer, Exchange::AllGather, layer.graph.forward) == 2 * stream);
  CHECK(along_tp(layer, Exchange::ReduceScatter, layer.graph.forward) == 2 * stream);
  CHECK(along_tp(layer, Exchange::AllGather, layer.graph.backward) == 2 * stream);
  CHECK(along_tp(layer, Exchange::ReduceScatter, layer.graph.backward) == 2 * stream);
  using Product = std::array<std::int64_t, 3>;
  for (const Product& p : layer.products())
    CHECK((p == Product{kRows, kWidth / 2, kHidden} || p == Product{kRows, kHidden, kWidth / 2}));
  // a shared expert joins them, and exchanges nothing of its own
  ModelSpec with_shared = eight_experts();
  with_shared.moe.shared_intermediate_size = kWidth;
  with_shared.family = with_shared.model_type = "qwen2_moe";
  const Layer both(shared, {}, "torchtitan", with_shared);
  CHECK(along_tp(both, Exchange::AllGather, both.graph.forward) == 2 * stream);
  CHECK(along_tp(both, Exchange::ReduceScatter, both.graph.forward) == 2 * stream);

  for (const char* trainer : {"megatron", "torchtitan"}) {
    Plan plan = plan_of(1, 2);
    plan.framework = find_framework(trainer);
    plan.recipe.framework = std::string(trainer);
    plan.options.tp = 2, plan.options.splits_sequence = true;
    const bool is_titan = std::string_view(trainer) == "torchtitan";
    CHECK(why_not_shared(plan.spec, plan.recipe, plan.framework, is_titan ? "fsdp" : "zero1", experts_over(1, 2, 2)) ==
          "");
    plan.build(is_titan ? "fsdp" : "zero1");
    verify(plan.program);
  }
  Recipe recipe;
  CHECK(why_not_shared(eight_experts(), recipe, find_framework("torchtitan"), "fsdp", experts_over(4, 1, 2)) ==
        "torchtitan has no tp beside ep that is planned");
  Mesh whole = experts_over(1, 2, 2);
  CHECK(
      why_not_shared(eight_experts(), recipe, find_framework("megatron"), "zero1", whole.set_splits_sequence(false)) ==
      "tp of a mixture of experts needs --sp: ranks send each other their own tokens");
}

TEST_CASE("uneven experts: the fullest rank gets, keeps and works on so many times the rows; it sends its own") {
  const std::int64_t rows = kRows * kHidden * 2;
  const Layer even(experts_over(4)), full(experts_over(4), {.imbalance = 1.5});
  const std::vector<Sent> both{{Exchange::AllToAll, Axis::Ep, rows * 3 / 2},
                               {Exchange::AllToAll, Axis::Ep, rows * 3 / 2}};
  CHECK(full.sent(full.graph.forward) == both);
  CHECK(full.sent(full.graph.backward) == both);
  for (const auto& p : full.products()) CHECK(p[0] == kRows * 3 / 2);
  // kept: inputs of gate and up, these, and their product, in 16 bit: half as many again
  const std::int64_t kept = kRows * (kHidden + 3 * kWidth) * 2;
  CHECK(full.saved() - even.saved() == kept / 2);
  // nobody shares the experts: every rank has its own tokens
  CHECK(Layer(experts_over(1), {.imbalance = 1.5}).saved() == Layer(experts_over(1)).saved());
  // the others wait for the fullest: the step takes longer
  EstimateRequest r;
  r.model = load_model("qwen3-30b-a3b").spec;
  r.recipe.framework = "megatron", r.cluster = parse_gpus("8xH100"), r.strategy = "zero1", r.options.ep = 8;
  const StrategyEstimate spread = estimate(r).strategies.front();
  r.recipe.routing.imbalance = 1.5;
  const StrategyEstimate heaped = estimate(r).strategies.front();
  CHECK(heaped.time.step.value > 1.02 * spread.time.step.value);
  CHECK(heaped.time.step.value < 1.5 * spread.time.step.value);
  CHECK(heaped.tiers.process.count > spread.tiers.process.count);
}

TEST_CASE("capacity: an expert takes so many rows at most, or as many whatever comes") {
  // N k / E = 16 rows of each expert on the average
  const auto rows_of = [](const Routing& routing, std::int64_t ep) {
    const Layer layer(experts_over(ep), routing);
    return layer.products().front()[0];
  };
  for (const std::int64_t ep : {1, 4}) {
    CHECK(rows_of({.capacity = 1.25}, ep) == kRows);  // nothing is beyond it
    CHECK(rows_of({.capacity = 1.25, .pads_to_capacity = true}, ep) == kExperts * 20);
    CHECK(rows_of({.capacity = 1.3, .pads_to_capacity = true}, ep) == kExperts * 21);  // rounded up
    CHECK(rows_of({.capacity = 0.5}, ep) == kExperts * 8);
    CHECK(rows_of({.capacity = 100, .pads_to_capacity = true}, ep) == kExperts * kTokens);  // a token comes once
  }
  CHECK(rows_of({.imbalance = 2, .capacity = 1.25}, 4) == kExperts * 20);
  CHECK(rows_of({.imbalance = 1.125, .capacity = 1.25}, 4) == kRows * 9 / 8);
  CHECK(rows_of({.imbalance = 2, .capacity = 1.25, .pads_to_capacity = true}, 4) == kExperts * 20);
  Recipe recipe;
  const auto why = [&](const char* trainer, std::int64_t ep) {
    const char* const strategy = std::string_view(trainer) == "megatron" ? "zero1" : "fsdp";
    return why_not_by_experts(eight_experts(), recipe, find_framework(trainer), strategy, experts_over(ep));
  };
  recipe.routing.capacity = 1.25;
  CHECK(why("megatron", 4).empty());
  CHECK(why("torchtitan", 4) == "torchtitan drops no tokens: experts have no capacity");
  recipe.routing = {.imbalance = 5};
  CHECK(why("megatron", 1) == "--expert-imbalance is of ranks that share the experts: add --ep");
  CHECK(why("megatron", 4) == "--expert-imbalance 5: of 4 ranks none can get more than 4 times the mean");
}

TEST_CASE("groups that a token reaches: by hand, and by trying every choice") {
  // two of eight experts, of four groups: a group has none with C(6, 2) / C(8, 2) = 15/28
  CHECK(mean_groups_reached(4, 8, 2) == doctest::Approx(4 * 13.0 / 28));
  CHECK(mean_groups_reached(8, 8, 2) == doctest::Approx(2));
  CHECK(mean_groups_reached(2, 8, 7) == doctest::Approx(2));
  CHECK(mean_groups_reached(1, 8, 2) == doctest::Approx(1));
  std::int64_t reached = 0, choices = 0;
  for (int a = 0; a < 12; ++a)
    for (int b = a + 1; b < 12; ++b)
      for (int c = b + 1; c < 12; ++c, ++choices) reached += std::ssize(std::set{a / 3, b / 3, c / 3});
  CHECK(mean_groups_reached(4, 12, 3) == doctest::Approx(double(reached) / double(choices)));
}

TEST_CASE("tokens that a rank gets once: fewer copies on the way, and none before it") {
  const Routing once{.dispatcher = "deepep"};
  const Layer layer(experts_over(4), once), usual(experts_over(4));
  // 13/14 of N k h elements, rounded up, in 16 bit
  const std::int64_t bytes = 2 * 7607;
  const std::vector<Sent> both{{Exchange::AllToAll, Axis::Ep, bytes}, {Exchange::AllToAll, Axis::Ep, bytes}};
  CHECK(layer.sent(layer.graph.forward) == both);
  CHECK(layer.sent(layer.graph.backward) == both);
  CHECK(copies(layer.graph) == copies(usual.graph) - 1);  // copied by expert there, and summed there
  for (const auto& p : layer.products()) CHECK(p[0] == kRows);
  CHECK(layer.saved() == usual.saved());
  // two machines: one of them gets a token once, 11/14 of N k h
  Mesh across = experts_over(4);
  across.set_expert_machines(2);
  const Layer far(across, once);
  CHECK(far.sent(far.graph.forward).front().bytes == 2 * 6437);
  // an expert a rank: as often as experts work on it
  const Layer single(experts_over(8), once);
  CHECK(single.sent(single.graph.forward).front().bytes == kRows * kHidden * 2);
  const Layer uneven(experts_over(4), {.imbalance = 1.5, .dispatcher = "deepep"});
  CHECK(uneven.sent(uneven.graph.forward).front().bytes == 2 * 11411);  // of 1.5 N k h: 11410.3
  Plan plan = plan_of(4, 1, once);
  plan.build("zero1");
  verify(plan.program);
}

TEST_CASE("tokens that a rank gets once: who has it, and beside what") {
  Recipe recipe;
  recipe.routing.dispatcher = "deepep";
  const auto why = [&](const char* trainer, const char* strategy, const Mesh& mesh) {
    return why_not_by_experts(eight_experts(), recipe, find_framework(trainer), strategy, mesh);
  };
  CHECK(why("megatron", "zero1", experts_over(4)).empty());
  CHECK(why("megatron-swift", "zero1", experts_over(4)).empty());
  CHECK(why("megatron", "zero1", experts_over(1)) == "DeepEP is for ranks that share the experts: add --ep");
  CHECK(why("megatron", "zero1", experts_over(2, 2)) == "etp with DeepEP is not planned yet");
  CHECK(why("prime-rl", "fsdp", experts_over(4)) == "prime-rl has no DeepEP");
  recipe.routing.capacity = 1, recipe.routing.pads_to_capacity = true;
  CHECK(why("megatron", "zero1", experts_over(4)) == "DeepEP does not pad the input of experts");
  CHECK(resolve_framework("megatron", {.given = parse_stack_versions("megatron-core=0.11.0"), .date = {}})
            .expert_parallel.dispatchers.empty());
}

}  // namespace gpuplan::test::routed_experts

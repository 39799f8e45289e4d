// Fixtures of the planner's tests: a llama small enough to count by hand, a cluster without a catalogue, and programs
// built from them; what a test is about is set on the fields.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/ledger.h"
#include "planner/block.h"
#include "planner/memory.h"
#include "planner/program_builder.h"
#include "planner/state_sizes.h"
#include "planner/step_time.h"

namespace gpuplan::test {

/// Widths of a tiny model, chosen so that every tensor divides by 8: h = 64, 4 heads of 16, 2 key/value heads, f = 128,
/// V = 256.
inline ModelSpec tiny_llama(std::int64_t layers = 4) {
  ModelSpec m;
  m.name = m.id = "tiny";
  m.family = m.model_type = "llama";
  m.architecture = "LlamaForCausalLM";
  m.hidden_size = 64, m.num_hidden_layers = layers, m.num_attention_heads = 4, m.num_key_value_heads = 2,
  m.head_dim = 16;
  m.intermediate_size = 128, m.vocab_size = 256, m.max_position_embeddings = 4096;
  return m;
}
constexpr std::int64_t kTinyLinears =
    64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128;         // q, k and v, o, gate, up and down: 36,864
constexpr std::int64_t kTinyLayer = kTinyLinears + 2 * 64;  // and two norms
constexpr std::int64_t kTinyEmbedding = 256 * 64;
constexpr std::int64_t kTinyRoot = 2 * kTinyEmbedding + 64;  // embedding, head, final norm
constexpr std::int64_t kTinyModel = 4 * kTinyLayer + kTinyRoot;

inline ClusterSpec plain_cluster(std::int64_t num_gpus, Bytes memory = {std::int64_t(80) << 30},
                                 std::int64_t gpus_per_node = 8) {
  GpuSpec gpu;
  gpu.id = gpu.name = "test-gpu";
  gpu.device_memory = gpu.framework_memory = memory;
  gpu.bf16 = gpu.gemm_bf16 = gpu.fp16 = gpu.fp32 = {1e14};
  gpu.memory_bandwidth = {1e12};
  ClusterSpec c;
  c.name = "test";
  c.gpus.add(gpu, std::size_t(num_gpus));
  c.gpus_per_node = gpus_per_node;
  c.intra = {{1e-6}, {1e10}, {1e10}, "test"};
  c.inter = {{1e-5}, {1e9}, {1e9}, "test"};
  c.host_link = {1e10};
  return c;
}

/// One plan in the making. `program` and `peak` are made by `build`.
struct Plan {
  ModelSpec spec = tiny_llama();
  Recipe recipe = [] {
    Recipe r;
    r.seq_len = 32;
    return r;
  }();
  FrameworkConvention framework = find_framework("hf-trainer");
  ClusterSpec cluster = plain_cluster(4);
  StrategyOptions options;
  Strategy strategy;
  StepProgram program;

  Plan& build(const char* name, std::vector<CostModel> columns = {}) {
    strategy = make_strategy(name, cluster, options);
    build_step_program(program, job(), columns);
    return *this;
  }
  Job job() const {
    return Job({.model = spec, .recipe = recipe, .dataset = {}, .cluster = cluster, .options = options},
               prepare(spec, recipe, framework), framework, {}, strategy);
  }
  const RankClass& rank(std::size_t k = 0) const { return program.classes.at(k); }
  const RankProgram& of_rank(std::size_t k = 0) const { return program.programs.at(rank(k).program); }
  Peak peak(std::size_t k = 0) const { return replay(program, rank(k)); }
  std::int64_t sent(std::size_t k = 0) const { return bytes_sent(program, rank(k)).count; }

  /// Highest total of the buffers that `counts` accepts, persistent ones included; block locals are not buffers.
  std::int64_t live_peak(const std::function<bool(const ProgramBuffer&)>& counts, std::size_t k = 0) const {
    const RankProgram& p = of_rank(k);
    std::int64_t live = 0;
    for (const ProgramBuffer& b : p.buffers)
      if (b.is_persistent && counts(b)) live += b.bytes.count;
    std::int64_t peak = live;
    for (const Instruction& i : p.instructions) {
      for (const Operand o : p.operands_of(i))
        if ((o & operand::kAllocates) && counts(p.buffers[operand::id(o)]))
          live += p.buffers[operand::id(o)].bytes.count;
      peak = std::max(peak, live);
      for (const Operand o : p.operands_of(i))
        if ((o & operand::kFrees) && counts(p.buffers[operand::id(o)])) live -= p.buffers[operand::id(o)].bytes.count;
    }
    return peak;
  }
  std::int64_t live_peak(BufferRole role, std::size_t k = 0) const {
    return live_peak([role](const ProgramBuffer& b) { return b.role == role; }, k);
  }
  std::int64_t count(OpCode op, std::size_t k = 0) const {
    const auto& all = of_rank(k).instructions;
    return std::count_if(all.begin(), all.end(), [op](const Instruction& i) { return i.op == op; });
  }
};

/// The op graph of a layer or of the head under a recipe.
struct Ledger {
  Recipe recipe = [] {
    Recipe r;
    r.seq_len = 64;
    r.precision = Precision::Bf16True;
    return r;
  }();
  FrameworkConvention framework = find_framework("hf-trainer");
  ShardingEngine engine = ShardingEngine::Local;
  LayerGraph graph;

  LayerGraph& layer(const ModelSpec& spec) { return emit(spec, emit_layer); }
  LayerGraph& head(const ModelSpec& spec) { return emit(spec, emit_head); }
  /// Bytes that the layer's backward needs from its forward.
  std::int64_t saved(const ModelSpec& spec) {
    layer(spec);
    std::int64_t bytes = 0;
    for (const LocalId id : saved_locals(graph)) bytes += graph.locals[id].bytes().count;
    return bytes;
  }
  /// … per token and hidden unit: the unit of the published closed forms.
  double saved_per_unit(const ModelSpec& spec) {
    return double(saved(spec)) / double(recipe.tokens() * spec.hidden_size);
  }
  bool keeps(const ModelSpec& spec, std::string_view name) {
    layer(spec);
    const auto ids = saved_locals(graph);
    return std::any_of(ids.begin(), ids.end(), [&](LocalId id) { return graph.locals[id].name == name; });
  }
  DtypePolicy numerics(const ModelSpec* model = nullptr) const {
    return resolve_numerics(recipe, framework, engine, model);
  }

 private:
  LayerGraph& emit(const ModelSpec& spec, void (*emitter)(LayerGraph&, const LedgerContext&)) {
    const TrainedModel model = prepare(spec, recipe, framework);
    emitter(graph, make_context(model, recipe, framework, numerics(&spec)));
    return graph;
  }
};

}  // namespace gpuplan::test

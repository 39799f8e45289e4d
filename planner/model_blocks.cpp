#include "planner/model_blocks.h"

#include <algorithm>

#include "models/ledger.h"

namespace gpuplan {
namespace {

std::uint8_t new_graph(StepProgram& program) {
  if (program.graphs.size() == program.num_graphs) program.graphs.emplace_back();
  return std::uint8_t(program.num_graphs++);
}

bool reads_input(const std::vector<LayerOp>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const LayerOp& op) {
    const auto end = op.reads.begin() + op.num_reads;
    return std::find(op.reads.begin(), end, LocalId(kSlotX)) != end;
  });
}

KeepPolicy keep_policy(const Recipe& recipe, const FrameworkConvention& framework) {
  if (recipe.checkpointing == Checkpointing::Elementwise) return KeepPolicy::MatmulsAndAttention;
  if (recipe.checkpointing != Checkpointing::Selective) return KeepPolicy::Nothing;
  return framework.selective == SelectiveKind::Ops ? KeepPolicy::EverySecondMatmul : KeepPolicy::AllButScores;
}

}  // namespace

ModelBlocks make_blocks(StepProgram& program, const Job& job) {
  const TrainedModel& model = job.model;
  const Recipe& recipe = job.recipe();
  program.num_graphs = program.num_blocks = 0;
  LedgerContext context = make_context(model, recipe, job.framework, job.numerics);
  const bool plain = recipe.checkpointing == Checkpointing::None || recipe.checkpointing == Checkpointing::EveryK;
  const bool checkpointed = recipe.checkpointing != Checkpointing::None;
  ModelBlocks out;
  const auto add_layer = [&](KindBlocks& kind, bool windowed) {
    context.is_windowed = windowed;
    const bool is_bridge = context.layer().is_bridge;  // outside the checkpointed modules
    kind.graph = new_graph(program);
    emit_layer(program.graphs[kind.graph], context);
    kind.keeps_input = reads_input(program.graphs[kind.graph].backward);
    return add_layer_blocks(program, kind.graph, plain || is_bridge, checkpointed && !is_bridge,
                            keep_policy(recipe, job.framework));
  };
  const ModelSpec& spec = model.spec;
  const bool all_windowed = spec.sliding_layers >= spec.num_hidden_layers;
  out.has_windowed = spec.sliding_window > 0 && spec.sliding_layers > 0 && recipe.seq_len > spec.sliding_window;
  for (context.kind = 0; context.kind < model.weights.kinds.size(); ++context.kind) {
    KindBlocks& kind = out.kinds.emplace_back();
    if (out.has_windowed) kind.windowed = add_layer(kind, true);
    kind.full = out.has_windowed && all_windowed ? kind.windowed : add_layer(kind, false);
  }
  context.kind = 0;

  const std::uint8_t embedding = new_graph(program);
  emit_embedding(program.graphs[embedding], context);
  out.embedding = add_whole_block(program, embedding, false);
  if (model.trains_embedding) out.embedding_backward = add_whole_block(program, embedding, true);
  const std::uint8_t head = new_graph(program);
  emit_head(program.graphs[head], context);
  out.head = add_whole_block(program, head, false);
  return out;
}

}  // namespace gpuplan

// The layers of a model: residual branches with norms before, after or around them, one after the other or side by side
// (GPT-J, Falcon), cross-attention in a decoder that has an encoder (T5), and the bridge between the two.
#include <algorithm>

#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

/// Llama 3.2 Vision multiplies the branches of some layers, and of the tower's last blocks, by the tanh of a learned
/// number.
bool has_branch_gates(const Tape& t) {
  if (t.c.is_language()) return attends_to_images(t.c.layer().mixer);
  const auto& tensors = t.c.layer().tensors;
  return std::any_of(tensors.begin(), tensors.end(), [](const WeightTensor& w) {
    return w.role == WeightRole::Norm && w.shape == std::vector<std::int64_t>{1};
  });
}

}  // namespace

LocalId gated_branch(Tape& t, LocalId x) {
  const Local like = t.at(x);
  const double bytes = double(like.bytes().count);
  const LocalId y = t.tensor("gated branch", like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Scale, {x}, {y}, 2.0 * bytes);
  if (t.c.trains_norms()) t.explain_saved(x, "gradient of the gate");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        const bool is_trained = tape.c.trains_norms();
        tape.memory_op(OpKind::Scale, {tape.grad(s.ids[1]), is_trained ? s.ids[0] : kNoLocal}, {dx},
                       (is_trained ? 4.0 : 2.0) * double(tape.at(dx).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

namespace {

/// Dropout of a branch is a part of the kernel that adds it to the stream.
bool drops_in_sum(const Tape& t) {
  return t.c.framework.layers.fuses_dropout && t.c.spec().residual_dropout > 0 &&
         t.c.spec().norm_placement != NormPlacement::PostResidual;
}

/// y = x + dropout(branch); another kernel masks the gradient of the branch.
void add_dropped(Tape& t, LocalId x, LocalId branch, LocalId y) {
  const Local like = t.at(branch);
  const LocalId mask = t.tensor("dropout mask", like.elements, Dtype::Bool, like.dims);
  t.memory_op(OpKind::Dropout, {x, branch}, {y, mask}, 3.0 * double(t.at(y).bytes().count) + double(like.elements));
  t.explain_saved(mask, "mask of dropout");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dy = tape.grad(s.ids[3]), dbranch = tape.new_grad(s.ids[1]);
        tape.set_grad(s.ids[0], dy);  // aliases: no copy
        const Local& masked = tape.at(dbranch);
        tape.memory_op(OpKind::Dropout, {dy, s.ids[2]}, {dbranch},
                       2.0 * double(masked.bytes().count) + double(masked.elements));
        tape.set_grad(s.ids[1], dbranch);
      },
      {x, branch, mask, y});
}

/// One branch of the residual stream: norms where the family has them, the branch itself, dropout.
template <class Branch>
LocalId branch_of(Tape& t, LocalId x, const char* before, const char* after, Branch branch,
                  NormSlot slot = NormSlot::None) {
  const ModelSpec& m = t.c.spec();
  const bool norms_before = m.norm_placement == NormPlacement::Pre || m.norm_placement == NormPlacement::Sandwich;
  const bool norms_after = m.norm_placement == NormPlacement::Sandwich || m.norm_placement == NormPlacement::PostBranch;
  if (m.keeps_fp32_residual) x = convert(t, x, t.c.numerics.compute, "stream in 16 bit");
  const bool is_normed = norms_before && (slot != NormSlot::Attention || t.c.layer().has_attention_norm);
  LocalId y = branch(t, is_normed ? norm(t, x, before, kNoLocal, slot) : x);
  if (norms_after) y = norm(t, y, after);
  if (has_branch_gates(t)) y = gated_branch(t, y);
  return drops_in_sum(t) ? y : dropout(t, y, m.residual_dropout);
}

LocalId residual_tensor(Tape& t, const char* name) {
  return t.stream(name, t.c.spec().hidden_size, t.c.numerics.residual);
}

/// x + branch, normalised where the family norms the sum (BERT). `y` receives the result.
void close_branch(Tape& t, LocalId x, LocalId branch, LocalId y) {
  if (drops_in_sum(t)) return add_dropped(t, x, branch, y);
  if (t.c.spec().norm_placement != NormPlacement::PostResidual) return residual_add(t, x, branch, y);
  const LocalId sum = residual_tensor(t, "residual sum before its norm");
  residual_add(t, x, branch, sum);
  norm(t, sum, "normed residual", y);
}

void make_deepstack(Tape& t, LocalId block_output);

/// a times b, of which only a needs a gradient.
LocalId scaled_by(Tape& t, LocalId a, LocalId b, const char* name) {
  const Local like = t.at(a);
  const LocalId y = t.tensor(name, like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Multiply, {a, b}, {y}, 3.0 * double(like.bytes().count));
  t.explain_saved(b, "product backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId da = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Multiply, {tape.grad(s.ids[2]), s.ids[1]}, {da},
                       3.0 * double(tape.at(da).bytes().count));
        tape.add_grad(s.ids[0], da);
      },
      {a, b, y});
  return y;
}

}  // namespace

LocalId layer_embedding(Tape& t, LocalId x) {
  const LocalId gate = activated(t, linear(t, x, t.c.linear(LinearSlot::LayerGate)));
  const LocalId part_of_layer =
      t.wide("the layer's part of its embedding", t.c.spec().layer_embedding.width, Dim::Hidden, t.at(gate).dtype);
  t.memory_op(OpKind::Copy, {}, {part_of_layer}, double(t.at(part_of_layer).bytes().count));
  const LocalId scaled = scaled_by(t, gate, part_of_layer, "embedded, gated");
  return norm(t, linear(t, scaled, t.c.linear(LinearSlot::LayerOut)), "normed layer embedding");
}

namespace {

/// The block's output leaves in its slot and stays for the merger beside it.
void copy_out(Tape& t, LocalId output) {
  t.memory_op(OpKind::Copy, {output}, {kSlotY}, 2.0 * double(t.at(kSlotY).bytes().count));
  t.then_backward([](Tape& tape, const Tape::Step& s) { tape.add_grad(s.ids[0], kSlotDy); }, {output});
}

/// A layer that is a mixer alone or an MLP alone (Nemotron-H).
void lone_layer(Tape& t) {
  const bool is_mixer = t.c.layer().mixer != Mixer::None;
  const LocalId branch = is_mixer ? branch_of(t, kSlotX, "normed input", "normed branch", token_mixer)
                                  : branch_of(t, kSlotX, "normed input", "normed branch", mlp);
  close_branch(t, kSlotX, branch, kSlotY);
}

void sequential_layer(Tape& t) {
  if (t.c.layer().mixer == Mixer::None || !t.c.layer().has_mlp) return lone_layer(t);
  const LocalId attended =
      branch_of(t, kSlotX, "normed input of attention", "normed attention branch", token_mixer, NormSlot::Attention);
  LocalId middle = residual_tensor(t, "residual after attention");
  close_branch(t, kSlotX, attended, middle);
  if (t.c.layer().has_cross_attention) {
    const LocalId crossed =
        branch_of(t, middle, "normed input of cross-attention", "normed cross-attention branch", cross_attention);
    const LocalId next = residual_tensor(t, "residual after cross-attention");
    close_branch(t, middle, crossed, next);
    middle = next;
  }
  const LocalId fed = branch_of(t, middle, "normed input of MLP", "normed MLP branch", mlp, NormSlot::Mlp);
  if (t.c.linear(LinearSlot::LayerGate).exists()) {
    const LocalId next = residual_tensor(t, "residual after MLP");
    close_branch(t, middle, fed, next);
    return close_branch(t, next, layer_embedding(t, next), kSlotY);
  }
  if (!t.c.layer().makes_deepstack) return close_branch(t, middle, fed, kSlotY);
  const LocalId output = residual_tensor(t, "output of the block");
  close_branch(t, middle, fed, output);
  copy_out(t, output);
  make_deepstack(t, output);
}

/// Attention and MLP side by side, on one norm or two.
void parallel_layer(Tape& t) {
  const ModelSpec& m = t.c.spec();
  const LocalId one = norm(t, kSlotX, "normed input of attention");
  const LocalId two = m.residual == ResidualKind::ParallelTwoNorms ? norm(t, kSlotX, "normed input of MLP") : one;
  const LocalId attended = dropout(t, self_attention(t, one), m.residual_dropout);
  const LocalId fed = dropout(t, mlp(t, two), m.residual_dropout);
  const LocalId both = t.stream("attention and MLP together", m.hidden_size, t.at(fed).dtype);
  residual_add(t, fed, attended, both);
  residual_add(t, kSlotX, both, kSlotY);
}

/// Looks up the rows of the language model's stream.
void embed_stream(Tape& t, LocalId rows) {
  const double bytes = double(t.at(rows).bytes().count);
  t.memory_op(OpKind::Embed, {}, {rows}, 2.0 * bytes);
  if (t.c.model.split.ways > 1) t.exchange(Exchange::AllReduce, rows, rows);
  if (!t.c.model.trains_embedding) return;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const ModelSpec& spec = tape.c.model.spec;
        const DtypePolicy& n = tape.c.numerics;
        const LocalId dense = tape.scratch("dense embedding gradient of the decoder",
                                           spec.vocab_size * spec.hidden_size, n.casts_weights ? n.compute : n.weight);
        tape.memory_op(OpKind::Embed, {tape.grad(s.ids[0])}, {dense}, double(tape.at(dense).bytes().count))
            .is_weight_gradient = true;
      },
      {rows});
}

/// The rows of all tokens, in which features take their places; ranks that divide the sequence sum them once more for
/// their parts of it. Source: modelscope/mcore-bridge src/mcore_bridge/model/mm_gpt_model.py @f020e47.
LocalId embedded_rows(Tape& t) {
  const TrainedModel& model = t.c.model;
  if (!model.split.splits_sequence) return kSlotY;
  return t.tensor("embedded rows of all tokens", model.own_tokens(t.c.recipe) * model.spec.stream_width(),
                  t.at(kSlotY).dtype, t.at(kSlotY).dims);
}

void leave_own_rows(Tape& t, LocalId rows, bool goes_back) {
  if (rows == kSlotY) return;
  t.exchange(Exchange::ReduceScatter, rows, kSlotY);
  if (!goes_back) return;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId drows = tape.new_grad(s.ids[0]);
        tape.exchange(Exchange::AllGather, kSlotDy, drows);
        tape.set_grad(s.ids[0], drows);
      },
      {rows});
}

/// The encoder's last norm makes the memory; the decoder's stream starts at its own embedding.
void bridge(Tape& t) {
  norm(t, kSlotX, "encoder output", kSlotMemory);
  embed_stream(t, kSlotY);
}

/// The first `elements` of x, or means over stretches of it.
LocalId shrunk(Tape& t, LocalId x, std::int64_t elements) {
  return copied(t, x, "merged patches", elements, t.at(x).elements);
}

/// Outputs of several blocks of the tower, side by side; the gradient of the last one goes on.
LocalId gathered(Tape& t, LocalId x, std::int64_t elements) {
  return copied(t, x, "outputs of several blocks", elements, elements);
}

/// Patches side by side, or their mean, through one linear or two. Sources: transformers modeling_qwen2_5_vl.py
/// (Qwen2_5_VLPatchMerger), modeling_llava.py (LlavaMultiModalProjector), modeling_gemma3.py
/// (Gemma3MultiModalProjector), modeling_internvl.py (InternVLMultiModalProjector).
LocalId merged(Tape& t, LocalId x) {
  const LinearRef &up = t.c.linear(LinearSlot::MergeUp), &down = t.c.linear(LinearSlot::MergeDown);
  const std::int64_t used = t.c.image_features() * up.in;  // without class tokens; of means, one of merged patches
  if (t.c.model.spec.vision.feature_layers > 1)
    x = gathered(t, x, used);
  else if (used < t.at(x).elements)
    x = shrunk(t, x, used);
  const auto& tensors = t.c.layer().tensors;
  const bool has_norm =
      t.c.layer().makes_deepstack || std::any_of(tensors.begin(), tensors.end(), [](const WeightTensor& w) {
        return w.role == WeightRole::Norm && w.part == ModelPart::Projector;
      });
  if (has_norm) x = norm(t, x, "normed image features");
  x = linear(t, x, up);
  return down.exists() ? linear(t, activated(t, x), down) : x;
}

/// Image features take the places of their tokens in the embedded sequence, or wait for the layers that attend to them.
void project_images(Tape& t) {
  const bool is_frozen = t.c.model.first_backward > 0 && !t.c.linear(LinearSlot::MergeUp).is_trained &&
                         !t.c.linear(LinearSlot::MergeUp).is_adapted;
  const LocalId features = merged(t, kSlotX);
  if (is_frozen) t.forget();
  const LocalId rows = embedded_rows(t);
  embed_stream(t, rows);
  const bool is_attended = t.c.model.spec.vision.is_attended;
  t.memory_op(OpKind::Copy, {features}, {is_attended ? LocalId(kSlotMemory) : rows},
              2.0 * double(t.at(features).bytes().count));
  if (!is_frozen && is_attended)
    t.then_backward([](Tape& tape, const Tape::Step& s) { tape.add_grad(s.ids[0], kSlotDMemory); }, {features});
  else if (!is_frozen)
    t.then_backward(
        [](Tape& tape, const Tape::Step& s) {
          const LocalId dx = tape.new_grad(s.ids[0]);
          tape.memory_op(OpKind::Copy, {tape.grad(s.ids[1])}, {dx}, 2.0 * double(tape.at(dx).bytes().count));
          tape.add_grad(s.ids[0], dx);
        },
        {features, rows});
  leave_own_rows(t, rows, !is_frozen || t.c.model.trains_embedding);
}

/// Features of a block in the middle of the tower, which wait in the memory slot (Qwen3-VL's deepstack mergers).
void make_deepstack(Tape& t, LocalId block_output) {
  const LocalId features = merged(t, block_output);
  t.memory_op(OpKind::Copy, {features}, {kSlotMemory}, 2.0 * double(t.at(features).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Copy, {kSlotDMemory}, {dx}, 2.0 * double(tape.at(dx).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {features});
}

/// Adds what waits to the image tokens of the stream.
void read_deepstack(Tape& t) {
  const double bytes = double(bytes_of(t.c.image_tokens() * t.c.spec().hidden_size, t.at(kSlotY).dtype).count);
  t.memory_op(OpKind::Add, {kSlotMemory, kSlotY}, {kSlotY}, 3.0 * bytes);
  if (t.c.model.first_backward > 0) return;  // what made them is frozen
  t.then_backward(
      [](Tape& tape, const Tape::Step&) {
        const double copied =
            double(bytes_of(tape.c.image_tokens() * tape.c.spec().hidden_size, tape.at(kSlotDy).dtype).count);
        tape.memory_op(OpKind::Copy, {kSlotDy}, {kSlotDMemory}, 2.0 * copied);
      },
      {});
}

}  // namespace

LedgerContext make_context(const TrainedModel& model, const Recipe& recipe, const FrameworkConvention& framework,
                           const DtypePolicy& numerics) {
  LayerKernels kernels =
      framework.layers.has_fixed_kernels ? framework.layers.kernels : layer_kernels(recipe, framework);
  // kernel libraries have RMSNorm, rotation and gated MLPs; of a model without them they change the loss alone
  // (Liger's and fms-acceleration's patches of GPT-BigCode)
  const ModelSpec& m = model.spec;
  if (!framework.layers.has_fixed_kernels && m.norm == NormKind::LayerNorm && m.position != PositionKind::Rope &&
      m.mlp == MlpKind::Plain)
    kernels = LayerKernels::Plain;
  return {.model = model,
          .recipe = recipe,
          .framework = framework,
          .numerics = numerics,
          .is_fused = kernels == LayerKernels::Fused || recipe.torch_compile,
          .is_mlp_fused = (kernels == LayerKernels::Fused && framework.layers.fuses_mlp) || recipe.torch_compile,
          .accumulates = recipe.grad_accum > 1};
}

void emit_layer(LayerGraph& graph, const LedgerContext& c) {
  Tape t(graph, c);
  if (c.layer().part == ModelPart::Projector)
    project_images(t);
  else if (c.layer().is_bridge)
    bridge(t);
  else if (c.spec().altup.is_present())
    layer_of_streams(t);
  else if (c.spec().residual == ResidualKind::Sequential)
    sequential_layer(t);
  else
    parallel_layer(t);
  if (c.layer().reads_deepstack) read_deepstack(t);
  t.set_grad(kSlotY, kSlotDy);
  if (c.model.trains_memory) t.set_grad(kSlotMemory, kSlotDMemory);
  t.unwind();
}

}  // namespace gpuplan

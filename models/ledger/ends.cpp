// The ends of the model: embedding, final norm, head and loss. What one logits element costs at the loss, by path, is
// in docs/memory_model.md (16 bytes under the HF Trainer, 14 in a plain loop, less when chunked or fused).
#include <algorithm>
#include <bit>

#include "base/narrow.h"
#include "models/ledger/fake_quant.h"
#include "models/ledger/tape.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

const std::array<Dim, 4> kLogitDims{Dim::Batch, Dim::Seq, Dim::Vocab, Dim::Count};

LocalId logits_tensor(Tape& t, const char* name, std::int64_t elements, Dtype dtype) {
  return t.tensor(name, elements, dtype, kLogitDims, LocalKind::Logits);
}

LayerOp& loss_op(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, double traffic) {
  return t.memory_op(OpKind::CrossEntropy, reads, writes, traffic);
}

/// The model's code hands out 16-bit logits (Qwen-1, gpt_bigcode): transformers' usual upcast is missing.
bool stays_16bit(const Tape& t) {
  return t.c.spec().keeps_16bit_logits && !t.c.framework.layers.has_own_models && !t.c.framework.loss.converts_outputs;
}

/// fp32 where the model upcasts its logits or autocast runs the loss; else as the logits.
Dtype loss_dtype(const Tape& t, Dtype logits) {
  return (t.c.framework.loss.upcasts_logits && !stays_16bit(t)) || t.c.numerics.is_autocast ? Dtype::F32 : logits;
}

/// Says which copy of the logits the model's output holds until the loss is done.
KeptLogits kept_logits(const Tape& t) {
  const FrameworkConvention& f = t.c.framework;
  if (f.loss.converts_outputs) return KeptLogits::Fp32;
  const Precision precision = t.c.recipe.precision;
  const bool turned_into_fp32 =
      precision == Precision::Bf16Loaded && (t.c.numerics.weight == Dtype::F32 || t.c.numerics.has_master);
  const bool is_mixed = precision == Precision::Bf16Mixed || precision == Precision::Fp16Mixed || turned_into_fp32;
  return is_mixed ? f.loss.kept_logits_mixed : f.loss.kept_logits;
}

/// Softmax over the vocabulary, its gradient, and the way back to the head's dtype; `kept` copies live through it.
LocalId plain_loss(Tape& t, LocalId logits) {
  const FrameworkConvention& f = t.c.framework;
  const std::int64_t E = t.at(logits).elements;
  const KeptLogits keep = kept_logits(t);
  const Dtype low = t.at(logits).dtype, wide_dtype = loss_dtype(t, low);
  const double bytes = double(E * size_of(wide_dtype));
  const LocalId wide = t.cast(logits, wide_dtype, "logits in fp32");
  LocalId shifted = wide;
  if (f.loss.shifts_logits) {
    shifted = logits_tensor(t, "shifted logits, contiguous", E, wide_dtype);
    loss_op(t, {wide}, {shifted}, 2 * bytes);
  }
  const LocalId log_softmax = logits_tensor(t, "log-softmax", E, wide_dtype);
  loss_op(t, {shifted}, {log_softmax}, 2 * bytes);
  t.explain_saved(log_softmax, "cross-entropy backward");
  LocalId dlog = logits_tensor(t, "gradient of log-softmax", E, wide_dtype);
  loss_op(t, {log_softmax}, {dlog}, bytes);
  LocalId label = kNoLocal;
  if (f.loss.adds_exponentials && t.c.model.split.ways > 1) {
    // (labels' part + exp(log-softmax)) x gradient of the loss, an op each
    label = dlog;
    const LocalId exponentials = logits_tensor(t, "exponentials", E, wide_dtype);
    loss_op(t, {log_softmax}, {exponentials}, 2 * bytes);
    dlog = logits_tensor(t, "exponentials and labels' part", E, wide_dtype);
    loss_op(t, {log_softmax, label, exponentials}, {dlog}, 3 * bytes);
  }
  const LocalId dwide = logits_tensor(t, "gradient of logits in fp32", E, wide_dtype);
  const LocalId kept = keep == KeptLogits::Fp32 ? wide : keep == KeptLogits::Compute ? logits : kNoLocal;
  const LocalId output = stays_16bit(t) && wide != logits ? logits : kNoLocal;  // converted only after the loss
  loss_op(t, {log_softmax, dlog, label, kept, output}, {dwide}, 3 * bytes);
  return t.cast(dwide, low, "gradient of logits");
}

/// One kernel that overwrites fp32 logits with their gradient: the model's own fp32 ones, or a copy of its 16-bit ones.
LocalId in_place_loss(Tape& t, LocalId logits) {
  const FrameworkConvention& f = t.c.framework;
  const std::int64_t E = t.at(logits).elements;
  const Dtype low = t.at(logits).dtype;
  const bool upcasts_first = !stays_16bit(t);
  LocalId in = upcasts_first ? t.cast(logits, loss_dtype(t, low), "logits in fp32") : logits;
  if (f.loss.shifts_logits) {
    const LocalId shifted = logits_tensor(t, "shifted logits, contiguous", E, t.at(in).dtype);
    loss_op(t, {in}, {shifted}, 2 * double(t.at(shifted).bytes().count));
    in = shifted;
  }
  LocalId output = kNoLocal;
  if (!upcasts_first) {
    in = t.cast(in, loss_dtype(t, low), "logits of the loss kernel");
    const KeptLogits keep = kept_logits(t);
    output = keep == KeptLogits::Fp32      ? t.cast(logits, Dtype::F32, "model output converted to fp32")
             : keep == KeptLogits::Compute ? logits
                                           : kNoLocal;
  }
  const double bytes = double(t.at(in).bytes().count);
  loss_op(t, {in, upcasts_first ? kNoLocal : logits, output}, {in}, 3 * bytes);
  LocalId gradient = in;
  if (f.loss.shifts_logits) {  // of the slice: a tensor of all positions
    gradient = logits_tensor(t, "gradient of all positions", E, t.at(in).dtype);
    loss_op(t, {in, output}, {gradient}, 2 * bytes);
  }
  return t.cast(gradient, low, "gradient of logits");
}

/// A trained head gets a gradient per chunk, added to what the chunks before it left.
LocalId chunk_weight_gradient(Tape& t, const LinearRef& head) {
  return head.is_trained ? t.scratch("head gradient of one chunk", head.in * head.out, t.c.numerics.compute) : kNoLocal;
}

/// Head and loss in `chunks` pieces whose logits are recomputed in backward: one piece exists at a time.
LocalId recomputed_chunks(Tape& t, LocalId x, const LinearRef& head, std::int64_t chunks) {
  const std::int64_t E = t.tokens() * head.out, piece = ceil_div(E, chunks);
  const LocalId dx = t.wide("gradient of the head input", head.in, Dim::Hidden, t.c.numerics.compute);
  const LocalId low = logits_tensor(t, "logits of one chunk", piece, t.c.numerics.compute);
  const LocalId wide = logits_tensor(t, "log-softmax and gradients of one chunk, fp32", 3 * piece, Dtype::F32);
  LayerOp& forward = t.gemm({x}, {low, wide, dx, chunk_weight_gradient(t, head)}, t.tokens(), head.out, head.in);
  forward.flops *= head.is_trained ? 4 : 3;  // forward twice, input gradient, weight gradient
  forward.kernels = narrow<std::uint32_t>(8 * chunks);
  forward.is_weight_gradient = head.is_trained;
  loss_op(t, {low, wide}, {}, 22.0 * double(E));
  return dx;
}

/// Chunks whose logits and log-softmax all stay until backward (LitGPT, torchtune); gradients exist chunk by chunk.
LocalId kept_chunks(Tape& t, LocalId x, const LinearRef& head, std::int64_t chunks) {
  const std::int64_t E = t.tokens() * head.out, piece = ceil_div(E, chunks);
  // a compiled loss recomputes the softmax from the 16-bit logits in backward
  const bool keeps_softmax = !t.c.recipe.torch_compile;
  const Dtype soft = keeps_softmax ? t.c.framework.loss.chunked_softmax : t.c.numerics.compute;
  const LocalId logits = logits_tensor(t, "logits of all chunks", E, t.c.numerics.compute);
  const FakeQuantised weight = fake_quantised_weight(t, head, chunks);  // each chunk calls the head
  t.gemm({x, weight.value}, {logits}, t.tokens(), head.out, head.in);
  const LocalId log_softmax = keeps_softmax ? logits_tensor(t, "log-softmax of all chunks", E, soft) : kNoLocal;
  const LocalId upcast = logits_tensor(t, "chunk in the loss dtype", piece, soft);
  loss_op(t, {logits}, {log_softmax, upcast}, double(E * (2 + size_of(soft))));
  t.explain_saved(logits, "kept as the model's output");
  t.explain_saved(log_softmax, "cross-entropy backward");
  const LocalId grads = logits_tensor(t, "gradients of one chunk", 2 * piece, soft);
  const LocalId dweight = chunk_weight_gradient(t, head);
  const LocalId dx = t.wide("gradient of the head input", head.in, Dim::Hidden, t.c.numerics.compute);
  loss_op(t, {logits, log_softmax}, {grads}, 3.0 * double(E * size_of(soft)));
  LayerOp& o = t.gemm({grads, log_softmax, logits, head.is_trained ? x : kNoLocal, weight.value, weight.range},
                      {dx, dweight}, t.tokens(), head.in, head.out);
  o.flops *= head.is_trained ? 2 : 1;
  o.is_weight_gradient = head.is_trained;
  return dx;
}

/// Liger fused linear cross-entropy: chunks of next_pow2(ceil(N / ceil(V / h))) tokens; gradients are made in forward.
LocalId fused_linear_loss(Tape& t, LocalId x, const LinearRef& head) {
  const std::int64_t N = t.tokens(), per = ceil_div(head.out, head.in);
  const std::int64_t chunk = std::min<std::int64_t>(N, std::int64_t(std::bit_ceil(std::uint64_t(ceil_div(N, per)))));
  const LocalId dx = t.wide("gradient of the head input", head.in, Dim::Hidden, t.c.numerics.compute);
  const LocalId low = logits_tensor(t, "logits of one chunk", chunk * head.out, t.c.numerics.compute);
  const LocalId wide = logits_tensor(t, "chunk in fp32", chunk * head.out, Dtype::F32);
  const LocalId dweight =
      head.is_trained ? t.scratch("head gradient accumulated over chunks", head.in * head.out, t.c.numerics.compute)
                      : kNoLocal;
  LayerOp& o = t.gemm({x}, {low, wide, dx, dweight}, N, head.out, head.in);
  o.flops *= head.is_trained ? 3 : 2;
  o.is_weight_gradient = head.is_trained;
  o.kernels = narrow<std::uint32_t>(5 * ceil_div(N, chunk));
  loss_op(t, {low, wide}, {}, 6.0 * double(N) * double(head.out));
  return dx;
}

}  // namespace

/// Three framework ops: tanh keeps its output for backward.
LocalId cap_logits(Tape& t, LocalId logits) {
  if (!t.c.spec().caps_logits) return logits;
  const std::int64_t E = t.at(logits).elements;
  const Dtype dtype = t.at(logits).dtype;
  const double bytes = double(t.at(logits).bytes().count);
  const LocalId divided = logits_tensor(t, "logits over cap", E, dtype);
  t.memory_op(OpKind::Scale, {logits}, {divided}, 2 * bytes);
  const LocalId bent = logits_tensor(t, "tanh of logits", E, dtype);
  t.memory_op(OpKind::Activation, {divided}, {bent}, 2 * bytes);
  t.explain_saved(bent, "tanh backward");
  const LocalId capped = logits_tensor(t, "capped logits", E, dtype);
  t.memory_op(OpKind::Scale, {bent}, {capped}, 2 * bytes);
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local like = tape.at(s.ids[0]);
        const LocalId dx = tape.tensor("gradient before capping", like.elements, like.dtype, like.dims, like.kind);
        tape.memory_op(OpKind::Activation, {tape.grad(s.ids[2]), s.ids[1]}, {dx}, 3.0 * double(like.bytes().count))
            .kernels = 3;
        tape.add_grad(s.ids[0], dx);
      },
      {logits, bent, capped});
  return capped;
}

SharedSums sum_over_vocabulary(Tape& t, LocalId logits) {
  if (t.c.model.split.ways == 1) return {};
  const auto numbers = [&](const char* name) { return logits_tensor(t, name, t.tokens(), Dtype::F32); };
  const SharedSums sums{numbers("largest logit"), numbers("label's logit"), numbers("sum of exponentials")};
  t.memory_op(OpKind::LargestLogit, {logits}, {sums.largest}, double(t.at(logits).bytes().count));
  t.exchange(Exchange::AllReduce, sums.largest, sums.largest).is_maximum = true;
  const double own = double(t.at(sums.label).bytes().count);
  t.memory_op(OpKind::LabelLogit, {logits}, {sums.label}, 2 * own);
  t.exchange(Exchange::AllReduce, sums.label, sums.label);
  t.memory_op(OpKind::SumOfExponentials, {logits, sums.largest}, {sums.exponentials}, 2 * own);
  t.exchange(Exchange::AllReduce, sums.exponentials, sums.exponentials);
  return sums;
}

namespace {

/// One kernel whose gradient overwrites the logits in their dtype.
LocalId overwriting_loss(Tape& t, LocalId logits, const SharedSums& sums) {
  loss_op(t, {logits, sums.largest, sums.label, sums.exponentials}, {logits}, 3 * double(t.at(logits).bytes().count));
  return logits;
}

/// The loss on top of materialised logits: head linear with its adapters, then the loss kernel, then unwinding.
void materialised(Tape& t, LocalId x) {
  const LinearRef& head = t.c.model.head;
  const ColumnInput in = enter_columns(t, x, head.is_trained, sums_by_itself(t, head));
  const LocalId logits = cap_logits(t, linear(t, in.value, head, LocalKind::Logits, in.again));
  leave_columns(t, x, in);
  const SharedSums sums = sum_over_vocabulary(t, logits);
  const LocalId dlogits = t.c.framework.loss.overwrites_logits     ? overwriting_loss(t, logits, sums)
                          : t.c.recipe.loss == LossKernel::InPlace ? in_place_loss(t, logits)
                                                                   : plain_loss(t, logits);
  t.set_grad(logits, dlogits);
}

void pieces(Tape& t, LocalId stream) {
  const LinearRef& head = t.c.model.head;
  const ColumnInput entered = enter_columns(t, stream, false);
  const LocalId x = entered.value;
  const LocalId in = t.cast(x, t.c.numerics.compute, "head input in 16 bit");
  t.explain_saved(in, "head and loss in chunks");
  const std::int64_t chunks = std::clamp<std::int64_t>(t.c.recipe.loss_chunks, 1, t.tokens());
  const LocalId din = t.c.recipe.loss == LossKernel::Fused         ? fused_linear_loss(t, in, head)
                      : t.c.framework.loss.chunked_loss_recomputes ? recomputed_chunks(t, in, head, chunks)
                                                                   : kept_chunks(t, in, head, chunks);
  const LocalId dx = t.cast(din, t.at(x).dtype, "gradient of the head input, cast");
  t.then_backward([](Tape& tape, const Tape::Step& s) { tape.set_grad(s.ids[0], s.ids[1]); }, {x, dx});
  leave_columns(t, stream, entered);
}

/// An encoder's last norm, where it has one, and its pooler on the first token, with a task head too small to matter.
void pooler(Tape& t, LayerGraph& graph) {
  const LocalId x = t.c.spec().has_final_norm ? norm(t, kSlotX, "normed final hidden state", kNoLocal, NormSlot::Final)
                                              : LocalId(kSlotX);
  const LocalId dx = t.new_grad(x);
  t.memory_op(OpKind::Copy, {x}, {dx}, 2.0 * double(t.at(dx).bytes().count)).is_weight_gradient = t.c.model.trains_head;
  t.set_grad(x, dx);
  if (t.c.recipe.pass == Pass::Train) t.unwind();
  graph.forward.insert(graph.forward.end(), graph.backward.begin(), graph.backward.end());
  graph.backward.clear();
}

}  // namespace

void emit_head(LayerGraph& graph, const LedgerContext& context) {
  LedgerContext c = context;
  c.is_head = true;
  Tape t(graph, c);
  if (c.spec().head == HeadKind::Pooler) return pooler(t, graph);
  const LocalId stream = c.spec().altup.is_present() ? joined_streams(t) : LocalId(kSlotX);
  LocalId x =
      c.spec().has_final_norm ? norm(t, stream, "normed final hidden state", kNoLocal, NormSlot::Final) : stream;
  if (c.model.head_input.exists()) x = linear(t, x, c.model.head_input);
  const bool is_compared = !c.recipe.objective.method.is_usual();
  if (has_own_head(c.recipe))
    score(t, x);
  else if (is_compared && !has_chunked_log_probs(c.recipe))
    log_probs(t, x);
  else if (is_compared && c.recipe.pass != Pass::Train)
    chunked_log_probs(t, x);
  else if (c.recipe.loss == LossKernel::Plain || c.recipe.loss == LossKernel::InPlace)
    materialised(t, x);
  else
    pieces(t, x);
  if (c.recipe.pass == Pass::Train) t.unwind();
  if (is_compared) return;
  graph.forward.insert(graph.forward.end(), graph.backward.begin(), graph.backward.end());
  graph.backward.clear();
}

namespace {

/// The convolution that makes a row of each patch, and the positions added to it.
void embed_patches(Tape& t) {
  const ModelSpec& m = t.c.spec();
  const VisionSpec& v = t.c.model.spec.vision;
  t.gemm({}, {kSlotY}, t.tokens(), m.hidden_size, v.patch_elements());
  if (m.learned_positions > 0) t.memory_op(OpKind::Add, {kSlotY}, {kSlotY}, 3.0 * double(t.at(kSlotY).bytes().count));
  t.set_grad(kSlotY, kSlotDy);
  if (!t.c.model.trains_patches) return;
  t.then_backward(
      [](Tape& tape, const Tape::Step&) {
        const std::int64_t width = tape.c.spec().hidden_size, patch = tape.c.model.spec.vision.patch_elements();
        LayerOp& o = tape.gemm({kSlotDy}, {}, width, patch, tape.tokens());
        o.layout = GemmLayout::WeightGradient;
        o.is_weight_gradient = true;
      },
      {});
  t.unwind();
}

/// Streams beside the embedded one: a product each, brought to the magnitude of what it was made of, and stacked.
/// Source: transformers modeling_gemma3n.py (Gemma3nTextModel.forward).
void make_streams(Tape& t, LocalId embedded) {
  const ModelSpec& m = t.c.spec();
  const std::int64_t others = (m.altup.num_streams - 1) * m.hidden_size;
  t.gemm({embedded}, {kSlotY}, t.tokens(), others, m.hidden_size);
  t.memory_op(OpKind::Scale, {kSlotY}, {kSlotY}, 9.0 * double(t.at(kSlotY).bytes().count)).kernels = 24;
  if (!t.c.model.trains_embedding) return;
  t.then_backward(
      [](Tape& tape, const Tape::Step&) {
        const ModelSpec& spec = tape.c.spec();
        LayerOp& o =
            tape.gemm({kSlotDy}, {}, (spec.altup.num_streams - 1) * spec.hidden_size, spec.hidden_size, tape.tokens());
        o.layout = GemmLayout::WeightGradient;
        o.is_weight_gradient = true;
      },
      {});
}

}  // namespace

void emit_embedding(LayerGraph& graph, const LedgerContext& c) {
  Tape t(graph, c);
  if (!c.is_language()) return embed_patches(t);
  const ModelSpec& m = c.model.spec;
  const std::int64_t elements = c.tokens() * m.hidden_size;
  const Dtype residual = c.numerics.residual;
  const int extra_ops = int(m.scales_embedding) + int(m.learned_positions > 0) + int(m.token_types > 0) +
                        int(m.has_embedding_norm) + int(m.embedding_size > 0);
  const LocalId looked_up = extra_ops > 0 ? t.scratch("looked-up rows", elements, residual) : kNoLocal;
  const LocalId out = m.residual_dropout > 0 ? t.scratch("embedding before dropout", elements, residual) : kNoLocal;
  const LayerSplit& split = c.model.split;
  const LocalId rows = split.splits_sequence
                           ? t.wide("rows of this rank's vocabulary", m.hidden_size, Dim::Hidden, residual)
                           : LocalId(kSlotY);
  t.memory_op(OpKind::Embed, {}, {rows, looked_up, out}, 2.0 * double(bytes_of(elements, residual).count)).kernels =
      narrow<std::uint8_t>(1 + extra_ops);
  if (split.ways > 1) t.exchange(split.splits_sequence ? Exchange::ReduceScatter : Exchange::AllReduce, rows, kSlotY);
  if (m.altup.is_present()) make_streams(t, looked_up);
  t.set_grad(kSlotY, kSlotDy);
  if (c.model.trains_embedding) {
    t.then_backward(
        [](Tape& tape, const Tape::Step&) {
          const DtypePolicy& n = tape.c.numerics;
          const ModelSpec& spec = tape.c.spec();
          // the dense gradient is its own tensor before it joins that of the tied head or of earlier micro-batches
          const bool joins = (tape.c.model.has_tied_head || tape.c.accumulates) && !tape.adds_in_place();
          const LocalId dense = joins
                                    ? tape.scratch("dense embedding gradient", spec.vocab_size * spec.embedding_width(),
                                                   n.casts_weights ? n.compute : n.weight)
                                    : kNoLocal;
          LocalId dy = kSlotDy;
          if (tape.c.model.split.splits_sequence) {
            dy = tape.wide("gradient of all tokens", spec.hidden_size, Dim::Hidden, tape.at(kSlotDy).dtype);
            tape.exchange(Exchange::AllGather, kSlotDy, dy);
          }
          LayerOp& o = tape.memory_op(OpKind::Embed, {dy}, {dense},
                                      double(bytes_of(spec.vocab_size * spec.embedding_width(), n.weight).count));
          o.is_weight_gradient = true;
        },
        {});
    t.unwind();
  }
}

}  // namespace gpuplan

// Heads of methods that compare answers (data/methods.yaml): logits to log-probs of the labels, and heads of a few
// numbers. What a trainer copies on the way is FrameworkPreference; bytes per logit by path are in docs/phases.md.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/narrow.h"
#include "models/ledger/tape.h"
#include "models/rollout.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

LocalId like_logits(Tape& t, const char* name, std::int64_t elements, Dtype dtype) {
  return t.tensor(name, elements, dtype, {Dim::Batch, Dim::Seq, Dim::Vocab, Dim::Count}, LocalKind::Logits);
}

LayerOp& log_probs_op(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                      double traffic) {
  return t.memory_op(OpKind::CrossEntropy, reads, writes, traffic);
}

/// Elements of one row of `logits`, which a loop over the rows works on.
std::int64_t row_elements(const Tape& t, LocalId logits) {
  return ceil_div(const_cast<Tape&>(t).at(logits).elements, t.c.recipe.rows());
}

bool loops_over_sums(const Tape& t, Dtype dtype) {
  return t.c.framework.preference.log_probs == LogProbs::Rows && dtype == Dtype::F32;
}

/// Gives what is read for the log-probs, and what backward reads of it: the logits themselves where it has their
/// log-sum-exp, else the log-softmax. A log-softmax of all rows first makes the rows without their last position
/// contiguous. A kernel of a whole cross-entropy reads them once and makes their gradient beside them. Sources:
/// Dao-AILab/flash-attention flash_attn/ops/triton/cross_entropy.py (inplace_backward False); trl/trainer/utils.py
/// selective_log_softmax; torch's log_softmax saves its result and copies what is not contiguous
/// (aten/src/ATen/native/cuda/SoftMax.cu host_softmax), logsumexp its input (ReduceOps.cpp).
LocalId saved_for_log_probs(Tape& t, LocalId logits) {
  const Local like = t.at(logits);
  const double bytes = double(like.bytes().count);
  if (t.c.framework.preference.log_probs == LogProbs::Kernel) {
    log_probs_op(t, {logits}, {}, bytes);
    t.explain_saved(logits, "cross-entropy backward");
    return logits;
  }
  const std::int64_t row = row_elements(t, logits);
  if (loops_over_sums(t, like.dtype)) {
    log_probs_op(t, {logits}, {like_logits(t, "exponentials of one row", row, like.dtype)}, 4 * bytes).kernels =
        narrow<std::uint16_t>(std::min<std::int64_t>(6 * t.c.recipe.rows(), 0xffff));
    t.explain_saved(logits, "log-sum-exp backward");
    return logits;
  }
  const bool is_full = t.c.framework.preference.log_probs == LogProbs::Full;
  const LocalId soft = like_logits(t, "log-softmax", like.elements, like.dtype);
  const LocalId contiguous = is_full && t.c.recipe.rows() > 1 && !t.c.framework.preference.copies_logits
                                 ? like_logits(t, "logits, contiguous", like.elements, like.dtype)
                                 : kNoLocal;
  log_probs_op(t, {logits}, {soft, contiguous}, (contiguous == kNoLocal ? 2 : 4) * bytes);
  t.explain_saved(soft, "log-softmax backward");
  return soft;
}

/// Gradients of all rows, stacked, with that of the label's logits added; then of the positions that were left out.
/// What gather saved (its whole input) lives until its own backward, the last one of a row loop over sums; a
/// log-softmax is let go row by row. Counted with PyTorch 1.13 on the CPU, allocation by allocation: docs/phases.md.
LocalId gradient_of_positions(Tape& t, LocalId saved) {
  const Local like = t.at(saved);
  const double bytes = double(like.bytes().count);
  const auto gradient = [&](const char* name) { return like_logits(t, name, like.elements, like.dtype); };
  if (t.c.framework.preference.log_probs == LogProbs::Kernel) {
    const LocalId of_logits = gradient("gradient of logits");
    log_probs_op(t, {saved}, {of_logits}, 2 * bytes);
    return of_logits;
  }
  LocalId inner = kNoLocal;
  if (t.c.framework.preference.log_probs == LogProbs::Full) {
    const LocalId selected = gradient("gradient of log-softmax");
    log_probs_op(t, {}, {selected}, bytes);
    inner = gradient("gradient of logits");
    log_probs_op(t, {saved, selected}, {inner}, 3 * bytes);
  } else {
    const bool sums = loops_over_sums(t, like.dtype);
    const LocalId rows = gradient("gradients of the rows");
    // beside the last row's gradient: of sums two temporaries as large; else that of its label's logits, when all other
    // rows have let go of their log-softmax
    const std::int64_t row = row_elements(t, saved), beside = sums ? 2 * row : 2 * row - like.elements;
    const LocalId softmax = beside > 0 ? like_logits(t, "softmax of one row", beside, like.dtype) : kNoLocal;
    log_probs_op(t, {saved}, {rows, softmax}, (sums ? 7 : 4) * bytes).kernels =
        narrow<std::uint16_t>(std::min<std::int64_t>(4 * t.c.recipe.rows(), 0xffff));
    inner = gradient("gradients of the rows, stacked");
    log_probs_op(t, {rows, sums ? saved : kNoLocal}, {inner}, 2 * bytes);
    if (sums) {
      const LocalId selected = gradient("gradient of the labels' logits");
      log_probs_op(t, {inner, saved}, {selected}, bytes);
      log_probs_op(t, {inner, selected}, {inner}, 3 * bytes);
    }
  }
  const LocalId all = gradient("gradient of all positions");
  log_probs_op(t, {inner}, {all}, 3 * bytes);
  return all;
}

/// Cross-entropy of the first answer beside the log-probs: its own log-softmax, and gradients that are added.
LocalId add_loss_on_first(Tape& t, LocalId all, LocalId soft) {
  if (soft == kNoLocal) return all;
  const Local like = t.at(soft);
  const double bytes = double(like.bytes().count);
  const LocalId of_softmax = like_logits(t, "gradient of log-softmax", like.elements, like.dtype);
  log_probs_op(t, {all}, {of_softmax}, bytes);
  const LocalId of_first = like_logits(t, "gradient of the first answer", like.elements, like.dtype);
  log_probs_op(t, {all, soft, of_softmax}, {of_first}, 3 * bytes);
  const LocalId whole = like_logits(t, "gradient of all answers", t.at(all).elements, like.dtype);
  log_probs_op(t, {all, of_first}, {whole}, 3 * bytes);
  log_probs_op(t, {all, whole}, {all}, 3.0 * double(t.at(all).bytes().count));
  return all;
}

/// Logits of the rows of either label, copied apart for what is logged, which live until the loss is returned. Sources:
/// huggingface/trl trl/trainer/kto_trainer.py @f2cd5771 _compute_loss (chosen_logits and rejected_logits by
/// index_select, while the logits of policy and reference are alive); hiyouga/LLaMA-Factory
/// src/llamafactory/train/kto/trainer.py @ff6d4d12 concatenated_forward (target_logits[kto_tags], of the reference
/// too).
LocalId copies_by_label(Tape& t, LocalId logits) {
  const FrameworkPreference& preference = t.c.framework.preference;
  const auto& methods = preference.copies_by_label;
  const bool is_copied =
      std::ranges::find(methods, t.c.recipe.objective.method->like) != methods.end() &&
      (t.c.recipe.pass == Pass::Train || (t.c.recipe.pass == Pass::Frozen && preference.reference_copies_by_label));
  if (!is_copied) return kNoLocal;
  const Local like = t.at(logits);
  const LocalId copies = like_logits(t, "logits of either label", like.elements, like.dtype);
  log_probs_op(t, {logits}, {copies}, 2.0 * double(like.bytes().count));
  return copies;
}

/// `ids`: logits of the head, what the model handed out (and is held until the loss is returned), what is saved, the
/// log-softmax of the first answer, copies by label.
void log_probs_backward(Tape& t, const Tape::Step& s) {
  if (s.ids[4] != kNoLocal) log_probs_op(t, {s.ids[4]}, {}, 0).kernels = 0;  // let go
  const auto [logits, output, saved, first] = std::array{s.ids[0], s.ids[1], s.ids[2], s.ids[3]};
  if (output != kNoLocal && output != saved) log_probs_op(t, {output}, {}, 0).kernels = 0;  // let go
  const LocalId all = add_loss_on_first(t, gradient_of_positions(t, saved), first);
  t.set_grad(logits, t.cast(all, t.at(logits).dtype, "gradient of logits"));
}

/// The hidden states whose logits are asked for.
LocalId scored(Tape& t, LocalId x, std::int64_t width) {
  const std::int64_t completion = t.c.recipe.objective.completion_len;
  const bool is_asked = t.c.recipe.objective.method->scores_completions || t.c.framework.preference.keeps_completions;
  if (!is_asked || t.c.framework.loss.overwrites_logits || unpads_rows(t.c.recipe) || completion <= 0 ||
      completion + 1 >= t.c.recipe.seq_len)
    return x;
  const std::int64_t elements = ceil_div(t.c.recipe.rows() * (completion + 1), t.c.model.split.context_ways) * width;
  return copied(t, x, "hidden states of the completions", elements, elements);
}

/// Log-softmax of the first answer, from a contiguous copy of its logits.
LocalId loss_on_first(Tape& t, LocalId logits) {
  if (!t.c.recipe.objective.method->loss_on_first || t.c.recipe.pass != Pass::Train) return kNoLocal;
  const Local like = t.at(logits);
  const std::int64_t elements = like.elements / t.c.recipe.objective.answers();
  const double bytes = double(bytes_of(elements, like.dtype).count);
  const LocalId copy = like_logits(t, "logits of the first answer, contiguous", elements, like.dtype);
  log_probs_op(t, {logits}, {copy}, 2 * bytes);
  const LocalId soft = like_logits(t, "log-softmax of the first answer", elements, like.dtype);
  log_probs_op(t, {copy}, {soft}, 2 * bytes);
  t.explain_saved(soft, "cross-entropy backward");
  return soft;
}

/// Liger's fused losses: one row of the data at a time. Its 16-bit logits lie beside what gather's backward fills, as
/// wide as they are and fp32, and that of a cross-entropy on the first answer; the compiled kernel writes the gradient
/// in the place of the logits. A reference's logits are let go before. The gradient of the head is summed up, and that
/// of one row comes beside it when the logits are gone. Sources: linkedin/Liger-Kernel
/// src/liger_kernel/chunked_loss/fused_linear_preference.py @ead96b61 (chunk_size 1, compiled); its measured rows are
/// in data/validation/loss_kernels.jsonl.
void fused_pairs(Tape& t, LocalId x, const LinearRef& head) {
  const TrainingMethod& method = *t.c.recipe.objective.method;
  const std::int64_t N = t.at(x).elements / head.in;
  const std::int64_t chunk = ceil_div(N, t.c.recipe.micro_batch) * head.out;
  const bool trains = t.c.recipe.pass == Pass::Train;
  if (!trains) return;  // the reference's logits are made in the chunks of the policy
  const Dtype compute = t.c.numerics.compute;
  const LocalId in = t.cast(x, compute, "head input in 16 bit");
  const bool compares = !method.generates && reference_of(t.c.recipe) != Reference::None;  // in the same chunks
  const auto head_gradient = [&](const char* name) {
    return head.is_trained ? t.scratch(name, head.in * head.out, compute) : kNoLocal;
  };
  const LocalId low = like_logits(t, "logits of one pair", chunk, compute);
  const LocalId other = compares ? like_logits(t, "reference's logits of one pair", chunk, compute) : kNoLocal;
  const LocalId dx =
      t.tensor("gradient of the head input", N * head.in, compute, {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count});
  const LocalId dweight = head_gradient("head gradient");
  LayerOp& o = t.gemm({in}, {low, other, dx, dweight}, N, head.out, head.in);
  o.flops *= (head.is_trained ? 3 : 2) + (compares ? 1 : 0);
  o.kernels = narrow<std::uint32_t>(12 * t.c.recipe.micro_batch);
  const LocalId wide = like_logits(t, "gradient of the log-softmax of one pair", chunk, Dtype::F32);
  const LocalId first = method.loss_on_first ? like_logits(t, "that of its first answer",
                                                           chunk / t.c.recipe.objective.answers(), Dtype::F32)
                                             : kNoLocal;
  log_probs_op(t, {low}, {wide, first}, 4.0 * double(N) * double(head.out));
  log_probs_op(t, {low, wide, first}, {low}, 4.0 * double(N) * double(head.out));
  const LocalId of_one = head_gradient("head gradient of one pair");
  log_probs_op(t, {in, low, dx, dweight}, {of_one}, 0);
  if (dweight != kNoLocal) log_probs_op(t, {dweight, of_one}, {}, 0).is_weight_gradient = true;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        tape.set_grad(s.ids[0], tape.cast(s.ids[1], tape.at(s.ids[0]).dtype, "gradient of the head input, cast"));
      },
      {x, dx});
}

/// Holds what a divergence has beside the outputs of both models, in tensors like these.
struct DivergenceTensors {
  double made, saved, terms;  // before the loss is there; until backward; in backward, beside what is saved
};

/// All rows at once: copies of both outputs divided by the temperature, both log-softmaxes, their mixture and the terms
/// of two divergences. Counted with PyTorch 2.6 on the CPU, allocation by allocation: 67.1 and 47.3 bytes per fp32
/// logit, 33.5 and 23.6 in 16 bit. Source: huggingface/trl trl/experimental/gkd/gkd_trainer.py @v1.9.0
/// (generalized_jsd_loss between beta 0 and 1).
/// Chunk by chunk: both outputs at the labels and their divided copies; of each chunk 7 tensors stay, whose slices give
/// gradients of all rows. Counted likewise in chunks of a whole, 1/2, 1/8 and 1/32: 52, 48, 45 and 44.25 bytes per fp32
/// logit forward, 28 saved, 48, 38, 31 and 34.4 backward. Source: modelscope/ms-swift swift/rlhf_trainers/gkd_loss.py
/// @3602360a (gkd_loss, jsd_loss).
DivergenceTensors divergence_tensors(const Tape& t, std::int64_t rows) {
  const std::int64_t at_once = t.c.framework.preference.divergence_rows;
  if (at_once == 0) return {8, 7, 5};
  const double part = std::min(1.0, double(at_once) / double(std::max<std::int64_t>(1, rows)));
  return {4 + 2 * part, 7, std::max({5 * part, 1 - 2 * part, 2 - 11 * part})};
}

/// Divergence over the vocabulary of two models.
void divergence(Tape& t, LocalId logits) {
  const LocalId output = t.cast(logits, t.c.numerics.logits, "logits as the trainer gets them");
  const Local like = t.at(output);
  const DivergenceTensors n = divergence_tensors(t, like.elements / std::max<std::int64_t>(1, t.c.model.head.out));
  const auto several = [&](double tensors) { return std::int64_t(std::ceil(tensors * double(like.elements))); };
  const double bytes = double(like.bytes().count);
  const LocalId teacher = like_logits(t, "teacher's logits", like.elements, like.dtype);
  const LocalId saved = like_logits(t, "log-softmaxes, mixture and its terms", several(n.saved), like.dtype);
  const LocalId made = like_logits(t, "terms of the divergences", several(n.made), like.dtype);
  log_probs_op(t, {output}, {teacher, saved, made}, 18 * bytes);
  log_probs_op(t, {output, teacher, saved, made}, {}, 0).kernels = 0;  // let go
  t.explain_saved(saved, "divergence backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local of = tape.at(s.ids[1]), out = tape.at(s.ids[2]);
        const double read = double(of.bytes().count);
        const DivergenceTensors own =
            divergence_tensors(tape, out.elements / std::max<std::int64_t>(1, tape.c.model.head.out));
        const LocalId terms = like_logits(tape, "gradients of the terms",
                                          std::int64_t(std::ceil(own.terms * double(out.elements))), of.dtype);
        log_probs_op(tape, {s.ids[1]}, {terms}, 12.0 / 7 * read);
        const LocalId all = like_logits(tape, "gradient of the output", out.elements, of.dtype);
        log_probs_op(tape, {terms}, {all}, 3.0 / 7 * read);
        tape.set_grad(s.ids[0], tape.cast(all, tape.at(s.ids[0]).dtype, "gradient of logits"));
      },
      {logits, saved, output});
}

/// Divergence over the teacher's highest logits: the student's at the labels are kept for the shape that their gradient
/// gets, which is scattered into, and again into that of all rows. Counted as above with 64 of 8,000: 1.1 tensors like
/// the output forward and saved, 2.0 backward. Source: as above (TeacherOutput.to_topk).
void divergence_of_highest(Tape& t, LocalId logits) {
  const LocalId output = t.cast(logits, t.c.numerics.logits, "logits as the trainer gets them");
  const Local like = t.at(output);
  const double bytes = double(like.bytes().count);
  const std::int64_t rows = like.elements / std::max<std::int64_t>(1, t.c.model.head.out);
  const LocalId teacher = like_logits(t, "teacher's logits", like.elements, like.dtype);
  const LocalId active = like_logits(t, "logits at the labels", like.elements, like.dtype);
  const LocalId highest =
      like_logits(t, "the highest logits and their terms", 12 * rows * t.c.recipe.objective.teacher_topk, like.dtype);
  log_probs_op(t, {output}, {teacher, active, highest}, 4 * bytes);
  log_probs_op(t, {output, teacher}, {}, 0).kernels = 0;  // let go
  t.explain_saved(active, "divergence backward");
  t.explain_saved(highest, "divergence backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local of = tape.at(s.ids[1]);
        const double read = double(of.bytes().count);
        const LocalId dactive = like_logits(tape, "gradient at the labels", of.elements, of.dtype);
        log_probs_op(tape, {s.ids[1], s.ids[2]}, {dactive}, read);
        const LocalId all = like_logits(tape, "gradient of the output", of.elements, of.dtype);
        log_probs_op(tape, {dactive}, {all}, 2 * read);
        tape.set_grad(s.ids[0], tape.cast(all, tape.at(s.ids[0]).dtype, "gradient of logits"));
      },
      {logits, active, highest});
}

/// Forward divergence from the teacher beside the cross-entropy of the labels, chunk by chunk of the tokens. Until
/// backward stay the teacher's softmax, the student's log-softmax of both losses, all fp32, and the mask of infinite
/// logits; the logits of both models live until the losses are made. Backward lets go of the labels' log-softmax, then
/// of the rest, as it fills the gradient. Counted with PyTorch 2.6 on the CPU in 8 chunks: 17.5 bytes per logit
/// forward, 13.0 saved, 14.0 backward. Source: pytorch/torchtune torchtune/modules/loss/kd_losses.py,
/// recipes/knowledge_distillation_distributed.py @bd2a0fc7 (_loss_step).
void chunked_divergence(Tape& t, LocalId logits) {
  const Local like = t.at(logits);
  const std::int64_t piece = ceil_div(like.elements, std::max<std::int64_t>(1, t.c.recipe.loss_chunks));
  const double bytes = double(bytes_of(like.elements, Dtype::F32).count);
  const LocalId teacher = like_logits(t, "teacher's logits", like.elements, like.dtype);
  log_probs_op(t, {logits}, {teacher}, 0).kernels = 0;  // of its own pass
  const LocalId soft =
      like_logits(t, "softmax of the teacher, log-softmax of the student", 2 * like.elements, Dtype::F32);
  const LocalId mask = like_logits(t, "mask of infinite logits", like.elements, Dtype::Bool);
  const LocalId products = like_logits(t, "products of one chunk", 2 * piece, Dtype::F32);
  log_probs_op(t, {logits, teacher}, {soft, mask, products}, 7 * bytes);
  const LocalId own = like_logits(t, "log-softmax of the labels' loss", like.elements, Dtype::F32);
  const LocalId wide = like_logits(t, "one chunk in fp32", piece, Dtype::F32);
  log_probs_op(t, {logits, teacher}, {own, wide}, 2 * bytes);  // the teacher's logits are let go behind both losses
  for (const LocalId id : {soft, mask, own}) t.explain_saved(id, "backward of both losses");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local of = tape.at(s.ids[0]);
        const double read = double(bytes_of(of.elements, Dtype::F32).count);
        const std::int64_t of_chunk = ceil_div(of.elements, std::max<std::int64_t>(1, tape.c.recipe.loss_chunks));
        const LocalId terms = like_logits(tape, "gradients of one chunk", 2 * of_chunk, Dtype::F32);
        log_probs_op(tape, {s.ids[3]}, {terms}, 3 * read);
        const LocalId all = like_logits(tape, "gradient of logits", of.elements, of.dtype);
        log_probs_op(tape, {s.ids[1], s.ids[2], terms}, {all}, 7 * read);
        tape.set_grad(s.ids[0], all);
      },
      {logits, soft, mask, own});
}

/// One kernel makes log-probs of the logits, in backward their gradient in their place. Source:
/// Dao-AILab/flash-attention flash_attn/ops/triton/cross_entropy.py (inplace_backward), which verl's
/// logprobs_from_logits calls. Our own executor does so with scores too, and writes what a sum of all log-probs gives
/// at once, which backward weighs row by row.
void in_place(Tape& t, LocalId logits, const SharedSums& sums) {
  const double bytes = double(t.at(logits).bytes().count);
  if (t.c.framework.loss.overwrites_logits)
    log_probs_op(t, {logits, sums.largest, sums.label, sums.exponentials}, {logits}, 3 * bytes);
  else
    log_probs_op(t, {logits}, {}, bytes);
  t.explain_saved(logits, "cross-entropy backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        log_probs_op(tape, {s.ids[0]}, {s.ids[0]}, 2.0 * double(tape.at(s.ids[0]).bytes().count));
        tape.set_grad(s.ids[0], s.ids[0]);
      },
      {logits});
}

}  // namespace

void log_probs(Tape& t, LocalId x) {
  const LinearRef& head = t.c.model.head;
  const FrameworkPreference& preference = t.c.framework.preference;
  const TrainingMethod& method = *t.c.recipe.objective.method;
  const bool is_fused = t.c.recipe.loss == LossKernel::Fused && (!method.generates || t.c.recipe.pass == Pass::Train);
  if (is_fused) return fused_pairs(t, method.generates ? scored(t, x, head.in) : x, head);
  const LocalId asked = scored(t, x, head.in);
  const ColumnInput in_columns = enter_columns(t, asked, head.is_trained, sums_by_itself(t, head));
  const LocalId logits = cap_logits(t, linear(t, in_columns.value, head, LocalKind::Logits, in_columns.again));
  leave_columns(t, asked, in_columns);
  const SharedSums sums = method.distils ? SharedSums{} : sum_over_vocabulary(t, logits);
  if (method.distils) {
    const bool has_chunks = t.c.recipe.loss == LossKernel::Chunked;
    if (t.c.recipe.pass == Pass::Train && t.c.recipe.objective.teacher_topk > 0)
      divergence_of_highest(t, logits);
    else if (t.c.recipe.pass == Pass::Train)
      has_chunks ? chunked_divergence(t, logits) : divergence(t, logits);
    else if (!has_chunks)
      t.cast(logits, t.c.numerics.logits, "output of the teacher");
    return;
  }
  const bool is_in_place = t.c.recipe.loss == LossKernel::InPlace && method.generates;
  if (is_in_place || t.c.framework.loss.overwrites_logits) return in_place(t, logits, sums);
  const Dtype handed = preference.upcasts_logits ? Dtype::F32 : t.c.numerics.logits;
  const LocalId output = t.cast(logits, handed, "logits as the trainer gets them");
  const LocalId first = loss_on_first(t, output);
  LocalId in = output;
  if (preference.copies_logits && t.c.recipe.rows() > 1) {  // one row without its end is contiguous
    in = like_logits(t, "logits without the last position", t.at(output).elements, handed);
    log_probs_op(t, {output}, {in}, 2.0 * double(t.at(in).bytes().count));
  }
  // of a reference, what the first of its two passes left; of the policy they are made when its log-probs are there
  const LocalId of_first_pass = t.c.recipe.pass == Pass::Train ? kNoLocal : copies_by_label(t, output);
  const LocalId saved = saved_for_log_probs(t, in);
  if (of_first_pass != kNoLocal) log_probs_op(t, {of_first_pass}, {}, 0).kernels = 0;
  const LocalId labelled = t.c.recipe.pass == Pass::Train ? copies_by_label(t, output) : kNoLocal;
  t.then_backward(log_probs_backward, {logits, preference.keeps_output ? output : kNoLocal, saved, first, labelled});
}

bool has_chunked_log_probs(const Recipe& recipe) { return recipe.loss == LossKernel::Chunked && generates(recipe); }

void chunked_log_probs(Tape& t, LocalId stream) {
  const LinearRef& head = t.c.model.head;
  const ColumnInput entered = enter_columns(t, stream, false);
  const LocalId x = entered.value;
  const std::int64_t N = t.at(x).elements / head.in;
  const std::int64_t piece = ceil_div(N * head.out, std::clamp<std::int64_t>(t.c.recipe.loss_chunks, 1, N));
  const LocalId low = like_logits(t, "logits of one chunk", piece, t.c.numerics.compute);
  const LocalId wide = like_logits(t, "chunk in fp32", piece, Dtype::F32);
  t.gemm({x}, {low, wide}, N, head.out, head.in);
  log_probs_op(t, {low, wide}, {}, 6.0 * double(N) * double(head.out));
  leave_columns(t, stream, entered);
}

void score(Tape& t, LocalId x) {
  const MethodHead kind = t.c.recipe.objective.method->head;
  if (kind == MethodHead::Pooled) {
    t.then_backward(
        [](Tape& tape, const Tape::Step& s) {
          const LocalId dx = tape.new_grad(s.ids[0]);
          log_probs_op(tape, {}, {dx}, double(tape.at(dx).bytes().count));
          tape.set_grad(s.ids[0], dx);
        },
        {x});
    return;
  }
  if (t.c.framework.preference.keeps_vocabulary_head) {
    const std::int64_t vocabulary = t.c.spec().vocab_size;
    const LocalId unused = like_logits(t, "logits that nobody reads", t.tokens() * vocabulary, t.c.numerics.compute);
    t.gemm({x}, {unused}, t.tokens(), vocabulary, t.c.spec().hidden_size);
    t.cast(unused, Dtype::F32, "logits that nobody reads, in fp32");
  }
  const LocalId scores = linear(t, x, t.c.model.head, LocalKind::Logits);
  if (t.c.framework.loss.overwrites_logits) return in_place(t, scores, {});
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local like = tape.at(s.ids[0]);
        const LocalId gradient = like_logits(tape, "gradient of the scores", like.elements, like.dtype);
        log_probs_op(tape, {}, {gradient}, 2.0 * double(like.bytes().count));
        tape.set_grad(s.ids[0], gradient);
      },
      {scores});
}

}  // namespace gpuplan

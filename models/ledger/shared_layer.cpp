// What the ranks that share a layer exchange in it: Megatron's f and g around a column and a row of products, as copies
// and sums, or as gathers and scatters where each rank has a part of the sequence between them. Sources: Shoeybi et al.
// 2019 (arXiv 1909.08053) section 3, Korthikanti et al. 2022 (arXiv 2205.05198) section 4.2.
#include "base/units.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

/// Every rank has a tower, and what joins it to the language model, whole.
const LayerSplit& split_of(const Tape& t) {
  static constexpr LayerSplit kAlone;
  return t.c.is_language() ? t.c.model.split : kAlone;
}

/// A tensor like `x`, of all tokens or of this rank's part of them.
LocalId with_all_tokens(Tape& t, LocalId x, const char* name) {
  const Local like = t.at(x);
  return t.tensor(name, like.elements * split_of(t).ways, like.dtype, like.dims, like.kind);
}
LocalId with_own_tokens(Tape& t, LocalId x, const char* name) {
  const Local like = t.at(x);
  return t.tensor(name, ceil_div(like.elements, split_of(t).ways), like.dtype, like.dims, like.kind);
}

/// The gradient that the columns made is one part of a sum over the ranks. Of trained ones the products that make the
/// weight gradients can run beside it.
template <bool AreTrained>
void sum_input_gradient(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[0], dx = t.grad(x);
  if (dx != kNoLocal) t.exchange(Exchange::AllReduce, dx, dx).goes_with_columns = AreTrained;
  t.take_back_grad(x);
}

template <bool AreTrained>
void scatter_input_gradient(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[0], partial = t.grad(s.ids[1]);
  if (partial == kNoLocal) return;
  const LocalId dx = t.new_grad(x);
  t.exchange(Exchange::ReduceScatter, partial, dx).goes_with_columns = AreTrained;
  t.add_grad(x, dx);
}

template <Exchange kBack, Axis kAxis>
void send_back(Tape& t, const Tape::Step& s) {
  const LocalId dx = t.new_grad(s.ids[0]);
  t.exchange(kBack, t.grad(s.ids[1]), dx, kAxis);
  t.add_grad(s.ids[0], dx);
}

/// Emits `forward`, whose gradient goes back by `kBack`.
template <Exchange kBack, Axis kAxis>
LocalId moved(Tape& t, LocalId x, const char* name, Exchange forward, std::int64_t elements) {
  const Local like = t.at(x);
  const LocalId y = t.tensor(name, elements, like.dtype, like.dims);
  t.exchange(forward, x, y, kAxis);
  t.then_backward(send_back<kBack, kAxis>, {x, y});
  return y;
}

}  // namespace

LayerOp& Tape::exchange(Exchange kind, LocalId from, LocalId to, Axis axis) {
  LayerOp& o = memory_op(OpKind::Exchange, {from}, {to}, 0);
  o.exchange = kind;
  o.axis = axis;
  return o;
}

void Tape::put_aside_grad(LocalId of) {
  aside_.push_back(grad(of));
  set_grad(of, kNoLocal);
}

void Tape::take_back_grad(LocalId of) {
  const LocalId own = grad(of), other = aside_.back();
  aside_.pop_back();
  set_grad(of, other);
  if (own != kNoLocal) add_grad(of, own);
}

bool sums_by_itself(const Tape& t, const LinearRef& l) {
  const LayerSplit& split = split_of(t);
  const bool is_part = (l.out_dim == Dim::QWidth || l.out_dim == Dim::KvWidth) && t.c.framework.layers.keeps_fused_qkv;
  return split.ways > 1 && !split.splits_sequence && l.cut == Cut::Column && l.is_trained && !is_part &&
         !t.adds_in_place() && t.c.framework.tensor_parallel.sums_each_column;
}

ColumnInput enter_columns(Tape& t, LocalId x, bool are_trained, bool sum_by_themselves) {
  const LayerSplit& split = split_of(t);
  if (split.ways == 1) return {x};
  if (!split.splits_sequence) {
    if (!sum_by_themselves) t.then_backward(are_trained ? sum_input_gradient<true> : sum_input_gradient<false>, {x});
    return {.value = x, .sum_by_themselves = sum_by_themselves, .is_shared = true};
  }
  const LocalId all = with_all_tokens(t, x, "input of all tokens");
  t.exchange(Exchange::AllGather, x, all);
  t.then_backward(are_trained ? scatter_input_gradient<true> : scatter_input_gradient<false>, {x, all});
  if (!t.c.framework.tensor_parallel.gathers_again || !are_trained) return {.value = all, .is_shared = true};
  t.explain_saved(x, "gathered again for the weight gradient");
  return {
      .value = all, .again = with_all_tokens(t, x, "input of all tokens, gathered again"), .own = x, .is_shared = true};
}

ColumnInput enter_columns(Tape& t, LocalId x, const LinearRef& first) {
  if (first.cut != Cut::Column) return {x};
  return enter_columns(t, x, first.is_trained, sums_by_itself(t, first));
}

LocalId with_whole_tokens(Tape& t, LocalId x, LocalId (*mixer)(Tape&, LocalId)) {
  const LayerSplit& split = split_of(t);
  if (!split.splits_sequence || t.c.linear(LinearSlot::MixOut).cut == Cut::Row) return mixer(t, x);
  const ColumnInput all = enter_columns(t, x, false);
  const LocalId y = mixer(t, all.value);
  leave_columns(t, x, all);
  return sum_row(t, y);
}

void leave_columns(Tape& t, LocalId x, const ColumnInput& entered) {
  const LayerSplit& split = split_of(t);
  if (!entered.is_shared) return;
  if (!split.splits_sequence) {
    if (!entered.sum_by_themselves)
      t.then_backward([](Tape& tape, const Tape::Step& s) { tape.put_aside_grad(s.ids[0]); }, {x});
  } else if (entered.again != kNoLocal) {
    t.then_backward(
        [](Tape& tape, const Tape::Step& s) {
          tape.exchange(Exchange::AllGather, s.ids[0], s.ids[1]).goes_with_columns = true;
        },
        {entered.own, entered.again});
  }
}

LocalId by_heads(Tape& t, LocalId x, const char* name, std::int64_t repeats) {
  return moved<Exchange::AllToAll, Axis::Cp>(t, x, name, Exchange::AllToAll, t.at(x).elements * repeats);
}

LocalId sent_to_sharers(Tape& t, LocalId x, const char* name, std::int64_t elements) {
  return moved<Exchange::AllToAll, Axis::Ep>(t, x, name, Exchange::AllToAll, elements);
}

LocalId gathered_by_sharers(Tape& t, LocalId x, const char* name) {
  return moved<Exchange::ReduceScatter, Axis::Etp>(t, x, name, Exchange::AllGather,
                                                   t.at(x).elements * t.c.model.split.expert_cut);
}

LocalId scattered_to_sharers(Tape& t, LocalId x, const char* name) {
  return moved<Exchange::AllGather, Axis::Etp>(t, x, name, Exchange::ReduceScatter,
                                               t.at(x).elements / t.c.model.split.expert_cut);
}

LocalId sum_row(Tape& t, LocalId y) {
  const LayerSplit& split = split_of(t);
  if (split.ways == 1) return y;
  if (!split.splits_sequence) {
    t.exchange(Exchange::AllReduce, y, y);
    return y;
  }
  const LocalId own = with_own_tokens(t, y, t.at(y).name);
  t.exchange(Exchange::ReduceScatter, y, own);
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dy = tape.new_grad(s.ids[0]);
        tape.exchange(Exchange::AllGather, tape.grad(s.ids[1]), dy);
        tape.set_grad(s.ids[0], dy);
      },
      {y, own});
  return own;
}

}  // namespace gpuplan

// Attention of ranks that share each sequence (context parallelism): each has the queries of its part, and the keys and
// values of the others come to it, all at once before the attention or round a ring beside it. A part of the keys gives
// a part of the output; the parts are merged by their log-sum-exps. Sources: Liu et al. 2023 (arXiv 2310.01889); torch
// distributed/tensor/experimental/_context_parallel/_attention.py @v2.9.0 (_templated_ring_attention and its backward,
// _SDPAMerger: sums in fp32, gradients of keys and values round a ring in fp32); Transformer Engine
// pytorch/attention/dot_product_attention/context_parallel.py @d0067d0d (AttnFuncWithCPAndKVP2P: the buffers and
// outputs of all steps live until the last; AttnFuncWithCPAndKVAllGather). By heads: Jacobs et al. 2023 (arXiv
// 2309.14509); volcengine/verl verl/models/transformers/monkey_patch.py @b178a3cd (_ulysses_flash_attention_forward:
// queries, keys and values each in an exchange, KV heads repeated where they are fewer than ranks, the output back).
#include <algorithm>

#include "base/narrow.h"
#include "base/units.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

const FrameworkContextParallel& trainer_of(const Tape& t) { return t.c.framework.context_parallel; }
std::int64_t ways_of(const Tape& t) { return t.c.model.split.context_ways; }
bool is_ring(const Tape& t) { return t.c.model.split.context_exchange == ContextExchange::Ring; }
bool rings_gradients(const Tape& t) { return is_ring(t) || trainer_of(t).rings_gradients; }
Dtype sums_in(Tape& t, LocalId like) { return trainer_of(t).accumulates_fp32 ? Dtype::F32 : t.at(like).dtype; }

/// A ring sends one buffer while it fills another.
constexpr std::int64_t kRingBuffers = 2;

std::int64_t own_elements(Tape& t, LocalId k, LocalId v) { return t.at(k).elements + t.at(v).elements; }

/// Packs this rank's keys and values, and exchanges them for the others'.
void exchange_keys(Tape& t, ContextParts& parts, LocalId k, LocalId v, std::int64_t buffers) {
  const std::int64_t own = own_elements(t, k, v);
  const Dtype dtype = t.at(k).dtype;
  parts.own = t.scratch("k and v in one piece", own, dtype);
  parts.others = t.scratch("k and v of the other ranks", own * buffers, dtype);
  t.memory_op(OpKind::Copy, {k, v}, {parts.own, parts.partial}, 2.0 * double(bytes_of(own, dtype).count));
  LayerOp& o = t.exchange(Exchange::AllGather, parts.own, parts.others, Axis::Cp);
  o.message = bytes_of(own * ways_of(t), dtype);
  o.is_beside = is_ring(t);
}

void exchange_gradients(Tape& t, const ContextParts& parts, std::int64_t own) {
  LayerOp& o = t.exchange(Exchange::ReduceScatter, parts.partial, parts.summed, Axis::Cp);
  o.message = bytes_of(own * ways_of(t), t.at(parts.partial).dtype);
  o.is_beside = rings_gradients(t);
}

}  // namespace

static bool exchanges_heads(const Tape& t) {
  return t.c.is_language() && ways_of(t) > 1 && t.c.model.split.context_exchange == ContextExchange::Heads;
}

bool shares_sequences(const Tape& t) { return t.c.is_language() && ways_of(t) > 1 && !exchanges_heads(t); }

LocalId attention_by_heads(Tape& t, LocalId q, LocalId k, LocalId v, LocalId fused, bool is_causal) {
  if (!exchanges_heads(t)) return attention(t, q, k, v, fused, is_causal);
  const std::int64_t repeats = std::max<std::int64_t>(1, ways_of(t) / t.c.spec().num_key_value_heads);
  const LocalId own_q = by_heads(t, q, "q of some heads");
  const LocalId own_k = by_heads(t, k, "k of some heads", repeats);
  const LocalId own_v = k == v ? own_k : by_heads(t, v, "v of some heads", repeats);
  return by_heads(t, attention(t, own_q, own_k, own_v, kNoLocal, is_causal), "attention output of all heads");
}

ContextParts begin_context_forward(Tape& t, LocalId k, LocalId v, std::int64_t output_elements) {
  ContextParts parts;
  if (!shares_sequences(t)) return parts;
  const bool keeps = trainer_of(t).keeps_parts;
  exchange_keys(t, parts, k, v, is_ring(t) && !keeps ? kRingBuffers : ways_of(t));
  parts.outputs = t.scratch("outputs of single parts", output_elements * (keeps ? ways_of(t) : 1), t.at(k).dtype);
  parts.merged = t.scratch("sum of the parts", output_elements, sums_in(t, k));
  return parts;
}

void attend_in_parts(Tape& t, const ContextParts& parts, LayerOp& attention) {
  if (parts.others == kNoLocal) return;
  attention.kernels = narrow<std::uint32_t>(attention.kernels * ways_of(t));
  attention.ends_beside = is_ring(t) || (parts.partial != kNoLocal && rings_gradients(t));
}

void finish_context_forward(Tape& t, const ContextParts& parts) {
  if (parts.others == kNoLocal) return;
  const Local merged = t.at(parts.merged);
  const std::int64_t kernels = trainer_of(t).merge_kernels, merges = ways_of(t) - 1;
  LocalId part = kNoLocal, difference = kNoLocal, weighted = kNoLocal;
  if (trainer_of(t).accumulates_fp32) {
    part = t.scratch("a part in fp32", merged.elements, Dtype::F32);
    difference = t.scratch("its difference to the sum", merged.elements, Dtype::F32);
    weighted = t.scratch("that, weighted", merged.elements, Dtype::F32);
  }
  // each kernel reads two tensors and writes one
  LayerOp& o = t.memory_op(OpKind::Add, {parts.merged, parts.outputs}, {part, difference, weighted},
                           3.0 * double(kernels * merges) * double(merged.bytes().count));
  o.kernels = narrow<std::uint32_t>(kernels * merges);
}

ContextParts begin_context_backward(Tape& t, LocalId q, LocalId k, LocalId v) {
  ContextParts parts;
  if (!shares_sequences(t)) return parts;
  const std::int64_t own = own_elements(t, k, v);
  // of a ring: what is sent, what is received, and what this step adds
  parts.partial = t.scratch("gradients of k and v of the parts",
                            own * (rings_gradients(t) ? kRingBuffers + 1 : ways_of(t)), sums_in(t, k));
  parts.summed = t.scratch("gradients of k and v from the other ranks", own, sums_in(t, k));
  exchange_keys(t, parts, k, v, is_ring(t) ? kRingBuffers : ways_of(t));
  if (rings_gradients(t)) exchange_gradients(t, parts, own);
  parts.queries = t.scratch("gradient of the queries of the parts", t.at(q).elements, sums_in(t, q));
  return parts;
}

void finish_context_backward(Tape& t, const ContextParts& parts, LocalId dk, LocalId dv) {
  if (parts.others == kNoLocal) return;
  const std::int64_t own = own_elements(t, dk, dv);
  if (!rings_gradients(t)) exchange_gradients(t, parts, own);
  const double bytes = double(own * (size_of(t.at(parts.summed).dtype) + size_of(t.at(dk).dtype)));
  t.memory_op(OpKind::Copy, {parts.summed, parts.partial}, {dk, dv}, bytes);
}

}  // namespace gpuplan

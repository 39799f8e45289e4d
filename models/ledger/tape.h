// Records the forward ops of a unit and replays them backwards. Components (norm, linear, attention, …) call
// `then_backward` in forward order; `unwind` runs the recorded steps in reverse, each emitting its backward ops. A
// gradient is a local like any other; a second contribution becomes a temporary that is added in place, as autograd's
// input buffers do.
#pragma once

#include <vector>

#include "models/ledger.h"

namespace gpuplan {

class Tape {
 public:
  /// Clears `graph` and defines its slots: the unit's input, output and their gradients in the residual stream's dtype.
  Tape(LayerGraph& graph, const LedgerContext& context);

  const LedgerContext& c;

  std::int64_t tokens() const { return c.tokens(); }
  Local& at(LocalId id) { return graph_.locals[id]; }

  /// A new tensor. Dims are named for reports; `elements` is their product.
  LocalId tensor(const char* name, std::int64_t elements, Dtype dtype, std::array<Dim, 4> dims,
                 LocalKind kind = LocalKind::Activation);
  /// The usual shape [Batch, Seq, width].
  LocalId wide(const char* name, std::int64_t width, Dim dim, Dtype dtype, LocalKind kind = LocalKind::Activation);
  /// [Batch, Seq, width] between layers: of this rank's part of the sequence where ranks divide it.
  LocalId stream(const char* name, std::int64_t width, Dtype dtype);
  /// A tensor that is no activation: counted as workspace, alive from its first write to its last use like any local.
  LocalId scratch(const char* name, std::int64_t elements, Dtype dtype);

  LayerOp& op(OpKind kind, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes);
  /// A memory-bound op that moves `traffic` bytes at least.
  LayerOp& memory_op(OpKind kind, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                     double traffic);
  /// Exchanges what this rank has for what it gets from the ranks that share the layer, or along another axis.
  LayerOp& exchange(Exchange kind, LocalId from, LocalId to, Axis axis = Axis::Tp);
  /// A matmul [m, k] x [k, n].
  LayerOp& gemm(std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, std::int64_t m,
                std::int64_t n, std::int64_t k);

  /// Says why backward keeps `id`, where it does (it reads it); shown by --explain. The first reason stays.
  void explain_saved(LocalId id, const char* why) {
    if (id != kNoLocal && *at(id).why == 0) at(id).why = why;
  }

  // Backward: a step is a function and up to ten locals and one linear, so that recording costs nothing.
  struct Step;
  using Backward = void (*)(Tape&, const Step&);
  struct Step {
    Backward run;
    std::array<LocalId, 10> ids;
    const LinearRef* linear;
  };
  void then_backward(Backward run, std::array<LocalId, 10> ids, const LinearRef* linear = nullptr) {
    steps().push_back({run, ids, linear});
  }
  void unwind();
  /// Makes what was recorded so far run without gradients.
  void forget() { steps().clear(); }

  LocalId grad(LocalId of) const { return grads()[of]; }
  void set_grad(LocalId of, LocalId gradient);
  /// The local that a backward op shall write as (a contribution to) the gradient of `of`.
  LocalId new_grad(LocalId of);
  /// Call after the op that wrote `contribution`: makes it the gradient of `of`, or adds it to the one there is.
  void add_grad(LocalId of, LocalId contribution);

  /// Contributions from here on are summed apart, until take_back_grad() adds them to what there was.
  void put_aside_grad(LocalId of);
  void take_back_grad(LocalId of);

  LocalId cast(LocalId from, Dtype dtype, const char* name);

  /// Products and norms add to the gradient that is there; weight gradients go straight to their buffer.
  bool adds_in_place() const { return c.framework.layers.accumulates_in_place; }

 private:
  static std::vector<Step>& steps();
  static std::vector<LocalId>& grads();

  LayerGraph& graph_;
  std::vector<LocalId> aside_;
  bool is_backward_ = false;
};

/// Keys and values of the other ranks that share a sequence, during an attention (models/ledger/context_attention.cpp).
struct ContextParts {
  LocalId own = kNoLocal, others = kNoLocal;      // this rank's in one piece, and those that come
  LocalId outputs = kNoLocal, merged = kNoLocal;  // forward: of single parts, and their sum
  LocalId partial = kNoLocal, summed = kNoLocal;  // backward: gradients of keys and values, made here and received
  LocalId queries = kNoLocal;                     // … of queries
};
bool shares_sequences(const Tape& tape);
/// Attention between two exchanges: from a part of the positions of every head to every position of a part of the
/// heads, and back (Ulysses). One rank, and other ways of sharing: attention itself.
LocalId attention_by_heads(Tape& tape, LocalId q, LocalId k, LocalId v, LocalId fused, bool is_causal);
/// begin_* goes before the attention op, which then stands for one kernel after another, finish_* behind it.
ContextParts begin_context_forward(Tape& tape, LocalId k, LocalId v, std::int64_t output_elements);
ContextParts begin_context_backward(Tape& tape, LocalId q, LocalId k, LocalId v);
void attend_in_parts(Tape& tape, const ContextParts& parts, LayerOp& attention);
void finish_context_forward(Tape& tape, const ContextParts& parts);
void finish_context_backward(Tape& tape, const ContextParts& parts, LocalId dk, LocalId dv);

/// The input of linears that ranks share by their outputs.
struct ColumnInput {
  LocalId value;                   // of all tokens
  LocalId again = kNoLocal;        // what stands for it in backward where it is gathered again
  LocalId own = kNoLocal;          // then: what it is gathered of
  bool sum_by_themselves = false;  // each column sums its own gradient of x
  bool is_shared = false;          // false: every rank has the linears whole, or is alone
};
/// Says whether a column sums its gradient of its input by itself, beside the product of its weight gradient
/// (FrameworkTensorParallel::sums_each_column). Parts of one product of q, k and v do not.
bool sums_by_itself(const Tape& tape, const LinearRef& l);
/// Begins and ends the columns that read `x`; in between they read what this returns. One rank: x.
ColumnInput enter_columns(Tape& tape, LocalId x, bool are_trained, bool sum_by_themselves = false);
void leave_columns(Tape& tape, LocalId x, const ColumnInput& entered);
/// The same of linears of which `first` is one, which every rank may have whole.
ColumnInput enter_columns(Tape& tape, LocalId x, const LinearRef& first);
/// Gives what `mixer` makes of x. Where every rank has it whole, of all tokens: those are gathered in front of it, and
/// each rank's own come out of it.
LocalId with_whole_tokens(Tape& tape, LocalId x, LocalId (*mixer)(Tape&, LocalId));
/// Gives a tensor like `x`, `repeats` times as large: every rank that shares the sequence has sent each other one what
/// is meant for it.
LocalId by_heads(Tape& tape, LocalId x, const char* name, std::int64_t repeats = 1);
/// The same of ranks that share the experts: `elements` came.
LocalId sent_to_sharers(Tape& tape, LocalId x, const char* name, std::int64_t elements);
/// Gives what all ranks that share each expert have, and a rank's own part of the sum of what they made.
LocalId gathered_by_sharers(Tape& tape, LocalId x, const char* name);
LocalId scattered_to_sharers(Tape& tape, LocalId x, const char* name);
/// Gives what ranks that share a linear by its inputs made, summed.
LocalId sum_row(Tape& tape, LocalId y);
/// Adapters whose factors are both cut (AdapterSplit::Gathered): base output plus theirs.
bool gathers_adapters(const Tape& tape, const LinearRef& linear);
LocalId add_gathered_adapter(Tape& tape, LocalId x, const LinearRef& linear, LocalId base);
/// The gradient of a weight [out, in] over `m` rows: written into the unit's gradient buffer, through temporaries where
/// autograd makes them.
LayerOp& weight_gradient(Tape& tape, std::initializer_list<LocalId> reads, std::int64_t m, std::int64_t in,
                         std::int64_t out, std::uint8_t weight, bool is_cast, Dtype stored,
                         WeightUse use = WeightUse::Tensor);

// Components: each emits its forward ops, returns its output and records its backward.
/// `y` may be a slot that receives the result.
LocalId norm(Tape& tape, LocalId x, const char* name, LocalId y = kNoLocal, NormSlot slot = NormSlot::None);
/// `remade`: what stands for x in backward where a fused kernel makes it again instead of keeping it.
LocalId linear(Tape& tape, LocalId x, const LinearRef& linear, LocalKind output_kind = LocalKind::Activation,
               LocalId remade = kNoLocal);
/// `fused_qkv`: the buffer that v is a view of, or none.
LocalId attention(Tape& tape, LocalId q, LocalId k, LocalId v, LocalId fused_qkv, bool is_causal);
/// q, k, v from x and the output projection: plain, latent (DeepSeek), or over the encoder's output.
LocalId self_attention(Tape& tape, LocalId x);
LocalId cross_attention(Tape& tape, LocalId x);
/// Gives what the layer's tokens are mixed by: attention or a recurrence.
LocalId token_mixer(Tape& tape, LocalId x);
LocalId mamba1(Tape& tape, LocalId x);
LocalId mamba2(Tape& tape, LocalId x);
LocalId delta_net(Tape& tape, LocalId x);
LocalId short_convolution(Tape& tape, LocalId x);
LocalId rope(Tape& tape, LocalId x, std::int64_t width, Dim dim, const char* name);
LocalId mlp(Tape& tape, LocalId x);
/// One MLP from its linears, gated if it has a gate.
LocalId feed_forward(Tape& tape, LocalId x, const LinearRef& gate, const LinearRef& up, const LinearRef& gate_up,
                     const LinearRef& down);
/// Kernels of an op that an expert's product has around it, of `rows` in all: as many as experts that are looped over.
void loop_over_experts(LayerOp& op, const LinearRef& expert, std::int64_t rows, std::int64_t kernels_of_one = 1);
/// Router, experts on the tokens sent to them, shared expert.
LocalId mixture_of_experts(Tape& tape, LocalId x);
/// An activation function of its own, as in an MLP without a gate.
LocalId activated(Tape& tape, LocalId x);
/// A cast through which gradients flow back (autocast in front of an op).
LocalId convert(Tape& tape, LocalId x, Dtype dtype, const char* name);
/// `elements` that are made of `num_read` of x, moved and nothing else.
LocalId copied(Tape& tape, LocalId x, const char* name, std::int64_t elements, std::int64_t num_read);
LocalId dropout(Tape& tape, LocalId x, double probability);
/// x times a learned number or vector.
LocalId gated_branch(Tape& tape, LocalId x);
/// The layer's part of the second embedding: the stream, made narrow, times that part, made wide again and normalised.
/// Source: transformers modeling_gemma4.py (Gemma4TextDecoderLayer), modeling_gemma3n.py.
LocalId layer_embedding(Tape& tape, LocalId x);
/// Gemma 2's cap * tanh(logits / cap), where the model has it.
LocalId cap_logits(Tape& tape, LocalId logits);
/// Holds what ranks that share the vocabulary know of each token together; nothing where they do not share it.
struct SharedSums {
  LocalId largest = kNoLocal, label = kNoLocal, exponentials = kNoLocal;
};
/// They exchange three numbers per token: the largest logit, the label's, and the sum of exponentials. Source:
/// NVIDIA/Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
SharedSums sum_over_vocabulary(Tape& tape, LocalId logits);
/// The head's product and what a method that compares answers makes of it: log-probs of the labels. Splits forward
/// and backward: passes of other models stand between them.
void log_probs(Tape& tape, LocalId x);
/// The same of a method that generates, in chunks whose logits exist one after the other.
bool has_chunked_log_probs(const Recipe& recipe);
void chunked_log_probs(Tape& tape, LocalId x);
/// A few numbers per row in the place of the vocabulary, or nothing.
void score(Tape& tape, LocalId x);
/// A layer that works on one of several streams and corrects the others, and the projection of all of them to one.
void layer_of_streams(Tape& tape);
LocalId joined_streams(Tape& tape);
/// A view or copy of [Batch, Seq, width] of x (a split); its gradient is written into the gradient of x. `is_own`: of
/// the tokens that the rank has between products.
LocalId part(Tape& tape, LocalId x, const char* name, std::int64_t width, Dim dim, bool is_own = false);
/// y = x + branch; the gradient of y flows to both without a copy. `y` may be a slot.
void residual_add(Tape& tape, LocalId x, LocalId branch, LocalId y);

}  // namespace gpuplan

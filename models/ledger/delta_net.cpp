// A gated delta net through flash-linear-attention's kernels and causal_conv1d, which transformers uses where they are
// installed. The scan keeps normalised queries and keys, values, gates and the inverses of its chunks' triangular
// systems; the states between chunks are made again in backward. Queries and keys are expanded to the value heads, as
// transformers does for kernels without grouped heads. Sources: transformers modeling_qwen3_next.py
// (Qwen3NextGatedDeltaNet), modeling_qwen3_5.py; fla ops/gated_delta_rule/chunk.py (ChunkGatedDeltaRuleFunction),
// modules/l2norm.py, modules/fused_norm_gate.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "models/ledger/recurrence.h"

#include "base/narrow.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kNetChunk = 64;  // tokens, of fla's kernels

/// FLOPs per token of the products that the kernels are made of, all value heads together.
struct NetProducts {
  double keys_in_chunk, values_in_chunk, with_state;
};

NetProducts net_products(const DeltaNetSpec& d, std::int64_t length) {
  const double chunk = double(std::min(kNetChunk, length)), heads = double(d.num_value_heads);
  return {.keys_in_chunk = 2 * chunk * heads * double(d.key_dim),
          .values_in_chunk = 2 * chunk * heads * double(d.value_dim),
          .with_state = 2 * heads * double(d.key_dim) * double(d.value_dim)};
}

/// Widths of what the scan works on, and elements of the states between chunks.
struct NetSizes {
  std::int64_t heads, decays, keys, values, inverses, states;
};

NetSizes net_sizes(const Tape& t) {
  const DeltaNetSpec& d = t.c.spec().delta_net;
  const std::int64_t length = t.c.attention_length();
  return {.heads = d.num_value_heads,
          .decays = d.decays(),
          .keys = d.num_value_heads * d.key_dim,
          .values = d.value_width(),
          .inverses = d.num_value_heads * kNetChunk,
          .states = t.c.attention_batch() * ((length + kNetChunk - 1) / kNetChunk) * d.state_elements()};
}

double moved_bytes(Tape& t, std::initializer_list<LocalId> locals) {
  double sum = 0;
  for (const LocalId id : locals) sum += double(t.at(id).bytes().count);
  return sum;
}

/// One kernel that reads and writes each of its tensors once.
LayerOp& net_kernel(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                    double flops_per_token) {
  return scan_op(t, reads, writes, flops_per_token * double(t.tokens()), moved_bytes(t, reads) + moved_bytes(t, writes),
                 1);
}

LocalId net_scratch(Tape& t, const char* name, std::int64_t width) {
  return t.scratch(name, t.tokens() * width, t.c.numerics.compute);
}

struct NetProjections {
  LocalId qkv, z, beta, decay;
};

NetProjections project_net(Tape& t, LocalId x) {
  const DeltaNetSpec& d = t.c.spec().delta_net;
  const auto l = [&](LinearSlot slot) -> const LinearRef& { return t.c.linear(slot); };
  NetProjections p{};
  const ColumnInput in = enter_columns(t, x, l(LinearSlot::MixIn));
  const auto column = [&](LinearSlot slot, const char* name) {
    return all_positions(t, linear(t, in.value, l(slot), LocalKind::Activation, in.again), name);
  };
  const LocalId first = column(LinearSlot::MixIn, "queries, keys, values of some heads");
  if (d.has_fused_projections) {  // grouped by key head: queries, keys, values and z are copied apart
    p.qkv = part(t, first, "queries, keys and values", d.conv_channels(), Dim::QWidth);
    p.z = part(t, first, "gate z", d.value_width(), Dim::QWidth);
    const LocalId second = column(LinearSlot::MixBeta, "beta and decay of some heads");
    p.beta = part(t, second, "beta before its sigmoid", d.num_value_heads, Dim::QHeads);
    p.decay = part(t, second, "decay before its softplus", d.num_value_heads, Dim::QHeads);
  } else {
    p.qkv = first;
    p.z = column(LinearSlot::MixGate, "gate z of some heads");
    p.beta = column(LinearSlot::MixBeta, "beta of some heads");
    p.decay = column(LinearSlot::MixDecay, "decay of some heads");
  }
  leave_columns(t, x, in);
  const Dtype low = t.c.numerics.compute;
  p.qkv = convert(t, p.qkv, low, "queries, keys and values in 16 bit");
  p.z = convert(t, p.z, low, "gate z in 16 bit");
  return p;
}

struct NetGates {
  LocalId beta, decay;
};

/// beta = sigmoid(b); decay = -exp(A_log) softplus(a + dt_bias), written out in fp32.
NetGates make_net_gates(Tape& t, LocalId b, LocalId a) {
  const std::int64_t heads = t.c.spec().delta_net.num_value_heads;
  const LocalId beta = t.wide("beta", heads, Dim::QHeads, t.at(b).dtype);
  t.memory_op(OpKind::Activation, {b}, {beta}, 2.0 * double(t.at(beta).bytes().count));
  const LocalId shifted = t.wide("time steps in fp32", heads, Dim::QHeads, Dtype::F32);
  const LocalId steps = t.wide("softplus of the time steps", heads, Dim::QHeads, Dtype::F32);
  const LocalId decay = t.wide("decay", heads, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Activation, {a}, {shifted, steps, decay}, 6.0 * double(t.at(decay).bytes().count)).kernels = 4;
  t.explain_saved(beta, "sigmoid and scan backward");
  t.explain_saved(shifted, "softplus backward");
  t.explain_saved(steps, "gradient of A_log");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId db = tape.new_grad(s.ids[0]), da = tape.new_grad(s.ids[1]);
        tape.memory_op(OpKind::Activation, {tape.grad(s.ids[2]), s.ids[2]}, {db},
                       3.0 * double(tape.at(db).bytes().count));
        LayerOp& o = tape.memory_op(OpKind::Activation, {tape.grad(s.ids[5]), s.ids[3], s.ids[4]}, {da},
                                    6.0 * double(tape.at(s.ids[5]).bytes().count));
        o.kernels = 5;
        o.is_weight_gradient = tape.c.trains_norms();
        tape.add_grad(s.ids[0], db);
        tape.add_grad(s.ids[1], da);
      },
      {b, a, beta, shifted, steps, decay});
  return {beta, decay};
}

struct NetHeads {
  LocalId q, k, v;
};

/// Heads apart: queries and keys expanded to the value heads and normalised, values made contiguous.
NetHeads split_heads(Tape& t, LocalId convolved) {
  const NetSizes z = net_sizes(t);
  const DeltaNetSpec& d = t.c.spec().delta_net;
  const Dtype low = t.c.numerics.compute;
  LocalId from = convolved;
  if (d.num_value_heads > d.num_key_heads) {
    from = net_scratch(t, "queries and keys, expanded", 2 * z.keys);
    t.memory_op(OpKind::RepeatKv, {convolved}, {from}, 2.0 * double(t.at(from).bytes().count)).kernels = 2;
  }
  const LocalId q = t.wide("queries, normalised", z.keys, Dim::QWidth, low);
  const LocalId k = t.wide("keys, normalised", z.keys, Dim::KvWidth, low);
  const LocalId norms = t.wide("norms of queries and keys", 2 * z.heads, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Norm, {from}, {q, k, norms}, 2 * moved_bytes(t, {q, k})).kernels = 2;
  const LocalId v = t.wide("values, contiguous", z.values, Dim::KvWidth, low);
  t.memory_op(OpKind::Copy, {convolved}, {v}, 2.0 * double(t.at(v).bytes().count));
  t.explain_saved(q, "scan backward");
  t.explain_saved(k, "scan backward");
  t.explain_saved(v, "scan backward");
  t.explain_saved(norms, "norm backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]), dq = tape.grad(s.ids[1]), dk = tape.grad(s.ids[2]);
        tape.memory_op(OpKind::Norm, {dq, dk, s.ids[1], s.ids[2], s.ids[4]}, {dq, dk}, 3 * moved_bytes(tape, {dq, dk}))
            .kernels = 2;
        tape.memory_op(OpKind::Copy, {dq, dk, tape.grad(s.ids[3])}, {dx},
                       moved_bytes(tape, {dq, dk, tape.grad(s.ids[3]), dx}))
            .kernels = 3;
        tape.add_grad(s.ids[0], dx);
      },
      {convolved, q, k, v, norms});
  return {q, k, v};
}

enum : std::size_t { kNetQ, kNetK, kNetV, kNetBeta, kNetDecay, kNetSums, kNetInverses, kNetOut };

/// The states at the chunks' ends and the corrected values. Forward and again in backward.
struct NetStates {
  LocalId states, corrected;
};

NetStates make_net_states(Tape& t, LocalId k, LocalId w, LocalId u, LocalId sums) {
  const NetSizes z = net_sizes(t);
  NetStates out{t.scratch("states between chunks", z.states, t.c.numerics.compute),
                net_scratch(t, "corrected values", z.values)};
  net_kernel(t, {k, w, u, sums}, {out.states, out.corrected},
             2 * net_products(t.c.spec().delta_net, t.c.attention_length()).with_state);
  return out;
}

void net_scan_backward(Tape& t, const Tape::Step& s) {
  const NetSizes z = net_sizes(t);
  const NetProducts p = net_products(t.c.spec().delta_net, t.c.attention_length());
  const LocalId q = s.ids[kNetQ], k = s.ids[kNetK], v = s.ids[kNetV], beta = s.ids[kNetBeta], sums = s.ids[kNetSums],
                inverses = s.ids[kNetInverses], dout = t.grad(s.ids[kNetOut]);
  const LocalId w = net_scratch(t, "keys of the triangular system", z.keys),
                u = net_scratch(t, "values of the triangular system", z.values);
  net_kernel(t, {k, v, beta, inverses, sums}, {w, u}, p.keys_in_chunk + p.values_in_chunk);
  const NetStates made = make_net_states(t, k, w, u, sums);
  const LocalId dlocal = net_scratch(t, "gradient of corrected values, within chunks", z.values);
  net_kernel(t, {q, k, sums, dout}, {dlocal}, p.keys_in_chunk + p.values_in_chunk);
  const LocalId dstates = t.scratch("gradients of the states", z.states, t.c.numerics.compute),
                du = net_scratch(t, "gradient of corrected values", z.values);
  net_kernel(t, {q, k, w, sums, dout, dlocal}, {dstates, du}, 3 * p.with_state);
  const LocalId dq = t.new_grad(q), dk = t.new_grad(k), dw = net_scratch(t, "gradient of the system's keys", z.keys),
                dsums = t.scratch("gradient of the decays' sums", t.tokens() * z.decays, Dtype::F32);
  net_kernel(t, {q, k, made.corrected, made.states, dout, dstates}, {dq, dk, dw, dsums},
             3 * p.with_state + 3 * p.keys_in_chunk + p.values_in_chunk);
  const LocalId dv = t.new_grad(v), dbeta = t.new_grad(beta), more = net_scratch(t, "further gradient of keys", z.keys),
                ddecay = t.new_grad(s.ids[kNetDecay]);
  net_kernel(t, {k, v, beta, inverses, dw, du}, {dv, dbeta, more}, 4 * p.keys_in_chunk + 2 * p.values_in_chunk);
  t.memory_op(OpKind::Add, {dk, more}, {dk}, 3.0 * double(t.at(dk).bytes().count));
  t.memory_op(OpKind::Scan, {dsums}, {ddecay}, 2.0 * double(t.at(ddecay).bytes().count));
  t.add_grad(q, dq);
  t.add_grad(k, dk);
  t.add_grad(v, dv);
  t.add_grad(beta, dbeta);
  t.add_grad(s.ids[kNetDecay], ddecay);
}

/// Kimi's kernels keep the products of queries and keys within the chunks too. Source: fla-org/flash-linear-attention
/// fla/ops/kda/chunk.py (ChunkKDAFunction: Aqk beside Akk).
void keep_scores(Tape& t, const NetHeads& in) {
  const LocalId scores = t.wide("products within chunks", net_sizes(t).inverses, Dim::Chunk, t.c.numerics.compute);
  t.memory_op(OpKind::Copy, {in.q, in.k}, {scores}, double(t.at(scores).bytes().count));
  t.explain_saved(scores, "scan backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        tape.memory_op(OpKind::Copy, {s.ids[0]}, {}, double(tape.at(s.ids[0]).bytes().count));
      },
      {scores});
}

LocalId net_scan(Tape& t, const NetHeads& in, const NetGates& gates) {
  const NetSizes z = net_sizes(t);
  const NetProducts p = net_products(t.c.spec().delta_net, t.c.attention_length());
  const Dtype low = t.c.numerics.compute;
  const LocalId sums = t.wide("sums of the decays within chunks", z.decays, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Scan, {gates.decay}, {sums}, 2.0 * double(t.at(sums).bytes().count));
  const LocalId inverses = t.wide("inverses of the chunks' systems", z.inverses, Dim::Chunk, low);
  const LocalId w = net_scratch(t, "keys of the triangular system", z.keys),
                u = net_scratch(t, "values of the triangular system", z.values);
  net_kernel(t, {in.k, in.v, gates.beta, sums}, {inverses, w, u}, 2 * p.keys_in_chunk + p.values_in_chunk).kernels = 2;
  const NetStates made = make_net_states(t, in.k, w, u, sums);
  const LocalId out = t.wide("output of the scan", z.values, Dim::QWidth, low);
  net_kernel(t, {in.q, in.k, made.corrected, made.states, sums}, {out},
             p.with_state + p.keys_in_chunk + p.values_in_chunk);
  t.explain_saved(sums, "scan backward");
  t.explain_saved(inverses, "scan backward");
  if (t.c.spec().delta_net.gate_rank > 0) keep_scores(t, in);
  t.then_backward(net_scan_backward, {in.q, in.k, in.v, gates.beta, gates.decay, sums, inverses, out});
  return out;
}

/// Holds what torch_chunk_gated_delta_rule moves, launches and keeps beside the products, in fp32. A triangular system
/// of 64 rows per head and chunk is solved row by row: row i reads and writes copies of the i x i block before it, 20
/// i^2 bytes forward, and backward makes a gradient as large as all systems for each of three slices, 20 bytes a value.
/// The chunks follow each other in Python, and each writes a slice of the output, of which backward copies all.
struct TorchLoops {
  double forward_bytes, backward_bytes;
  std::int64_t rows_kept;  // copies of blocks, values per token and head
  std::uint32_t forward_kernels, backward_kernels;
};

TorchLoops torch_loops(const Tape& t) {
  const NetSizes z = net_sizes(t);
  constexpr double kRows = double(kNetChunk - 1), kSquares = kRows * double(kNetChunk) * double(2 * kNetChunk - 1) / 6;
  const auto tokens = double(t.tokens()), heads = double(z.heads);
  const auto chunks = double((t.c.attention_length() + kNetChunk - 1) / kNetChunk);
  const double systems = tokens * heads * double(kNetChunk);     // values
  const double widths = tokens * double(2 * z.keys + z.values);  // of queries, keys and values
  const double states = double(z.states), outputs = tokens * double(z.values);
  const double around = 24 * widths + 5 * 8 * systems + 32 * widths + 24 * states;
  return {.forward_bytes = around + 20 * kSquares * systems / double(kNetChunk * kNetChunk),
          .backward_bytes = 2 * around + 3 * 20 * kRows * systems + 8 * chunks * outputs,
          .rows_kept = std::int64_t(kSquares) / kNetChunk,
          .forward_kernels = narrow<std::uint32_t>(std::llround(40 + 6 * kRows + 14 * chunks)),
          .backward_kernels = narrow<std::uint32_t>(std::llround(90 + 15 * kRows + 35 * chunks))};
}

void products_in_fp32(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                      double times) {
  const NetProducts p = net_products(t.c.spec().delta_net, t.c.attention_length());
  LayerOp& o = t.gemm(reads, writes, t.tokens(), kNetChunk, kNetChunk);
  o.flops = times * double(t.tokens()) * (3 * p.keys_in_chunk + 2 * p.values_in_chunk + 3 * p.with_state);
  o.is_fp32 = true;
}

/// The scan without flash-linear-attention. Source: transformers modeling_qwen3_next.py @v5.15.0.
LocalId net_scan_in_torch(Tape& t, const NetHeads& in, const NetGates& gates) {
  const NetSizes z = net_sizes(t);
  const TorchLoops loops = torch_loops(t);
  const std::array<Dim, 4> dims{Dim::Batch, Dim::Seq, Dim::Count, Dim::Count};
  const LocalId kept = t.tensor("queries, keys, values and systems in fp32",
                                t.tokens() * (3 * z.keys + 2 * z.values + 4 * z.inverses), Dtype::F32, dims),
                rows =
                    t.tensor("rows of the chunks' systems", t.tokens() * z.heads * loops.rows_kept, Dtype::F32, dims),
                out = t.wide("output of the scan", z.values, Dim::QWidth, t.c.numerics.compute);
  t.memory_op(OpKind::Scan, {in.q, in.k, in.v, gates.beta, gates.decay}, {kept, rows}, loops.forward_bytes).kernels =
      loops.forward_kernels;
  products_in_fp32(t, {kept, rows}, {out}, 1);
  t.explain_saved(kept, "scan backward");
  t.explain_saved(rows, "scan backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const TorchLoops own = torch_loops(tape);
        const auto [q, k, v, beta, decay] = std::tuple{s.ids[0], s.ids[1], s.ids[2], s.ids[3], s.ids[4]};
        const LocalId dq = tape.new_grad(q), dk = tape.new_grad(k), dv = tape.new_grad(v), dbeta = tape.new_grad(beta),
                      ddecay = tape.new_grad(decay);
        products_in_fp32(tape, {tape.grad(s.ids[7]), s.ids[5], s.ids[6]}, {dq, dk, dv}, 2);
        tape.memory_op(OpKind::Scan, {dq, dk, dv, s.ids[5], s.ids[6]}, {dbeta, ddecay}, own.backward_bytes).kernels =
            own.backward_kernels;
        for (std::size_t i = 0; i < 5; ++i) tape.add_grad(s.ids[i], std::array{dq, dk, dv, dbeta, ddecay}[i]);
      },
      {in.q, in.k, in.v, gates.beta, gates.decay, kept, rows, out});
  return out;
}

/// RMS norm per head, times silu(z), in one kernel.
LocalId gated_net_norm(Tape& t, LocalId x, LocalId z) {
  const Local like = t.at(x);
  const double bytes = double(like.bytes().count);
  const LocalId y = t.tensor("normalised and gated", like.elements, like.dtype, like.dims);
  const LocalId stats = t.wide("statistics of the norm", net_sizes(t).heads, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Norm, {x, z}, {y, stats}, 3 * bytes);
  t.explain_saved(x, "norm backward");
  t.explain_saved(z, "norm backward");
  t.explain_saved(stats, "norm backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]), dz = tape.new_grad(s.ids[1]);
        LayerOp& o = tape.memory_op(OpKind::Norm, {tape.grad(s.ids[2]), s.ids[0], s.ids[1], s.ids[3]}, {dx, dz},
                                    5.0 * double(tape.at(dx).bytes().count));
        o.is_weight_gradient = tape.c.trains_norms();
        tape.add_grad(s.ids[0], dx);
        tape.add_grad(s.ids[1], dz);
      },
      {x, z, y, stats});
  return y;
}

/// Kimi Delta Attention: a linear and a convolution each for queries, keys and values, whose norms are in the scan's
/// kernels; the decays per channel are one kernel that keeps its input. Sources: modeling_kimi.py (KimiDeltaAttention);
/// fla fla/ops/kda/gate.py (fused_kda_gate), fla/ops/kda/chunk.py.
LocalId normalised(Tape& t, LocalId x, const char* name, Dim dim) {
  const NetSizes z = net_sizes(t);
  const LocalId y = t.wide(name, z.keys, dim, t.c.numerics.compute),
                norms = t.wide("norms of the heads", z.heads, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Norm, {x}, {y, norms}, moved_bytes(t, {x, y}));
  t.explain_saved(y, "scan backward");
  t.explain_saved(norms, "norm backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]), dy = tape.grad(s.ids[1]);
        tape.memory_op(OpKind::Norm, {dy, s.ids[1], s.ids[2]}, {dx}, 3 * moved_bytes(tape, {dx}));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y, norms});
  return y;
}

LocalId channel_decays(Tape& t, LocalId x) {
  const LocalId y = t.wide("decay", net_sizes(t).decays, Dim::KvWidth, Dtype::F32);
  t.memory_op(OpKind::Activation, {x}, {y}, moved_bytes(t, {x, y}));
  t.explain_saved(x, "softplus backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        LayerOp& o = tape.memory_op(OpKind::Activation, {tape.grad(s.ids[1]), s.ids[0]}, {dx},
                                    moved_bytes(tape, {s.ids[1], s.ids[0], dx}));
        o.kernels = 3;  // and the sums of the gradients of A_log and dt_bias
        o.is_weight_gradient = tape.c.trains_norms();
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

LocalId sigmoid_in_fp32(Tape& t, LocalId x) {
  const LocalId y = t.wide("beta", net_sizes(t).heads, Dim::QHeads, Dtype::F32);
  t.memory_op(OpKind::Activation, {x}, {y}, 2 * moved_bytes(t, {y})).kernels = 2;
  t.explain_saved(y, "sigmoid and scan backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Activation, {tape.grad(s.ids[1]), s.ids[1]}, {dx}, 3 * moved_bytes(tape, {s.ids[1]}))
            .kernels = 2;
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

LocalId kimi_delta_attention(Tape& t, LocalId x) {
  const auto project = [&](LinearSlot slot, LocalId from) { return linear(t, from, t.c.linear(slot)); };
  const auto in_16bit = [&](LocalId of, const char* name) { return convert(t, of, t.c.numerics.compute, name); };
  const LocalId q = in_16bit(convolution(t, project(LinearSlot::Q, x)), "queries in 16 bit"),
                k = in_16bit(convolution(t, project(LinearSlot::K, x)), "keys in 16 bit"),
                v = in_16bit(convolution(t, project(LinearSlot::V, x)), "values in 16 bit");
  t.explain_saved(v, "scan backward");
  const NetHeads in{normalised(t, q, "queries, normalised", Dim::QWidth),
                    normalised(t, k, "keys, normalised", Dim::KvWidth), v};
  const LocalId decay = channel_decays(t, project(LinearSlot::MixDecay, project(LinearSlot::MixDecayDown, x)));
  const LocalId beta = sigmoid_in_fp32(t, project(LinearSlot::MixBeta, x));
  const LocalId mixed = net_scan(t, in, {beta, decay});
  const LocalId z = in_16bit(project(LinearSlot::MixGate, project(LinearSlot::MixGateDown, x)), "gate z in 16 bit");
  return project(LinearSlot::O, gated_net_norm(t, mixed, z));
}

}  // namespace

double delta_net_flops(const DeltaNetSpec& d, std::int64_t seq_len) {
  const NetProducts p = net_products(d, seq_len);
  return 3 * p.with_state + 3 * p.keys_in_chunk + 2 * p.values_in_chunk;
}

LocalId delta_net(Tape& t, LocalId x) {
  if (t.c.spec().delta_net.gate_rank > 0) return kimi_delta_attention(t, x);
  const NetProjections p = project_net(t, x);
  const NetHeads in = split_heads(t, convolution(t, p.qkv));
  const NetGates gates = make_net_gates(t, p.beta, p.decay);
  const LocalId mixed =
      t.c.framework.layers.has_delta_kernels ? net_scan(t, in, gates) : net_scan_in_torch(t, in, gates);
  const LocalId gated = all_positions(t, gated_net_norm(t, mixed, p.z), "normalised and gated, all heads");
  return linear(t, gated, t.c.linear(LinearSlot::MixOut));
}

}  // namespace gpuplan

// RMSNorm, Gemma's RMSNorm and LayerNorm. Framework ops keep an fp32 copy of the input and, when the weight is trained,
// the normalised value; a fused kernel keeps its input. Sources: transformers modeling_llama.py, modeling_gemma.py;
// torch layer_norm under autocast (runs in fp32); Liger rms_norm.py.
#include "base/narrow.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

/// Bytes per element that a norm moves. LayerNorm is one kernel in torch too: forward reads and writes once; backward
/// reads the gradient and the input twice (once for the weight's gradient) and writes once. RMSNorm is a chain of
/// Python ops around an fp32 copy. Forward: pow 4+4, mean 4, times rsqrt 4+4, cast 4+b, times weight b+b. Backward:
/// times weight b+b, cast b+4, the two factors of x * rsqrt 4+4 and 8+4, its mean 4, pow 4+4 and 8+4, their sum 8+4,
/// cast 4+b. Source: transformers modeling_llama.py LlamaRMSNorm.forward, and the derivative of each of its ops.
double norm_bytes(const Tape& t, double b, bool is_backward) {
  if (t.c.is_fused || t.c.spec().norm == NormKind::LayerNorm) return (is_backward ? 5 : 2) * b;
  return is_backward ? 60 + 4 * b : 24 + 3 * b;
}

std::uint8_t norm_kernels(const Tape& t, bool is_backward) {
  if (t.c.is_fused || t.c.spec().norm == NormKind::LayerNorm) return is_backward ? 2 : 1;
  return is_backward ? 12 : 6;
}

enum : std::size_t { kNormX, kNormStats, kNormValue, kNormY, kNormWeight };

/// One kernel that adds to the gradient that came past the branch, where there is one.
void in_place_norm_backward(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[kNormX], dy = t.grad(s.ids[kNormY]), current = t.grad(x);
  const LocalId dx = current == kNoLocal ? t.new_grad(x) : x == kSlotX ? LocalId(kSlotDx) : current;
  const bool adds = current != kNoLocal;
  const double bytes = double(t.at(x).bytes().count);
  LayerOp& o = t.memory_op(OpKind::Norm, {dy, x, current}, {dx}, (adds ? 4 : 3) * bytes);
  o.accumulates = adds;
  o.is_weight_gradient = t.c.trains_norms();
  o.weight = narrow<std::uint8_t>(s.ids[kNormWeight]);
  o.use = WeightUse::Tensor;
  t.set_grad(x, dx);
}

/// A fused norm of 16-bit rows reads an fp32 copy of them, and its gradient is fp32 until it is cast back.
bool casts_input(Tape& t, LocalId x) {
  return t.c.is_fused && t.c.framework.layers.casts_norm_inputs && t.at(x).dtype != Dtype::F32;
}

double element_bytes(Tape& t, LocalId x) { return double(size_of(t.at(x).dtype)); }

/// Forward reads the copy and writes rows in 16 bit.
double wide_forward_traffic(Tape& t, LocalId x) { return (4 + element_bytes(t, x)) * double(t.at(x).elements); }

void wide_norm_backward(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[kNormX], dy = t.grad(s.ids[kNormY]);
  const Local like = t.at(x);
  LocalId wide = s.ids[kNormStats];
  if (wide == x) {
    wide = t.cast(x, Dtype::F32, "norm input in fp32, again");
    const LocalId again = t.scratch("normed rows, again", like.elements, like.dtype);
    // between a layer's branches the sum that the norm reads is made again too
    const double summed = x == kSlotX ? 0 : 3.0 * double(like.bytes().count);
    t.memory_op(OpKind::Norm, {wide}, {again}, wide_forward_traffic(t, x) + summed);
  }
  const LocalId own = t.tensor("gradient of the norm input in fp32", like.elements, Dtype::F32, like.dims);
  // as in norm_bytes: gradient and input twice, the result once
  LayerOp& o =
      t.memory_op(OpKind::Norm, {dy, wide}, {own}, (2 * element_bytes(t, x) + 2 * 4 + 4) * double(like.elements));
  o.kernels = norm_kernels(t, true);
  o.is_weight_gradient = t.c.trains_norms();
  const LocalId dx = t.new_grad(x);
  t.memory_op(OpKind::Cast, {own}, {dx}, wide_forward_traffic(t, x));
  t.add_grad(x, dx);
}

void norm_backward(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[kNormX], saved = s.ids[kNormStats], value = s.ids[kNormValue], dy = t.grad(s.ids[kNormY]);
  const std::int64_t elements = t.at(x).elements;
  const LocalId dx = t.new_grad(x);
  // fp32 gradient of the value and two products of it live together in the framework's op chain
  const LocalId temp = t.c.is_fused ? kNoLocal : t.scratch("norm backward in fp32", 2 * elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Norm, {dy, saved, value}, {dx, temp},
                           norm_bytes(t, double(size_of(t.at(dx).dtype)), true) * double(elements));
  o.kernels = norm_kernels(t, true);
  o.is_weight_gradient = t.c.trains_norms();
  t.add_grad(x, dx);
}

}  // namespace

LocalId norm(Tape& t, LocalId x, const char* name, LocalId y, NormSlot slot) {
  const ModelSpec& spec = t.c.spec();
  const DtypePolicy& n = t.c.numerics;
  const Dtype in = t.at(x).dtype;
  const bool is_layer_norm = spec.norm == NormKind::LayerNorm;
  const bool keeps_input = t.c.is_fused || in == Dtype::F32 || (is_layer_norm && !n.is_autocast);
  const Dtype out = is_layer_norm && n.is_autocast                                           ? Dtype::F32
                    : (n.ends == Dtype::F32 && !n.casts_weights && n.residual == Dtype::F32) ? n.residual
                                                                                             : in;

  const bool casts = casts_input(t, x);
  const bool is_made_again =
      casts && t.c.framework.layers.recomputes_norms && t.c.recipe.checkpointing == Checkpointing::None;
  const LocalId read = keeps_input && !casts ? x : t.cast(x, Dtype::F32, "norm input in fp32");
  const LocalId saved = is_made_again ? x : read;
  t.explain_saved(saved, "norm backward");
  LocalId value = kNoLocal;
  const bool is_scaled_in_fp32 = spec.norm == NormKind::GemmaRmsNorm || t.c.framework.layers.scales_norm_in_fp32;
  const bool keeps_value = t.c.trains_norms() && !t.c.is_fused && !is_layer_norm;
  const std::int64_t elements = t.at(x).elements;
  const auto dims = t.at(x).dims;
  if (keeps_value) {
    value = t.tensor("normalised value", elements, is_scaled_in_fp32 ? Dtype::F32 : in, dims);
    t.explain_saved(value, "gradient of the norm weight");
  }
  if (y == kNoLocal) y = t.tensor(name, elements, out, dims);
  const LocalId temp =
      t.c.is_fused || is_layer_norm ? kNoLocal : t.scratch("norm forward in fp32", elements, Dtype::F32);
  LayerOp& o =
      t.memory_op(OpKind::Norm, {read}, {y, value, temp},
                  casts ? wide_forward_traffic(t, x) : norm_bytes(t, double(size_of(in)), false) * double(elements));
  o.kernels = norm_kernels(t, false);
  o.use = WeightUse::Tensor;
  o.weight = slot == NormSlot::Final ? std::uint8_t(0) : t.c.model.linears[t.c.kind].norm(slot);
  t.then_backward(t.adds_in_place() ? in_place_norm_backward
                  : casts           ? wide_norm_backward
                                    : norm_backward,
                  {x, saved, value, y, o.weight});
  return y;
}

}  // namespace gpuplan

// RMSNorm, Gemma's RMSNorm and LayerNorm. Framework ops keep an fp32 copy of the input and, when the weight is trained, the
// normalised value; a fused kernel keeps its input. Sources: transformers modeling_llama.py, modeling_gemma.py; torch
// layer_norm under autocast (runs in fp32); Liger rms_norm.py.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

enum : std::size_t { kX, kStats, kValue, kY };

void norm_backward(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[kX], saved = s.ids[kStats], value = s.ids[kValue], dy = t.grad(s.ids[kY]);
  const std::int64_t elements = t.at(x).elements;
  const LocalId dx = t.new_grad(x);
  // fp32 gradient of the value and two products of it live together in the framework's op chain
  const LocalId temp = t.c.is_fused ? kNoLocal : t.scratch("norm backward in fp32", 2 * elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Norm, {dy, saved, value}, {dx, temp}, 2.0 * 2.0 * double(t.at(dx).bytes().count));
  o.kernels = t.c.is_fused ? 1 : 9;
  o.is_weight_gradient = t.c.model.trains_norms;
  t.add_grad(x, dx);
}

}  // namespace

LocalId norm(Tape& t, LocalId x, const char* name, LocalId y) {
  const ModelSpec& spec = t.c.model.spec;
  const Numerics& n = t.c.numerics;
  const Dtype in = t.at(x).dtype;
  const bool is_layer_norm = spec.norm == NormKind::LayerNorm;
  const bool keeps_input = t.c.is_fused || in == Dtype::F32 || (is_layer_norm && !n.is_autocast);
  const Dtype out = is_layer_norm && n.is_autocast                                           ? Dtype::F32
                    : (n.ends == Dtype::F32 && !n.casts_weights && n.residual == Dtype::F32) ? n.residual
                                                                                             : in;

  LocalId saved = x;
  if (!keeps_input) saved = t.cast(x, Dtype::F32, "norm input in fp32");
  t.saves(saved, "norm backward");
  LocalId value = kNoLocal;
  const bool is_scaled_in_fp32 = spec.norm == NormKind::GemmaRmsNorm || t.c.framework.scales_norm_in_fp32;
  const bool keeps_value = t.c.model.trains_norms && !t.c.is_fused && !is_layer_norm;
  const std::int64_t elements = t.at(x).elements;
  const auto dims = t.at(x).dims;
  if (keeps_value) {
    value = t.tensor("normalised value", elements, is_scaled_in_fp32 ? Dtype::F32 : in, dims);
    t.saves(value, "gradient of the norm weight");
  }
  if (y == kNoLocal) y = t.tensor(name, elements, out, dims);
  const LocalId temp =
      t.c.is_fused || is_layer_norm ? kNoLocal : t.scratch("norm forward in fp32", elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Norm, {saved}, {y, value, temp}, 2.0 * double(bytes_of(elements, in).count));
  o.kernels = t.c.is_fused ? 1 : 6;
  t.then_backward(norm_backward, {x, saved, value, y});
  return y;
}

}  // namespace gpuplan

#include "models/numerics.h"

namespace gpuplan {
namespace {

bool is_mixed(Precision precision) { return precision == Precision::Bf16Mixed || precision == Precision::Fp16Mixed; }

bool is_bitsandbytes(const Recipe& recipe) {
  return recipe.quant.kind == BaseQuant::Nf4 || recipe.quant.kind == BaseQuant::Int8;
}

Dtype compute_dtype(Precision precision) {
  if (precision == Precision::Fp32) return Dtype::F32;
  return precision == Precision::Fp16Mixed ? Dtype::F16 : Dtype::BF16;
}

void resolve_full(DtypePolicy& n, const Recipe& recipe, const FrameworkConvention& framework, ShardingEngine engine) {
  if (!is_mixed(recipe.precision)) {
    n.has_master = engine == ShardingEngine::Zero && framework.zero_has_master && recipe.precision != Precision::Fp32;
    return;
  }
  if (engine == ShardingEngine::Zero ? framework.zero_has_master : !framework.mixed_loads_fp32) {
    n.has_master = true;  // 16-bit weights and gradients, fp32 master
    return;
  }
  n.weight = n.ends = n.frozen = Dtype::F32;
  n.casts_weights = true;
  if (is_fsdp(engine)) return;  // gathered in 16 bit: the whole forward is 16-bit
  n.is_autocast = framework.autocasts_inputs;
  n.caches_casts = framework.caches_autocast_weights;
  n.residual = n.is_autocast ? Dtype::F32 : n.compute;  // the embedding looks up fp32 rows
}

void resolve_adapters(DtypePolicy& n, const Recipe& recipe, const FrameworkConvention& framework,
                      ShardingEngine engine) {
  // DeepSpeed runs the model in 16 bit itself
  n.is_autocast = is_mixed(recipe.precision) && framework.autocasts_inputs && engine != ShardingEngine::Zero;
  n.has_master = engine == ShardingEngine::Zero && framework.zero_has_master && recipe.precision != Precision::Fp32;
  n.adapter = framework.adapter == AdapterDtype::Fp32 && !n.has_master ? Dtype::F32 : n.compute;
  if (recipe.lora.adapter_dtype) n.adapter = *recipe.lora.adapter_dtype;
  n.adapter_compute = is_mixed(recipe.precision) || framework.casts_adapters ? n.compute : n.adapter;
  // FSDP1 flattens a unit with quantised storage into one dtype, so nothing is upcast there.
  if (recipe.lora.base_dtype) {
    n.frozen = n.ends = *recipe.lora.base_dtype;
    if (n.ends == Dtype::F32) n.residual = Dtype::F32;  // the embedding looks up fp32 rows
  }
  if (is_bitsandbytes(recipe) && framework.upcasts_quantised_ends && !is_fsdp(engine) && engine != ShardingEngine::Zero)
    n.ends = n.hidden = n.residual = Dtype::F32;
  n.saved = n.has_master ? n.compute : n.ends;
  n.casts_adapters = framework.casts_adapters && n.adapter != n.compute && !is_fsdp(engine);
}

}  // namespace

DtypePolicy resolve_numerics(const Recipe& recipe, const FrameworkConvention& framework, ShardingEngine engine,
                             const ModelSpec* model) {
  DtypePolicy n;
  n.compute = n.hidden = n.residual = n.weight = n.frozen = n.ends = n.adapter = n.saved = n.adapter_compute =
      compute_dtype(recipe.precision);
  n.gather = n.compute;
  if (recipe.is_adapter())
    resolve_adapters(n, recipe, framework, engine);
  else
    resolve_full(n, recipe, framework, engine);
  // autocast runs torch's LayerNorm in fp32, and bitsandbytes returns the dtype of its input: so does the MLP, and the
  // sum with it
  if (n.is_autocast && is_bitsandbytes(recipe) && model && model->norm == NormKind::LayerNorm) n.residual = Dtype::F32;
  if (model && model->keeps_fp32_residual) n.residual = Dtype::F32;
  n.reduce = is_fsdp(engine) && engine_of(framework, engine).reduces_in_fp32 ? Dtype::F32
             : engine == ShardingEngine::Local ? (recipe.is_adapter() ? n.adapter : n.weight)
                                               : n.compute;
  n.has_fp32_gradients = n.has_master && framework.main_gradients_fp32;
  if (!is_mixed(recipe.precision) && recipe.is_adapter() && engine != ShardingEngine::Zero) n.reduce = n.adapter;
  return n;
}

}  // namespace gpuplan

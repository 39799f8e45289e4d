#include "models/numerics.h"

#include <algorithm>

#include "models/trained_names.h"

namespace gpuplan {
namespace {

bool is_mixed(Precision precision) { return precision == Precision::Bf16Mixed || precision == Precision::Fp16Mixed; }

/// The recipe as an engine makes it: what FSDP and ZeRO shard is turned into fp32, whole copies stay as loaded.
/// Source: huggingface/accelerate src/accelerate/utils/fsdp_utils.py fsdp2_prepare_model and
/// src/accelerate/accelerator.py prepare_model @16cb6eb8 (mixed_precision != "no").
Precision under_engine(Precision precision, ComputeCast cast) {
  if (precision != Precision::Bf16Loaded) return precision;
  return cast == ComputeCast::Autocast ? Precision::Bf16True : Precision::Bf16Mixed;
}

bool is_bitsandbytes(const Recipe& recipe) { return format_of(recipe.quant.kind).is_bitsandbytes; }

Dtype compute_dtype(Precision precision) {
  if (precision == Precision::Fp32) return Dtype::F32;
  return precision == Precision::Fp16Mixed ? Dtype::F16 : Dtype::BF16;
}

/// 16-bit weights with an fp32 master, of an engine that turns the model into 16 bit.
bool has_engine_master(const Recipe& recipe, const FrameworkConvention& framework, ComputeCast cast) {
  return cast == ComputeCast::Model && framework.dtypes.zero_has_master && recipe.precision != Precision::Fp32;
}

bool trains_embedding(const Recipe& recipe) {
  if (recipe.pass == Pass::Frozen) return false;
  return recipe.trained.empty() || std::ranges::any_of(recipe.trained, [](const std::string& name) {
           return names_parameter(name, "model.embed_tokens.weight");
         });
}

void resolve_full(DtypePolicy& n, const Recipe& recipe, const FrameworkConvention& framework, ComputeCast cast) {
  if (!is_mixed(recipe.precision)) {
    n.has_master = has_engine_master(recipe, framework, cast);
    return;
  }
  if (cast == ComputeCast::Model ? framework.dtypes.zero_has_master : !framework.dtypes.mixed_loads_fp32) {
    n.has_master = true;  // 16-bit weights and gradients, fp32 master
    return;
  }
  n.weight = Dtype::F32;
  const bool is_reference = recipe.pass == Pass::Frozen;
  const bool frozen_in_16bit =
      framework.dtypes.frozen_in_16bit || (is_reference && framework.preference.reference_in_16bit);
  if (!frozen_in_16bit) n.ends = n.frozen = Dtype::F32;
  n.casts_weights = !is_reference;
  n.casts_frozen = is_reference && cast == ComputeCast::Gather && !frozen_in_16bit;
  if (cast == ComputeCast::Gather) return;  // the whole forward is 16-bit
  n.is_autocast = framework.dtypes.autocasts_inputs;
  n.caches_casts = framework.dtypes.caches_autocast_weights;
  const bool embeds_in_16bit = frozen_in_16bit && !trains_embedding(recipe);
  n.residual = n.is_autocast && !embeds_in_16bit ? Dtype::F32 : n.compute;  // the embedding looks up fp32 rows
}

/// Norms of fp32 weights return fp32, as lookups in an fp32 embedding do, and bitsandbytes returns what it was given.
void upcast_quantised(DtypePolicy& n, const QuantisedUpcast& upcast) {
  if (upcast.norms || upcast.embeddings) n.hidden = n.residual = Dtype::F32;
  if (upcast.embeddings) n.ends = Dtype::F32;
  if (upcast.blocks) n.frozen = Dtype::F32;
}

void resolve_adapters(DtypePolicy& n, const Recipe& recipe, const FrameworkConvention& framework, ComputeCast cast) {
  n.is_autocast = is_mixed(recipe.precision) && framework.dtypes.autocasts_inputs && cast != ComputeCast::Model;
  n.has_master = has_engine_master(recipe, framework, cast);
  const std::optional<AdapterDtype>& beside_quantised = framework.dtypes.adapter_of_quantised_base;
  const AdapterDtype own = beside_quantised && is_bitsandbytes(recipe) ? *beside_quantised : framework.dtypes.adapter;
  n.adapter = own == AdapterDtype::Fp32 && !n.has_master ? Dtype::F32 : n.compute;
  if (recipe.lora.adapter_dtype) n.adapter = *recipe.lora.adapter_dtype;
  n.adapter_compute = is_mixed(recipe.precision) || framework.dtypes.casts_adapters ? n.compute : n.adapter;
  // FSDP1 flattens a unit with quantised storage into one dtype, so nothing is upcast there.
  if (recipe.lora.base_dtype) {
    // DeepSpeed casts the whole module: _configure_distributed_model of deepspeed/runtime/engine.py
    n.frozen = n.ends = cast == ComputeCast::Model ? n.compute : *recipe.lora.base_dtype;
    // FSDP's MixedPrecision; our own engine gathers what is frozen as it is stored
    n.casts_frozen = cast == ComputeCast::Gather && n.ends == Dtype::F32 && n.gather != Dtype::F32 &&
                     framework.state.arrays == StateArrays::PerTensor;
    if (n.ends == Dtype::F32 && !n.casts_frozen) n.residual = Dtype::F32;  // the embedding looks up fp32 rows
  }
  const QuantisedUpcast& upcast = framework.dtypes.quantised_upcast;
  const bool packs_experts = recipe.quant.quantises_experts && framework.experts.layout == ExpertLayout::Stacked;
  if (is_bitsandbytes(recipe) && cast == ComputeCast::Autocast && (upcast.beside_packed_experts || !packs_experts))
    upcast_quantised(n, upcast);
  n.saved = n.has_master ? n.compute : n.ends;
  n.casts_adapters = framework.dtypes.casts_adapters && n.adapter != n.compute && cast != ComputeCast::Gather;
}

}  // namespace

DtypePolicy resolve_numerics(const Recipe& asked, const FrameworkConvention& framework, ShardingEngine engine,
                             const ModelSpec* model) {
  DtypePolicy n;
  const ComputeCast cast = traits_of(engine).compute_cast;
  Recipe loaded;
  if (asked.precision == Precision::Bf16Loaded) {
    loaded = asked;
    loaded.precision = under_engine(asked.precision, cast);
  }
  const Recipe& recipe = asked.precision == Precision::Bf16Loaded ? loaded : asked;
  n.compute = n.hidden = n.residual = n.weight = n.frozen = n.ends = n.adapter = n.saved = n.adapter_compute =
      compute_dtype(recipe.precision);
  n.gather = n.compute;
  if (recipe.is_adapter())
    resolve_adapters(n, recipe, framework, cast);
  else
    resolve_full(n, recipe, framework, cast);
  // autocast runs torch's LayerNorm in fp32, and bitsandbytes returns the dtype of its input: so does the MLP, and the
  // sum with it
  if (n.is_autocast && is_bitsandbytes(recipe) && model && model->norm == NormKind::LayerNorm) n.residual = Dtype::F32;
  if (model && model->keeps_fp32_residual) n.residual = Dtype::F32;
  n.reduce = engine_of(framework, engine).reduces_in_fp32 ? Dtype::F32
             : cast == ComputeCast::Autocast              ? (recipe.is_adapter() ? n.adapter : n.weight)
                                                          : n.compute;
  // accelerate's convert_outputs_to_fp32 around the forward of a model under autocast or FSDP, not of DeepSpeed's
  // engine
  const bool is_converted = framework.loss.converts_outputs || framework.loss.kept_logits_mixed == KeptLogits::Fp32;
  n.logits = is_mixed(recipe.precision) && cast != ComputeCast::Model && is_converted ? Dtype::F32 : n.compute;
  n.has_fp32_gradients = n.has_master && framework.dtypes.main_gradients_fp32;
  if (!is_mixed(recipe.precision) && recipe.is_adapter() && cast != ComputeCast::Model) n.reduce = n.adapter;
  return n;
}

}  // namespace gpuplan

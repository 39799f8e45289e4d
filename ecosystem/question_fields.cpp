#include "ecosystem/question_fields.h"

#include <algorithm>
#include <functional>

#include "base/archive.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {

using nlohmann::json;

json recipe_fields(Recipe recipe, const Strategy& strategy) {
  const Dtype stored = resolve_numerics(recipe, *recipe.framework, strategy.engine).compute;
  if (strategy.layout.shards_weights && recipe.quant.storage_dtype == stored) recipe.quant.storage_dtype.reset();
  FieldWriter out;
  write_recipe(out, recipe);
  json fields = json::parse(out.take().dump());
  fields.erase("framework");
  fields.erase("versions");
  fields["images"] = {{"train", to_string(recipe.images.train)}};  // the rest is of the data
  if (recipe.loss != LossKernel::Chunked) fields.erase("loss_chunks");
  if (recipe.checkpointing != Checkpointing::EveryK) fields.erase("checkpoint_every");
  fields["kernels"] = to_string(layer_kernels(recipe, *recipe.framework));
  const Dtype compute = resolve_numerics(recipe, *recipe.framework, ShardingEngine::Local).compute;
  if (recipe.is_adapter() && recipe.lora.base_dtype == compute) fields["lora"]["base_dtype"] = nullptr;
  // of weights that an engine turns into fp32 a file says what they become
  if (recipe.precision == Precision::Bf16Loaded && strategy.engine != ShardingEngine::Local)
    fields["precision"] = to_string(Precision::Bf16Mixed);
  if (recipe.quant.kind != BaseQuant::Nf4) fields["quant"] = {{"kind", fields["quant"]["kind"]}};
  return fields;
}

namespace {

/// Layers of stages that share evenly between the first and the last stand as 0, as files leave them out.
std::string plain_stages(StageLayers layers) {
  if (layers.size() > 2 &&
      std::adjacent_find(layers.begin() + 1, layers.end() - 1, std::not_equal_to()) == layers.end() - 1)
    std::fill(layers.begin() + 1, layers.end() - 1, 0);
  return to_string(layers);
}

}  // namespace

json strategy_fields(const Strategy& strategy) {
  FieldWriter out;
  write_strategy(out, strategy);
  json fields = json::parse(out.take().dump());
  fields.erase("name");
  if (!strategy.stage_layers.empty()) fields["stage_layers"] = plain_stages(strategy.stage_layers);
  return fields;
}

}  // namespace gpuplan

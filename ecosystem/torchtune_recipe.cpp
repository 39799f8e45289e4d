// gpuplan export --for torchtune: a recipe's configuration.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/key_table.h"
#include "ecosystem/torchtune.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

/// The row that builds the plan's model; nullptr where torchtune has none.
const TorchtuneModel* torchtune_model_of(const ModelSpec& model) {
  for (const TorchtuneModel& row : torchtune_models()) {
    const std::string name = model_of_component(fmt::format("torchtune.models.{}.{}", row.module, row.name));
    const CatalogueEntry* const entry = find_in_catalogue(name);
    if (entry && entry->name == model.name) return &row;
  }
  return nullptr;
}

/// "full_finetune_distributed" and its kin.
std::string recipe_of(const ExportJob& job) {
  return fmt::format("{}_finetune_{}", job.request.recipe.is_adapter() ? "lora" : "full",
                     job.is_one_process() ? "single_device" : "distributed");
}

}  // namespace

void adapt_to_torchtune(Setup& setup, const EstimateRequest& request, const Strategy&) {
  use_component(setup, torchtune_model_of(request.model));
  setup.shards_4bit = true;  // torchao's NF4
}

WhyNot why_not_torchtune(const ExportJob& job) {
  constexpr const char* kOther = "--for trl, axolotl or accelerate";
  const TorchtuneModel* model = torchtune_model_of(job.request.model);
  const Recipe& recipe = job.request.recipe;
  if (!model) return {fmt::format("torchtune has no function that builds {}", job.request.model.name), kOther};
  if (recipe.quant.kind != BaseQuant::None && recipe.quant.kind != BaseQuant::Nf4)
    return {fmt::format("torchtune has no base of the kind {}", to_string(recipe.quant.kind)), kOther};
  if (recipe.method == Method::Qlora && !model->has_qlora)
    return {fmt::format("torchtune has no qlora_{}", model->name), "plan with --lora, or " + std::string(kOther)};
  if (job.num_nodes() > 1) return {"torchtune's recipes are started on one machine here", kOther};
  if (job.strategy.is_one_gpu()) return {};
  const bool is_fsdp1 = job.strategy.engine == ShardingEngine::Fsdp1;
  if (job.strategy.engine == ShardingEngine::Fsdp2 && job.strategy.mesh.copies() == 1) return {};
  return {fmt::format("torchtune shards with FSDP2 over all GPUs, and the plan is {}{}", job.strategy.name,
                      is_fsdp1 ? " of FSDP1" : ""),
          "--for accelerate", "fsdp", is_fsdp1 ? std::optional(2) : std::nullopt};
}

void add_torchtune(std::vector<ExportedFile>& files, const ExportJob& job) {
  const KeyTable& table = *find_key_table("torchtune");
  const TorchtuneModel* model = torchtune_model_of(job.request.model);
  GPUPLAN_CHECK(model, "a plan that torchtune cannot build was not refused");
  OrderedJson extra, decided;
  extra["tokenizer._component_"] = "torchtune.models." + model->tokenizer;
  extra["tokenizer.path"] = "model/" + model->tokenizer_file;
  if (!model->merges_file.empty()) extra["tokenizer.merges_file"] = "model/" + model->merges_file;
  extra["checkpointer._component_"] = "torchtune.training.FullModelHFCheckpointer";
  extra["checkpointer.checkpoint_dir"] = "model";
  extra["checkpointer.checkpoint_files"] = OrderedJson::array({"model.safetensors"});
  extra["checkpointer.model_type"] = model->type;
  extra["checkpointer.output_dir"] = "out";
  if (job.request.recipe.is_adapter()) {
    extra["optimizer.lr"] = 2e-4;
    extra["lr_scheduler._component_"] = "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup";
    extra["lr_scheduler.num_warmup_steps"] = 100;
  } else {
    const bool is_in_backward = job.request.recipe.optimizer_in_backward;
    extra["optimizer.lr"] = 2e-5;
    decided["optimizer_in_bwd"] = is_in_backward;  // full_finetune_single_device.py @v0.6.1 has no default for it
    if (is_in_backward) decided["clip_grad_norm"] = nullptr;  // which the recipes refuse beside it
  }
  if (!job.keeps_data()) decided.update(torchtune_data(job.data));
  files.push_back(table_file(job, table, extra, decided));
  const std::string ranks = job.is_one_process() ? "" : fmt::format(" --nproc_per_node {}", *job.setup.num_processes);
  files.push_back(launch_file(job, table.versions, "",
                              fmt::format("tune run{} {} --config torchtune.yaml", ranks, recipe_of(job))));
}

}  // namespace gpuplan

// Files of trainers that divide layers among ranks: Megatron-SWIFT's YAML with `megatron sft`, and torchtitan's TOML.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/export_parts.h"
#include "planner/job.h"
#include "planner/job_metrics.h"

namespace gpuplan {
namespace {

using Files = std::vector<ExportedFile>;

/// A model that torchtitan builds, by its own two names.
struct TitanModel {
  std::string name, flavor;
  std::vector<std::string> models;
};

std::vector<TitanModel> read_titan_models() {
  const std::string where = (data_dir() / "ecosystem" / "torchtitan_models.yaml").string();
  const auto tree = read_yaml11(where);
  std::vector<TitanModel> rows;
  try {
    for (const nlohmann::json& row : tree->root.at("models"))
      rows.push_back({row.at("name"), row.at("flavor"), row.at("models")});
  } catch (const nlohmann::json::exception& error) { throw InputError(where, error.what()); }
  return rows;
}

/// nullptr: torchtitan does not build it.
const TitanModel* find_titan_model(const ModelSpec& model) {
  const std::vector<TitanModel>& rows = read_once<read_titan_models>();
  const auto found =
      std::ranges::find_if(rows, [&](const TitanModel& row) { return std::ranges::count(row.models, model.name) > 0; });
  return found == rows.end() ? nullptr : &*found;
}

/// Every so many whole layers are checkpointed by a number beside the kind.
void write_every(Setup& setup, const Recipe& recipe, const char* kind, Setup::Count& every) {
  if (recipe.checkpointing != Checkpointing::EveryK) return;
  setup.checkpointing_kind = kind;
  every = recipe.checkpoint_every;
}

}  // namespace

void adapt_to_megatron_swift(Setup& setup, const EstimateRequest& request, const Strategy& strategy) {
  write_every(setup, request.recipe, "full", setup.checkpoint_every);
  if (setup.checkpointing_kind == "full" && !setup.checkpoint_every) setup.checkpoint_every = 1;
  setup.shards_optimizer = strategy.layout.shards_optimizer;
  if (strategy.engine != ShardingEngine::Zero) return;
  setup.distributed = "multi";  // its own optimizer is no DeepSpeed
  setup.zero_stage.reset();
  setup.deepspeed_file.reset();
}

WhyNot why_not_megatron_swift(const ExportJob& job) {
  if (job.strategy.engine == ShardingEngine::Local || job.setup.distributed == "multi") return {};
  return {fmt::format("Megatron-SWIFT has whole copies and an optimizer that they share, and the plan is {}",
                      job.strategy.name),
          "--for torchtitan", job.strategy.layout.shards_optimizer ? "zero1" : "ddp"};
}

void add_megatron_swift(Files& files, const ExportJob& job) {
  const OrderedJson learning = learning_keys(job);
  OrderedJson usual{{"lr", learning.at("learning_rate")},
                    {"lr_warmup_fraction", 0.05},
                    {"cross_entropy_loss_fusion", true},
                    {"no_save_optim", true},
                    {"no_save_rng", true},
                    {"save_steps", learning.at("save_steps")},
                    {"logging_steps", learning.at("logging_steps")},
                    {"use_hf", true},
                    {"split_dataset_ratio", 0},
                    {"output_dir", "out"}};
  OrderedJson decided;
  if (!job.keeps_data()) decided["dataset"] = OrderedJson::array({set_of(*job.method, job.data)});
  if (!job.keeps_data()) decided["use_hf"] = !job.data.name.empty();  // its examples' sets are ModelScope's
  if (job.setup.checkpointing_kind == "full") decided["recompute_method"] = "uniform";
  files.push_back(table_file(job, target_table("megatron-swift"), usual, decided));
  files.push_back(launch_file(job, target_table("megatron-swift").versions, torchrun_exports(job),
                              fmt::format("megatron {} megatron.yaml", job.method->starts)));
}

/// Its data has no end: the steps say how long it trains.
static std::int64_t steps_of_training(const EstimateRequest& request, const Strategy& strategy) {
  const JobMetrics metrics = job_metrics(Job(request, strategy), Seconds{1}, FlopsPerSec{1});
  return std::int64_t(std::ceil(double(metrics.steps_per_epoch) * request.dataset.epochs));
}

void adapt_to_torchtitan(Setup& setup, const EstimateRequest& request, const Strategy& strategy) {
  if (setup.checkpointing_kind == "selective") setup.selective_every = 0;
  write_every(setup, request.recipe, "selective", setup.selective_every);
  setup.model_alias = fmt::format("./assets/hf/{}", setup.model->substr(setup.model->rfind('/') + 1));
  setup.max_steps = steps_of_training(request, strategy);
  if (!is_fsdp(strategy.engine)) setup.distributed = "fsdp";  // over one rank it shards nothing
}

WhyNot why_not_torchtitan(const ExportJob& job) {
  if (!find_titan_model(job.request.model))
    return {fmt::format("torchtitan builds no {}", job.request.model.name),
            "--for megatron-swift, or a Llama 3 or Qwen3 of data/ecosystem/torchtitan_models.yaml"};
  if (job.request.recipe.is_adapter())
    return {.why = "torchtitan trains all weights", .nearest = "--for megatron-swift", .trains_all = true};
  if (job.strategy.mesh.num_stages() > 1 && !job.strategy.takes_turns())
    return {"micro-batches of a pipeline are not written to torchtitan's file", "plan without --pp"};
  if (!is_fsdp(job.strategy.engine) && job.strategy.mesh.copies() > 1)
    return {fmt::format("torchtitan shards by FSDP2, and the plan is {}", job.strategy.name), "--for megatron-swift",
            "fsdp"};
  return {};
}

void add_torchtitan(Files& files, const ExportJob& job) {
  const TitanModel& model = *find_titan_model(job.request.model);
  const OrderedJson learning = learning_keys(job);
  const OrderedJson extra{{"model.name", model.name},
                          {"model.flavor", model.flavor},
                          {"job.dump_folder", "./out"},
                          {"optimizer.name", "AdamW"},
                          {"optimizer.lr", 2e-5},
                          {"lr_scheduler.warmup_steps", 20},
                          {"training.dataset", "c4"},
                          {"training.steps", *job.setup.max_steps},
                          {"metrics.log_freq", 5},
                          {"checkpoint.enable", true},
                          {"checkpoint.interval", learning.at("save_steps")},
                          {"checkpoint.initial_load_in_hf", true},
                          {"checkpoint.initial_load_path", *job.setup.model_alias}};
  files.push_back(table_file(job, target_table("torchtitan"), extra));
  files.push_back(launch_file(job, target_table("torchtitan").versions, "",
                              torchrun_command(job) + " -m torchtitan.train --job.config_file torchtitan.toml"));
}

}  // namespace gpuplan

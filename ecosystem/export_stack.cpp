// Rows of data/stack decide some of a plan's settings by the versions of the programs that will read the files.
#include <algorithm>

#include <fmt/format.h>

#include "base/names.h"
#include "ecosystem/export_parts.h"
#include "models/expert_layout.h"
#include "models/stack.h"
#include "models/version.h"

namespace gpuplan {
namespace {

/// Versions that were named: of the plan those that are not the newest anyway, and before them those of the export.
StackVersions named_versions(const ExportJob& job) {
  const FrameworkConvention& planned = *job.request.recipe.framework;
  const StackVersions newest = newest_versions(planned.name);
  StackVersions named;
  for (const auto& [library, version] : planned.versions)
    if (const auto other = newest.find(library); other == newest.end() || !(other->second == version))
      named[library] = version;
  for (const auto& [package, text] : job.versions)
    if (const auto version = as_version(text)) named[package] = *version;
  return named;
}

std::vector<std::string> words(const nlohmann::json* value) {
  return value ? value->get<std::vector<std::string>>() : std::vector<std::string>{};
}

/// Classes that FSDP makes units of, where transformers' own list is not that of the loaded model. Those of a
/// vision-language model may depend on the family of its language model.
void name_wrap_classes(Setup& setup, const ModelSpec& model, const std::vector<const StackFact*>& facts) {
  if (setup.fsdp_wrap != "layer") return;
  std::vector<std::string> classes = words(fact(facts, "wrap_classes." + model.text_family, model.model_type));
  if (classes.empty()) classes = words(fact(facts, "wrap_classes", model.model_type));
  if (!classes.empty()) setup.fsdp_wrap_class = fmt::format("{}", fmt::join(classes, ","));
}

/// Says whether DeepSpeed would hook every expert of its own: it hangs where ranks choose different ones, or crawls.
/// Source: deepspeedai/DeepSpeed issue 7461; docs of set_z3_leaf_modules.
bool hooks_each_expert(const ExportJob& job, const FrameworkConvention& framework) {
  const ModelSpec& model = job.request.model;
  const auto& leaves = framework.zero.leaf_experts;
  return job.setup.zero_stage == 3 && model.moe.is_present() && framework.experts.layout == ExpertLayout::Modules &&
         std::find(leaves.begin(), leaves.end(), model.model_type) == leaves.end();
}

}  // namespace

WhyNot add_stack_facts(ExportJob& job, const std::string& record, bool has_launcher) {
  const ModelSpec& model = job.request.model;
  const StackVersions named = named_versions(job);
  const StackVersions versions = stack_versions(named, record);
  const std::vector<const StackFact*> facts = facts_for(versions, record);
  name_wrap_classes(job.setup, model, facts);
  if (!hooks_each_expert(job, resolve_framework(record, {.given = named, .date = {}}, model.model_type))) return {};
  const bool can_say = fact(facts, "leaf_modules.config") || (has_launcher && fact(facts, "leaf_modules.flag"));
  if (!can_say)
    return {fmt::format("ZeRO-3 would hook every expert of {} by itself, at which training hangs or crawls, and these "
                        "versions have no key that makes the experts of a layer one leaf",
                        model.name),
            "--versions deepspeed=0.18 or later, or plan with --strategy fsdp or zero2"};
  if (const auto deepspeed = named.find("deepspeed");
      deepspeed != named.end() && !version_of(job.versions, "deepspeed"))
    job.versions.emplace_back("deepspeed", deepspeed->second.text);  // of the plan: it decides which key is written
  job.setup.leaf_classes = words(fact(facts, "leaf_modules.classes", model.model_type));
  if (job.setup.leaf_classes->empty())
    return {fmt::format("ZeRO-3 would hook every expert of {} by itself, at which training hangs or crawls, and the "
                        "class of its mixture of experts is not known here",
                        model.name),
            "plan with --strategy fsdp or zero2"};
  return {};
}

WhyNot why_not_checkpoint(const ModelSpec& model, const char* trainer) {
  if (!trainer || !model.checkpoint.is_present()) return {};
  const FrameworkConvention& framework =
      resolve_framework(find_key_table(trainer)->framework, {.given = {}, .date = {}}, model.model_type);
  const CheckpointUse use = use_of_checkpoint(framework, model.checkpoint);
  if (use == CheckpointUse::Kept || use == CheckpointUse::Unpacked) return {};
  return {fmt::format("{} is quantised ({}), and no file of {} says that it is unpacked", model.id,
                      to_string(model.checkpoint), framework.name),
          "plan with a copy in 16 bit as --model, or export for a trainer that unpacks it by itself"};
}

std::int64_t largest_partition(const ExportJob& job) {
  ModelWeights weights = list_weights(job.request.model);
  lay_out_experts(weights, job.request.recipe.framework->experts);
  std::int64_t most = 0;
  const auto look_at = [&](const std::vector<WeightTensor>& tensors) {
    for (const WeightTensor& tensor : tensors) most = std::max(most, tensor.elements() / tensor.copies);
  };
  look_at(weights.before);
  look_at(weights.after);
  for (const LayerKind& kind : weights.kinds) look_at(kind.tensors);
  const std::int64_t ranks = job.strategy.mesh.shard_ways();
  return (most + ranks - 1) / ranks;
}

}  // namespace gpuplan

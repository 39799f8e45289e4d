// A point as a question to the planner: one model, one recipe, one cluster, one strategy. What cannot be said in these
// terms is refused with the reason, never approximated by another setting.
#pragma once

#include <map>
#include <string>

#include "cluster/gpu_file.h"
#include "planner/estimate.h"
#include "validate/aliases.h"
#include "validate/point.h"

namespace gpuplan {

struct PointPlan {
  std::string unsupported;        // why there is no plan, else empty
  EstimateRequest request;        // with a fixed strategy
  std::string heading;            // under which a memory point that does not count is scored all the same; may be empty
  bool measures_loading = false;  // its peak is that of loading the weights
};

/// Maps points; models, GPUs and machines are read once each.
class PointPlanner {
 public:
  explicit PointPlanner(AliasTable aliases) : aliases_(std::move(aliases)) {}

  PointPlan plan(const Point& point);
  const AliasTable& aliases() const { return aliases_; }

 private:
  ModelSpec model_of(const Point& point);
  ClusterSpec cluster_of(const Point& point);
  const ModelSpec& catalogue_model(const std::string& name);

  AliasTable aliases_;
  std::map<std::string, ModelSpec> models_;
  std::map<std::string, std::string> refused_;  // names that the catalogue does not have, with its reason
  std::map<std::string, GpuFile> gpus_;
  std::map<std::string, ClusterSpec> clusters_;
};

/// The first row of the table that the point matches, with a record that exists; else a record of the point's own name.
/// Throws InputError when there is none.
FrameworkAlias framework_of(const Point& point, const AliasTable& aliases);

/// Recipe of the point. Throws InputError for what a recipe cannot say.
Recipe recipe_of(const Point& point, const ModelSpec& model, const FrameworkAlias& framework,
                 const AliasTable& aliases);

/// The adapters of a point, their targets under the model's own names.
LoraSpec lora_of(const Point& point, const ModelSpec& model, const AliasTable& aliases);

/// Quantisation of its base. Throws InputError for a quantisation that is not ours.
QuantSpec quant_of(const Point& point, const FrameworkAlias& framework, const AliasTable& aliases);

/// The family and degrees of a point as ours. Throws InputError for layouts that no strategy has.
std::string strategy_of(const Point& point);

/// A model of the shape that a point prints: a Llama where a gated MLP explains the printed parameter count best, else
/// a plain decoder in the manner of GPT-2 (MHA) or StarCoder2 (GQA). Throws InputError when none comes within 10 %.
ModelSpec model_of_shape(const Point& point);

}  // namespace gpuplan

// Plans that are exported, and what their files say.
#pragma once

#include <string>
#include <string_view>

#include "cluster/gpu_list.h"
#include "ecosystem/export.h"
#include "models/catalogue.h"

namespace gpuplan::test {

inline const PlanMark kMark{"plan.json", std::string(64, 'a')};

inline EstimateRequest plan_of(const std::string& strategy, Method method, const Offload& offload = {},
                               const std::string& framework = "trl") {
  EstimateRequest r;
  r.model = load_model("llama-3.2-1b").spec;
  r.cluster = parse_gpus(strategy == "single" ? "1xA6000" : "4xA6000");
  r.strategy = strategy;
  r.recipe.framework = framework;
  r.recipe.method = method;
  if (method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.checkpointing = Checkpointing::Full;
  r.recipe.offload = offload;
  if (strategy == "hsdp") r.options.shard_size = 2;
  if (method == Method::Qlora) r.options.fsdp_version = 1;
  return r;
}

inline const ExportedFile* file_of(const ExportAnswer& answer, std::string_view name) {
  for (const ExportedFile& file : answer.files)
    if (file.name == name) return &file;
  return nullptr;
}

inline bool has_text(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace gpuplan::test

// What `gpuplan gpus` says about one GPU and `gpuplan models NAME` about one model, computed before it is shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "models/catalogue.h"
#include "models/weights.h"

namespace gpuplan {

struct GpuReport {
  GpuSpec gpu;
  std::vector<GpuPrice> prices;
  std::optional<GpuPrice> usual;      // which estimates use
  std::vector<std::string> machines;  // of the catalogue that have it; of one GPU that is explained
};

GpuReport report_gpu(const GpuSpec& gpu);

/// Ids of the machines of data/clusters with these GPUs.
std::vector<std::string> machines_with(const std::string& gpu_id);

/// A machine of data/clusters.
struct MachineReport {
  std::string id;
  ClusterSpec machine;
  LinkCost network;           // to others like it; no rate: none is stated
  BytesPerSec ring_of_steps;  // that a ring inside it reaches while a step trains, below what a benchmark measures
};

MachineReport report_machine(const std::string& id);

struct ModelReport {
  CatalogueEntry entry;           // name, id, family, recorded parameters
  std::optional<ModelSpec> spec;  // empty: not modelled yet
  ModelWeights weights;
  std::int64_t parameters{};  // computed where modelled, else recorded
  std::string published;      // who published the count; empty: nobody
  bool is_verified = false;   // the published count equals the recorded one
  std::vector<std::string> notes;
};

/// A model by name or path, or of the Hub (models/catalogue.h). One that is known but not modelled yet gets a short
/// report. Throws InputError and EnvError.
ModelReport report_model(const std::string& text, const std::optional<HubSettings>& hub = {});
ModelReport report_model(const CatalogueEntry& entry);
ModelReport report_model(LoadedModel loaded);

}  // namespace gpuplan

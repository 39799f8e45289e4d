#include "report/catalogue_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "cluster/cluster_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_file.h"
#include "cluster/links.h"
#include "cluster/profile/profile.h"
#include "models/model_names.h"

namespace gpuplan {

GpuReport report_gpu(const GpuSpec& gpu) {
  GpuReport report{.gpu = gpu, .prices = list_prices(gpu.id), .usual = {}, .machines = {}};
  if (const GpuPrice* price = usual_price(report.prices, 1)) report.usual = *price;
  return report;
}

std::vector<std::string> machines_with(const std::string& gpu_id) {
  std::vector<std::string> out;
  for (const std::string& id : list_clusters()) {
    const std::vector<GpuSpec> kinds = load_cluster(id, {}).gpus.kinds();
    if (std::ranges::any_of(kinds, [&](const GpuSpec& gpu) { return gpu.id == gpu_id; })) out.push_back(id);
  }
  return out;
}

/// The network between machines like this one; nothing where its file states none, which is refused for several.
static LinkCost network_of(const std::string& id, const ClusterSpec& machine) {
  if (machine.num_nodes() > 1) return machine.inter;
  try {
    return load_cluster(id, 2 * machine.num_gpus()).inter;
  } catch (const InputError&) { return {}; }
}

MachineReport report_machine(const std::string& id) {
  MachineReport out{.id = id, .machine = load_cluster(id, {}), .network = {}, .ring_of_steps = {}};
  out.network = network_of(id, out.machine);
  if (out.machine.gpus_per_node > 1)
    out.ring_of_steps = reached_inside(out.machine, default_profile(out.machine.gpus.front())).bandwidth;
  return out;
}

ModelReport report_model(LoadedModel loaded) {
  ModelReport report{.entry = {.name = loaded.spec.name,
                               .id = loaded.spec.id,
                               .family = loaded.spec.family,
                               .model_type = loaded.spec.model_type,
                               .architecture = loaded.spec.architecture,
                               .is_modelled = true},
                     .spec = std::move(loaded.spec)};
  report.weights = list_weights(*report.spec);
  report.parameters = report.weights.total_elements();
  report.entry.parameters = report.spec->recorded_parameters.value_or(report.parameters);
  report.notes = std::move(loaded.notes);
  return report;
}

namespace {

void read_provenance(ModelReport& report) {
  const nlohmann::json content = read_json_file(report.entry.file);
  Fields fields(content, report.entry.file.string());
  report.is_verified = fields.optional_flag("verified").value_or(false);
  if (auto published = fields.optional_fields("published"))
    report.published = published->optional_text("source").value_or("");
  fields.finish();
}

}  // namespace

ModelReport report_model(const CatalogueEntry& entry) {
  ModelReport report{.entry = entry, .parameters = entry.parameters};
  if (entry.is_modelled) report = report_model(load_model(entry.file.string()));
  report.entry = entry;
  read_provenance(report);
  return report;
}

ModelReport report_model(const std::string& text, const std::optional<HubSettings>& hub) {
  const std::vector<CatalogueEntry>& all = list_catalogue();
  const auto named = match_model_name(text, all);
  if (named.size() == 1 && !is_there(text)) {
    ModelReport report = report_model(*named.front());
    if (std::string note = explain_match(text, *named.front()); !note.empty())
      report.notes.insert(report.notes.begin(), std::move(note));
    return report;
  }
  return report_model(load_model(text, hub));
}

}  // namespace gpuplan

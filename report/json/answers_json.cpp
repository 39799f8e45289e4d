#include "report/json/answers_json.h"

#include "planner/plan/plan_file.h"
#include "report/json/catalogue_fields.h"
#include "report/json/diagnosis_fields.h"
#include "report/json/estimate_fields.h"
#include "report/json/generation_fields.h"
#include "report/json/machine_check_fields.h"
#include "report/json/plan_fields.h"
#include "report/json/profile_fields.h"
#include "report/json/simulation_fields.h"
#include "report/json/validation_fields.h"

namespace gpuplan {

using Json = nlohmann::ordered_json;

Json estimate_json(const EstimateAnswer& answer) {
  return written([&](auto& f) { list_estimate(f, answer, make_plan(answer.request, answer.result, {})); });
}

Json simulation_json(const SimulationAnswer& answer) {
  return written([&](auto& f) { list_simulation(f, answer); });
}

Json generation_json(const GenerationAnswer& answer) {
  return written([&](auto& f) { list_generation(f, answer); });
}

Json diagnosis_json(const DiagnosisAnswer& answer) {
  return written([&](auto& f) { list_diagnosis(f, answer); });
}

Json machine_check_json(const MachineCheck& check) {
  return written([&](auto& f) { list_machine_check(f, check); });
}

Json topology_json(const TopologyAnswer& answer) {
  return written([&](auto& f) { list_topology(f, answer); });
}

Json plan_json(const PlanAnswer& answer) {
  return written([&](auto& f) { list_plan(f, answer); });
}

Json largest_json(const LargestTable& table, const SearchQuestion& question) {
  return written([&](auto& f) { list_largest(f, table, machine_name(question.machines.front().cluster)); });
}

Json gpus_json(const std::vector<GpuReport>& reports) {
  return written([&](auto& f) { list_gpus(f, reports); });
}

Json models_json(const std::vector<CatalogueEntry>& entries) {
  std::vector<ModelReport> reports;
  for (const CatalogueEntry& entry : entries) reports.push_back({.entry = entry});
  return written([&](auto& f) { list_models(f, reports, false); });
}

Json models_json(const ModelReport& report) {
  return written([&](auto& f) { list_models(f, {report}, true); });
}

Json profile_json(const Profile& profile) {
  return written([&](auto& f) { list_fields(f, profile); });
}

Json profiles_json(const ProfileList& list) {
  return written([&](auto& f) { list_fields(f, list); });
}

Json comparison_json(const Profile& first, const Profile& second, const ProfileComparison& comparison) {
  return written([&](auto& f) { list_compared(f, first, second, comparison); });
}

Json validation_json(const ValidationAnswer& answer) {
  return written([&](auto& f) { list_fields(f, answer); });
}

Json phase_points_json(const std::vector<PhasePoint>& points) {
  return written([&](auto& f) { list_phase_points(f, points); });
}

}  // namespace gpuplan

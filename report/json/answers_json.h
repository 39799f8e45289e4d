// Every answer for programs: names as in the plan file, base units in the names, shares between 0 and 1. Schemas:
// docs/schemas.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/profile/profile.h"
#include "diagnose/machine_check.h"
#include "report/answers.h"
#include "report/catalogue_report.h"
#include "report/generation_answer.h"
#include "report/phase_points.h"
#include "report/profile_list.h"
#include "report/profile_numbers.h"
#include "report/text/topology_text.h"
#include "search/largest.h"

namespace gpuplan {

// The answers of `gpuplan estimate`, `simulate` and `topology` for programs: names as in the plan file, base units in
// the names, shares between 0 and 1.

nlohmann::ordered_json estimate_json(const EstimateAnswer& answer);

nlohmann::ordered_json simulation_json(const SimulationAnswer& answer);

nlohmann::ordered_json topology_json(const TopologyAnswer& answer);

nlohmann::ordered_json generation_json(const GenerationAnswer& answer);

nlohmann::ordered_json diagnosis_json(const DiagnosisAnswer& answer);

nlohmann::ordered_json machine_check_json(const MachineCheck& check);

// Models and GPUs of the catalogue for programs; base units in the names.

nlohmann::ordered_json models_json(const std::vector<CatalogueEntry>& entries);
nlohmann::ordered_json models_json(const ModelReport& report);  // one, with shape and tensors
nlohmann::ordered_json gpus_json(const std::vector<GpuReport>& reports);

// The answer of `gpuplan plan` as JSON, in base units. Keys: docs/plan.md.

nlohmann::ordered_json plan_json(const PlanAnswer& answer);
nlohmann::ordered_json largest_json(const LargestTable& table, const SearchQuestion& question);

// Profiles as JSON: one whole, the list, two compared. Base units, with the unit in the
// key.

nlohmann::ordered_json profile_json(const Profile& profile);
nlohmann::ordered_json profiles_json(const ProfileList& list);
nlohmann::ordered_json comparison_json(const Profile& first, const Profile& second,
                                       const ProfileComparison& comparison);

// The answer of `validate` as JSON. Errors are shares: predicted / measured - 1.

nlohmann::ordered_json validation_json(const ValidationAnswer& answer);
nlohmann::ordered_json phase_points_json(const std::vector<PhasePoint>& points);

}  // namespace gpuplan

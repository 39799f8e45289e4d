// Models and GPUs of the catalogue for programs; base units in the names.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "report/catalogue_report.h"

namespace gpuplan {

nlohmann::ordered_json models_json(const std::vector<CatalogueEntry>& entries);  // {"models": [...]}
nlohmann::ordered_json model_json(const ModelReport& report);                    // one element, with shape and tensors
nlohmann::ordered_json gpus_json(const std::vector<GpuReport>& reports);         // {"gpus": [...]}

}  // namespace gpuplan

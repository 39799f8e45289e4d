// Models and GPUs of the catalogue for people: lists, and one explained.
#pragma once

#include <string>
#include <vector>

#include "report/catalogue_report.h"
#include "report/text/screen.h"

namespace gpuplan {

std::string models_text(const std::vector<CatalogueEntry>& entries, const Screen& screen);
std::string model_text(const ModelReport& report, const Screen& screen);
std::string gpus_text(const std::vector<GpuReport>& reports, const Screen& screen);
std::string gpu_text(const GpuReport& report, const Screen& screen);

}  // namespace gpuplan

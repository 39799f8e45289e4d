// Answers as pages that work offline: the page of web/page as one file, with the answer in it as JSON.
#pragma once

#include <string>

#include "report/answers.h"
#include "report/html/timeline_data.h"

namespace gpuplan {

std::string estimate_report(const EstimateAnswer& answer, const std::string& command);

std::string plan_report(const PlanAnswer& answer);

/// Measured beside predicted, what explains the gap, the parts of the step.
std::string diagnosis_report(const DiagnosisAnswer& answer);

/// The timeline of a step and what explains it. Big runs are thinned to `limits`, and the page says so.
std::string simulation_report(const SimulationAnswer& answer, const TimelineLimits& limits = {});

}  // namespace gpuplan

// Answers as HTML pages that work offline.
#pragma once

#include <string>

#include "report/answers.h"
#include "report/html/timeline_data.h"

namespace gpuplan {

// The answer of `gpuplan plan` as one page that works offline: the sentence, the plans as a chart of time and cost that
// one can point at, their commands, and the knobs. Nothing is fetched.

std::string plan_report(const PlanAnswer& answer);

/// The answer of `gpuplan diagnose` as a page: measured beside predicted, what explains it, the parts of the step.
std::string diagnosis_report(const DiagnosisAnswer& answer);

// The report of `gpuplan simulate`: one HTML page that shows and explains a step, works offline and prints.

/// The whole page. Big runs are thinned to `limits`, and the page says so.
std::string simulation_report(const SimulationAnswer& answer, const TimelineLimits& limits = {});

}  // namespace gpuplan

// The report of `gpuplan simulate`: one HTML page that shows and explains a step, works offline and prints.
#pragma once

#include <string>

#include "report/answers.h"
#include "report/html/timeline_data.h"

namespace gpuplan {

/// The whole page. Big runs are thinned to `limits`, and the page says so.
std::string simulation_report(const SimulationAnswer& answer, const TimelineLimits& limits = {});

}  // namespace gpuplan

// A simulated step as a trace for Perfetto and chrome://tracing: GPUs are processes, streams are threads.
// Source of the format: Trace Event Format (Google, 2016).
#pragma once

#include <string>

#include "report/answers.h"

namespace gpuplan {

/// The whole JSON document. Times are exact to the picosecond; equal simulations give equal bytes.
std::string chrome_trace(const SimulationAnswer& answer);

}  // namespace gpuplan

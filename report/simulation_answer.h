// What the simulate command has to show: the question, the step of one plan, and its neighbours (strategies, GPU
// counts).
#pragma once

#include <string>
#include <vector>

#include "planner/estimate.h"
#include "sim/simulation.h"

namespace gpuplan {

struct SimulationAnswer {
  EstimateRequest request;
  EstimateResult result;  // model, framework, profile and ranges; strategies may be empty
  SimOptions options;
  SimulatedPlan plan;                     // looked at closely
  std::vector<SimulatedPlan> comparison;  // other strategies beside it, in the order to show; may be empty
  std::vector<SimulatedPlan> scaling;     // the same strategy on more and more GPUs; may be empty
  std::vector<std::string> assumptions;
  std::string command;       // the command line, as typed
  std::string topology_svg;  // a picture of the machine for the report; may be empty
};

}  // namespace gpuplan

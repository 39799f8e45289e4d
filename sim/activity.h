// What an instruction does, in the words of a timeline.
#pragma once

#include "planner/step_program.h"
#include "sim/simulation.h"

namespace gpuplan {

Activity activity_of(const StepProgram& all, const RankProgram& program, const Instruction& instruction);

}  // namespace gpuplan

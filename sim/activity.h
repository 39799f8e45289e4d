// What an instruction does, in the words of a timeline.
#pragma once

#include "planner/step_program.h"
#include "sim/simulation.h"

namespace gpuplan {

Activity activity_of(const StepProgram& all, const RankProgram& program, const Instruction& instruction);

/// Whether it is one of the collectives, in which every rank of a group takes part.
bool is_collective(OpCode op);

}  // namespace gpuplan

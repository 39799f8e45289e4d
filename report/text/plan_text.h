// The answer of `gpuplan plan` as text: a sentence, the rows of the frontier with their commands, the knobs, and what
// was searched.
#pragma once

#include <string>

#include "report/answers.h"
#include "search/largest.h"

namespace gpuplan {

/// "Rent 2x H100 SXM at runpod and train with fsdp: 4 h 10 min, $38."
std::string plan_sentence(const PlanAnswer& answer);

/// "21 % less time, 31.0 GiB more: does not fit".
std::string knob_effect(const Knob& knob, const PlanRow& plan);

/// "412,345 plans in 3.1 s; rejected: 310,000 do not fit, …".
std::string searched_text(const SearchAnswer& found);

std::string plan_text(const PlanAnswer& answer, const Screen& screen);

/// Models by context, each cell the method that carries it: "LoRA", "QLoRA*" with offload, "full?" tightly.
std::string largest_text(const LargestTable& table, const SearchQuestion& question, const Screen& screen);
std::string carried_word(const Carried& carried);

}  // namespace gpuplan

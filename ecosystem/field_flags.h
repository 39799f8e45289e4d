// The flags that plan a field of a plan as another program's files have it: what `gpuplan export` answers where a
// format cannot say what the plan says.
#pragma once

#include <string>
#include <vector>

#include "planner/estimate.h"

namespace gpuplan {

/// A field of a plan file, by its path ("lora.rank"), or with all below it ("lora").
struct FieldFlag {
  std::string_view field;
  /// The flag with its value as `r` has it; "without --fp8" where the flag is not to be given; "" where it says
  /// nothing.
  std::string (*words)(const EstimateRequest& r, const Strategy& strategy);
};

/// nullptr for a field that no flag sets.
const FieldFlag* find_field_flag(std::string_view field);

/// "plan with --attention sdpa --loss plain, without --fp8" for the fields that differ; empty where none has a flag.
std::string plan_with(const std::vector<std::string>& fields, const EstimateRequest& r, const Strategy& strategy);

}  // namespace gpuplan

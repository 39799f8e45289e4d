// Causes that make a step take longer or shorter than predicted: rows over the table of changes (planner/changes.h),
// each with the values that are tried, and how a user sees whether it is so.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planner/changes.h"

namespace gpuplan {

/// One thing that may differ from the plan: settings, or a wait that no GPU and no link has a part in.
struct Difference {
  std::vector<Setting> settings;
  double wait = 0;  // of the training loop, over the predicted step
};

struct Cause {
  std::string_view name;   // "p2p"
  std::string_view says;   // "peer-to-peer between the GPUs is off: NCCL goes through the host's memory"
  std::string_view check;  // how to see it, or undo it
  /// The likeliest value first: each is taken to be half as likely as the one before. Empty: it cannot be here.
  std::vector<Difference> (*ways)(const Variant& asked, const Strategy& strategy);
  /// Says how often it is so beside the others, before anything is measured. By judgement: what a trainer's defaults
  /// exclude, and what its log or a failing start would show, is rarer.
  double prior = 1;
};

std::span<const Cause> causes();

}  // namespace gpuplan

// Causes that make a step take longer or shorter than predicted: rows over the table of changes (planner/changes.h),
// each with the values that are tried, and how a user sees whether it is so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/changes.h"

namespace gpuplan {

/// One thing that may differ from the plan: settings, or a wait that no GPU and no link has a part in.
struct Difference {
  std::vector<Setting> settings;
  double wait = 0;  // of the training loop, over the predicted step
};

/// Lists the values of a cause, the likeliest first: each is taken to be half as likely as the one before. Empty: it
/// cannot be here.
using Ways = std::vector<Difference> (*)(const Variant& asked, const Strategy& strategy);

/// A row of data/causes.yaml.
struct Cause {
  std::string name;   // "p2p"
  std::string says;   // "peer-to-peer between the GPUs is off: NCCL goes through the host's memory"
  std::string check;  // how to see it, or undo it
  Ways ways{};
  /// Says how often it is so beside the others, before anything is measured. By judgement: what a trainer's defaults
  /// exclude, and what its log or a failing start would show, is rarer.
  double prior = 1;
};

std::span<const Cause> causes();

}  // namespace gpuplan

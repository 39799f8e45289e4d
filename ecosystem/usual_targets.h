// The modules that PEFT adapts where a file names none: rows of data/ecosystem/usual_targets.yaml, by kind of adapters
// and type of model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/adapter_kind.h"

namespace gpuplan {

/// The word that tables state for them: fact targets, [usual].
inline constexpr std::string_view kUsualTargets = "usual";

/// The names of modules, or one expression; empty: PEFT has none for the type, and stops.
std::vector<std::string> usual_targets(const AdapterKind& kind, std::string_view model_type);

}  // namespace gpuplan

// From what the user typed after --model to a ModelSpec: a short name of data/models, a Hugging Face config.json,
// or a model directory whose checkpoint headers are compared with the computed tensors.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "models/catalogue_file.h"
#include "models/hub/hub.h"

namespace gpuplan {

/// Every entry of data/models, sorted by name, read once. Throws EnvError when the folder is missing.
const std::vector<CatalogueEntry>& list_catalogue();

/// The entry that a name means, matched as load_model does; nullptr for others.
const CatalogueEntry* find_in_catalogue(std::string_view name);

/// Reads `--model`. A path that exists wins over a name; a name is matched forgivingly (case, separators,
/// "meta-llama/",
/// "-hf", "llama2-7b" for llama-2-7b). Throws InputError with the nearest names for an unknown one, with "not modelled
/// yet" for a known family that has no builder, and for a checkpoint that differs by more than 2 %.
/// With `hub`, an "org/name" that the catalogue lacks is looked for in the local caches, then on the Hub unless it is
/// offline (models/hub/hub.h); EnvError when the Hub cannot be asked.
LoadedModel load_model(std::string_view text, const std::optional<HubSettings>& hub = {});

/// Gets `id` from the Hub anew, whatever the catalogue and the caches hold, and keeps it in gpuplan's cache. Throws
/// InputError and EnvError as load_model.
LoadedModel refresh_model(const std::string& id, const HubSettings& hub);

}  // namespace gpuplan

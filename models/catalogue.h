// From what the user typed after --model to a ModelSpec: a short name of data/models, a Hugging Face config.json,
// or a model directory whose checkpoint headers are compared with the computed tensors.
#pragma once

#include <string_view>
#include <vector>

#include "models/catalogue_file.h"

namespace gpuplan {

/// Every entry of data/models, sorted by name. Throws EnvError when the folder is missing.
std::vector<CatalogueEntry> list_catalogue();

/// Reads `--model`. A path that exists wins over a name; a name is matched forgivingly (case, separators,
/// "meta-llama/",
/// "-hf", "llama2-7b" for llama-2-7b). Throws InputError with the nearest names for an unknown one, with "not modelled
/// yet" for a known family that has no builder, and for a checkpoint that differs by more than 2 %.
LoadedModel load_model(std::string_view text);

}  // namespace gpuplan

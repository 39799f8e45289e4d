// Model names as people type them: "llama3-8b", "Llama 3 8B", "meta-llama/Meta-Llama-3-8B-Instruct" are llama-3-8b.
#pragma once

#include <string_view>
#include <vector>

#include "models/catalogue_file.h"

namespace gpuplan {

/// The entries that `text` may mean; one when it is clear. Case and separators are ignored, and so are words that do
/// not change the shape (hf, instruct, chat, base, it, pt, text, meta), unless the entry's short name has them. A
/// version
/// ("v0.3", "2407") may be left out, but not differ. An organisation must be the entry's own. Digits are never
/// regrouped: "qwen2-57b" is not qwen2.5-7b.
std::vector<const CatalogueEntry*> match_model_name(std::string_view text, const std::vector<CatalogueEntry>& entries);

}  // namespace gpuplan

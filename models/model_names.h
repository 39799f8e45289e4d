// Model names as people type them: "llama3-8b", "Llama 3 8B", "meta-llama/Meta-Llama-3-8B-Instruct" are llama-3-8b.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue_file.h"

namespace gpuplan {

/// The entries that `text` may mean; one when it is clear. Case and separators are ignored, and so are words that do
/// not change the shape (hf, instruct, chat, base, it, pt, text, meta), unless the entry's short name has them. A
/// version
/// ("v0.3", "2407") may be left out, but not differ. A number format at the end ("-AWQ", "-bnb-4bit", "-Q4_K_M-GGUF")
/// means a copy. An organisation must be the entry's own, unless the name is that of such a copy, or the organisation
/// publishes copies (unsloth, NousResearch). Models that the entry lists under same_shape have names as good as its
/// own. Digits are never regrouped: "qwen2-57b" is not qwen2.5-7b.
std::vector<const CatalogueEntry*> match_model_name(std::string_view text, const std::vector<CatalogueEntry>& entries);

/// Says how `text`, which matches `entry`, is understood: that it is the entry, has its shape, or is a copy in another
/// number format. Empty when `text` is the entry's id.
std::string explain_match(std::string_view text, const CatalogueEntry& entry);

}  // namespace gpuplan

// What training leaves: a PEFT adapter, or the full model in safetensors.
#pragma once

#include <filesystem>
#include <string>

#include "run/executor.h"

namespace gpuplan {

/// A trained tensor's name in the files: its own, or peft's of its adapter.
std::string saved_name(const NativeJob& job, std::uint16_t unit, const PlacedTensor& tensor);

/// Throws InputError where a folder holds a model or adapter that gpuplan did not write: save_model would replace it.
void require_no_other_model(const std::filesystem::path& folder);

/// Adapters: adapter_config.json and adapter_model.safetensors. Full: model.safetensors (in shards when large),
/// config.json and the tokenizer's files copied from `model_folder`. Collective; rank 0 writes.
void save_model(const Executor& executor, const RankPlace& place, const std::filesystem::path& model_folder,
                const std::filesystem::path& to);

}  // namespace gpuplan

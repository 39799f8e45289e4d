// The tensors of the checkpoint in a model folder: from the safetensors headers, or only their names from the index
// when the shards are not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/safetensors.h"

namespace gpuplan {

struct Checkpoint {
  std::vector<SafetensorsTensor> tensors;    // names only when has_shapes is false
  std::vector<std::filesystem::path> files;  // of each tensor; empty when has_shapes is false
  bool has_shapes = true;
  std::optional<double> total_bytes;  // of the index: metadata.total_size
};

/// Reads model.safetensors, the shards of model.safetensors.index.json, or every other *.safetensors of `folder`, as
/// transformers would; nothing when there is none. Throws InputError when some shards are there and others are not, and
/// when a shard lacks a tensor of the index.
std::optional<Checkpoint> read_checkpoint(const std::filesystem::path& folder);

}  // namespace gpuplan

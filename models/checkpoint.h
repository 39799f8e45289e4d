// A model folder's checkpoint against the tensors computed from its config: the check that a plan counts what is there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_spec.h"
#include "models/safetensors.h"

namespace gpuplan {

/// The tensors of the checkpoint in a model folder: from the safetensors headers, or only their names from the index
/// when the shards are not there.
struct Checkpoint {
  std::vector<SafetensorsTensor> tensors;    // names only when has_shapes is false
  std::vector<std::filesystem::path> files;  // of each tensor; empty when has_shapes is false
  bool has_shapes = true;
  std::optional<double> total_bytes;  // of the index: metadata.total_size
};

/// Says what shards that the index lists and the folder lacks mean: a mistake, or a model of which only names are known
/// yet.
enum class MissingShards : std::uint8_t { Refuse, NamesOnly };

/// Reads model.safetensors, the shards of model.safetensors.index.json, or every other *.safetensors of `folder`, as
/// transformers would; nothing when there is none. NamesOnly: files that no index lists are not read. Throws InputError
/// when some shards are there and others are not (unless NamesOnly), and when a shard lacks a tensor of the index.
std::optional<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                          MissingShards missing = MissingShards::Refuse);

/// The meaning of a tensor that list_weights(model) does not have, if it is of a kind that is known and not loaded:
/// "rotary buffers", "layers that predict further tokens" of the families that have them; empty for any other.
std::string_view extra_meaning(std::string_view tensor, const ModelSpec& model);

/// Reads the safetensors headers in `folder` (none: no check) and compares names and shapes with list_weights(model).
/// Buffers, a stored copy of a tied head and vision parts are known extras. Returns notes, tensor by tensor when the
/// elements differ by more than 0.1 %; throws InputError above 2 %, for a broken file, and for a quantised checkpoint.
std::vector<std::string> check_checkpoint(const ModelSpec& model, const std::filesystem::path& folder,
                                          MissingShards missing = MissingShards::Refuse);

}  // namespace gpuplan

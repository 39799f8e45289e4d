// One rank's state in a checkpoint: a safetensors file of its blobs as bytes, and a last one that says what they must
// be.
#pragma once

#include <filesystem>
#include <vector>

#include "run/files/checkpoints.h"

namespace gpuplan {

/// "rank-00001-of-00004.safetensors" in `folder`.
std::filesystem::path rank_state_file(const std::filesystem::path& folder, std::int64_t rank, std::int64_t num_ranks);

/// Whole or not there. Throws EnvError.
void write_rank_state(const std::filesystem::path& folder, const CheckpointRank& rank, std::int64_t step,
                      const std::vector<StateBlob>& blobs);

/// Fills the blobs. Throws InputError for a file that is not there, other blobs or sizes, a wrong checksum; blobs may
/// be half filled then.
void read_rank_state(const std::filesystem::path& folder, const CheckpointRank& rank,
                     const std::vector<StateBlob>& blobs);

}  // namespace gpuplan

// Checkpoints of a run: folder `checkpoint-<step>` in the output folder, with one file of state per rank, what
// trainer_state.json holds, and the adapter or model as it then was. Whole or not there: made under a temporary name,
// synced, renamed by rank 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "run/files/rank_state.h"

namespace gpuplan {

/// Error of a rank that is well itself, and gives up because another is not: that one knows the cause.
class PeerFailed : public EnvError {
 public:
  using EnvError::EnvError;
};

class Checkpoints {
 public:
  /// `keep`: complete checkpoints that stay, 0: all.
  Checkpoints(std::filesystem::path output, std::int64_t keep, CheckpointRank rank);

  /// The latest complete checkpoint's step; ask before any rank saves. Temporary folders of killed runs are removed (by
  /// rank 0) and never taken for one.
  std::optional<std::int64_t> latest() const;
  /// A folder in the output that is named like a checkpoint and is another program's, if there is one.
  std::optional<std::filesystem::path> foreign() const;
  /// Writes this rank's blobs, with a checksum each; `facts` (the same on every rank) goes to trainer_state.json, with
  /// the id of this save, which every rank's file repeats;
  /// `export_model` is called on every rank with the temporary folder and may write adapter or model files there. Then
  /// older ones are removed. Throws EnvError, on every rank when one fails (PeerFailed on the others); on failure older
  /// checkpoints are as they were. The ranks meet four times; `export_model` is called on all ranks or on none, so it
  /// may be collective. A step that is saved again is replaced, another program's folder of that name never. `output`
  /// must be one folder for all ranks.
  void save(std::int64_t step, const std::vector<StateBlob>& blobs, const nlohmann::json& facts,
            const std::function<void(const std::filesystem::path&)>& export_model) const;
  /// trainer_state.json of a checkpoint. Throws InputError when it cannot be read, or says that it was saved after
  /// another step than its folder's name.
  nlohmann::json facts(std::int64_t step) const;
  /// The digest of that file: ranks that see the same checkpoint have the same. Throws InputError when it cannot be
  /// read.
  std::string facts_digest(std::int64_t step) const;
  /// Reads this rank's blobs back. Throws InputError for another number of ranks, a file of another rank or save,
  /// missing or other-sized blobs, a wrong checksum.
  void load(std::int64_t step, const std::vector<StateBlob>& blobs) const;

 private:
  void prune() const;
  std::filesystem::path folder_of(std::int64_t step) const;
  std::filesystem::path output_;
  std::int64_t keep_;
  CheckpointRank rank_;
};

}  // namespace gpuplan

// One rank's state in a checkpoint: a safetensors file of its blobs as bytes, and a last one that says what they must
// be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "run/files/tensor_files.h"

namespace gpuplan {

// A checksum of large memory, against damage on disks and in transfers; not against malice.

/// FNV-1a over eight-byte words in four lanes, each step's high half folded into its low one, so that every bit of a
/// word reaches the end; the rest byte by byte. Changing one word always changes it. Source of the constants: Fowler,
/// Noll and Vo, FNV-1a 64.
class Checksum {
 public:
  Checksum();
  /// The same for the same bytes, however they are cut in pieces.
  void add(std::span<const std::byte> piece);
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kBlock = 32;  // bytes: a word of each lane
  void add_block(const std::byte* block);
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, kBlock> rest_{};  // behind the last whole block
  std::size_t num_rest_ = 0;
  std::uint64_t size_ = 0;
};

std::uint64_t checksum(std::span<const std::byte> data);

/// A piece of a rank's state: a persistent buffer, wherever it lies.
struct StateBlob {
  std::string name;
  std::int64_t size{};                         // bytes
  std::function<void(const PieceSink&)> read;  // hands them out in order; may be called again
  std::function<void(std::int64_t begin, std::span<const std::byte> piece)> write;
};
/// Blob of memory that the host can touch.
StateBlob host_blob(std::string name, std::span<std::byte> data);

struct CheckpointRank {
  std::int64_t rank = 0, num_ranks = 1;
  std::function<std::int64_t(bool is_well)> meet;  // collective: the first rank that is not well, or -1; unset with one
};

/// "rank-00001-of-00004.safetensors" in `folder`.
std::filesystem::path rank_state_file(const std::filesystem::path& folder, std::int64_t rank, std::int64_t num_ranks);

/// The save that files belong to: all of one checkpoint say the same, and no other's does.
struct SaveId {
  std::string id;  // random
  std::int64_t step{};
  std::string facts;  // digest of trainer_state.json: what stands there decides how training goes on
};

/// Whole or not there. Throws EnvError.
void write_rank_state(const std::filesystem::path& folder, const CheckpointRank& rank, const SaveId& save,
                      const std::vector<StateBlob>& blobs);

/// Fills the blobs. Throws InputError for a file that is not there, that another rank or another save has written,
/// other blobs or sizes, a wrong checksum; blobs may be half filled then.
void read_rank_state(const std::filesystem::path& folder, const CheckpointRank& rank, const SaveId& save,
                     const std::vector<StateBlob>& blobs);

}  // namespace gpuplan

#include "run/files/rank_state.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest =
    "__manifest__";  // the tensor whose bytes are JSON: save, step, rank, num_ranks, a checksum by blob
constexpr std::int64_t kOneFile = std::numeric_limits<std::int64_t>::max();

std::string stem_of(std::int64_t rank, std::int64_t num_ranks) {
  return fmt::format("rank-{:05}-of-{:05}", rank, num_ranks);
}

TensorToWrite bytes_tensor(std::string name, std::span<const std::byte> data) {
  return {.name = std::move(name), .dtype = Dtype::U8, .shape = {std::ssize(data)}, .data = data};
}

std::vector<std::byte> bytes_of(const MappedTensor& tensor) {
  std::vector<std::byte> bytes(tensor.data.size());
  read_elements(tensor, 0, std::ssize(bytes), bytes.data(), Dtype::U8);
  return bytes;
}

json read_manifest(const TensorFiles& files, const std::string& where) {
  const MappedTensor* tensor = files.find(kManifest);
  if (!tensor || tensor->dtype != Dtype::U8) throw InputError(where, "is no state of a rank");
  const auto bytes = bytes_of(*tensor);
  json manifest = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, where);
  if (!manifest.is_object() || !manifest.value("checksums", json()).is_object())
    throw InputError(where, "is damaged: its list of checksums is not there");
  return manifest;
}

/// Origin of a rank's file, without the checksums.
json origin_of(const CheckpointRank& rank, const SaveId& save) {
  return {{"save", save.id},
          {"step", save.step},
          {"rank", rank.rank},
          {"num_ranks", rank.num_ranks},
          {"trainer_state.json", save.facts}};
}

/// A whole file may still be another rank's, or of another save, under this name.
void require_origin(const json& manifest, const json& wanted, const std::string& where) {
  for (const auto& [key, value] : wanted.items())
    if (const json said = manifest.value(key, json()); said != value)
      throw InputError(where,
                       fmt::format("does not belong to this checkpoint: it is of {} {}, wanted is {}", key, said.dump(),
                                   value.dump()),
                       "files of checkpoints cannot be exchanged: resume from another one");
}

std::uint64_t checksum_of(const StateBlob& blob) {
  Checksum sum;
  blob.read([&](std::span<const std::byte> piece) { sum.add(piece); });
  return sum.value();
}

void read_blob(const TensorFiles& files, const json& checksums, const StateBlob& blob, const std::string& where) {
  constexpr std::int64_t kPiece = 16 << 20;  // bytes
  const MappedTensor& tensor = files.get(blob.name, {blob.size});
  std::vector<std::byte> piece;
  Checksum sum;
  for (std::int64_t begin = 0; begin < blob.size; begin += kPiece) {
    piece.resize(std::size_t(std::min(kPiece, blob.size - begin)));
    read_elements(tensor, begin, begin + std::ssize(piece), piece.data(), Dtype::U8);
    sum.add(piece);
    blob.write(begin, piece);
  }
  const auto expected = checksums.find(blob.name);
  if (expected == checksums.end() || *expected != sum.value())
    throw InputError(where, fmt::format("'{}' is damaged: its checksum is wrong", blob.name),
                     "resume from another checkpoint");
}

constexpr std::uint64_t kBasis = 0xcbf29ce484222325U, kPrime = 0x100000001b3U;

std::uint64_t step(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 32);
}

}  // namespace

fs::path rank_state_file(const fs::path& folder, std::int64_t rank, std::int64_t num_ranks) {
  return folder / (stem_of(rank, num_ranks) + ".safetensors");
}

void write_rank_state(const fs::path& folder, const CheckpointRank& rank, const SaveId& save,
                      const std::vector<StateBlob>& blobs) {
  json checksums = json::object();
  std::vector<TensorToWrite> tensors;
  for (const StateBlob& blob : blobs) {
    GPUPLAN_CHECK(blob.name != kManifest && !checksums.contains(blob.name), "blobs have names of their own");
    checksums[blob.name] = checksum_of(blob);
    tensors.push_back({.name = blob.name, .dtype = Dtype::U8, .shape = {blob.size}, .data = {}, .read = blob.read});
  }
  json origin = origin_of(rank, save);
  origin["checksums"] = std::move(checksums);
  const std::string manifest = origin.dump();
  tensors.push_back(bytes_tensor(kManifest, std::as_bytes(std::span(manifest))));
  write_tensors(folder, stem_of(rank.rank, rank.num_ranks), tensors, kOneFile);
}

void read_rank_state(const fs::path& folder, const CheckpointRank& rank, const SaveId& save,
                     const std::vector<StateBlob>& blobs) {
  const fs::path file = rank_state_file(folder, rank.rank, rank.num_ranks);
  if (!is_there(file))
    throw InputError(folder.string(), fmt::format("holds no state of rank {} of {}", rank.rank, rank.num_ranks),
                     "resume with as many ranks as it was written by");
  static_cast<void>(InputFile(file));  // nothing but a file: a folder would be one of weights
  const TensorFiles files(file);
  const json manifest = read_manifest(files, file.string());
  require_origin(manifest, origin_of(rank, save), file.string());
  if (files.all().size() != blobs.size() + 1)
    throw InputError(file.string(),
                     fmt::format("holds {} pieces of state, this run has {}", files.all().size() - 1, blobs.size()),
                     "resume with the plan that it was written by");
  for (const StateBlob& blob : blobs) read_blob(files, manifest["checksums"], blob, file.string());
}

StateBlob host_blob(std::string name, std::span<std::byte> data) {
  return {.name = std::move(name),
          .size = std::ssize(data),
          .read = [=](const PieceSink& sink) { sink(data); },
          .write = [=](std::int64_t begin,
                       std::span<const std::byte> piece) { std::ranges::copy(piece, data.begin() + begin); }};
}

Checksum::Checksum() : lanes_{kBasis, kBasis + 1, kBasis + 2, kBasis + 3} {}

void Checksum::add_block(const std::byte* block) {
  std::array<std::uint64_t, 4> words{};
  std::memcpy(words.data(), block, kBlock);
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = step(lanes_[i], words[i]);
}

void Checksum::add(std::span<const std::byte> piece) {
  size_ += piece.size();
  if (num_rest_ > 0) {
    const std::size_t taken = std::min(kBlock - num_rest_, piece.size());
    std::copy_n(piece.begin(), taken, rest_.begin() + std::ptrdiff_t(num_rest_));
    num_rest_ += taken;
    piece = piece.subspan(taken);
    if (num_rest_ < kBlock) return;
    add_block(rest_.data());
    num_rest_ = 0;
  }
  for (; piece.size() >= kBlock; piece = piece.subspan(kBlock)) add_block(piece.data());
  std::ranges::copy(piece, rest_.begin());
  num_rest_ = piece.size();
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = step(kBasis, size_);
  for (const std::uint64_t lane : lanes_) hash = step(hash, lane);
  for (std::size_t i = 0; i < num_rest_; ++i) hash = step(hash, std::uint64_t(rest_[i]));
  return hash;
}

std::uint64_t checksum(std::span<const std::byte> data) {
  Checksum sum;
  sum.add(data);
  return sum.value();
}

}  // namespace gpuplan

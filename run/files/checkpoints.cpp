#include "run/files/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/sha256.h"
#include "rows/file_access.h"
#include "run/files/rank_state.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "checkpoint-", kUnfinished = ".tmp";
constexpr const char *kFacts = "trainer_state.json", *kSave = "save", *kStep = "saved_after_step";

/// Id of a save that no other has: 128 random bits.
std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

nlohmann::json read_facts(const fs::path& folder) { return read_json_file(folder / kFacts); }

std::string digest_of_facts(const fs::path& folder) { return sha256_hex(read_file(folder / kFacts)).substr(0, 16); }

/// Save that the files of a folder belong to. Throws InputError where it is another step's, or says nothing of it.
SaveId save_in(const fs::path& folder, std::int64_t step) {
  const nlohmann::json facts = read_facts(folder);
  const nlohmann::json id = facts.is_object() ? facts.value(kSave, nlohmann::json()) : nlohmann::json();
  const nlohmann::json said = facts.is_object() ? facts.value(kStep, nlohmann::json()) : nlohmann::json();
  const std::string where = (folder / kFacts).string();
  if (!id.is_string() || !said.is_number_integer())
    throw InputError(where, "does not say which save it is of", "resume from another checkpoint");
  if (said != step)
    throw InputError(
        where, fmt::format("was saved after step {}, and its folder is named as that of step {}", said.dump(), step),
        "give the folder its name back, or resume from another checkpoint");
  return {.id = id.get<std::string>(), .step = step, .facts = digest_of_facts(folder)};
}

/// The step of a folder's name; nothing when it is none of ours.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kFolderPrefix) || name.size() > kFolderPrefix.size() + 18) return std::nullopt;
  const std::string digits = name.substr(kFolderPrefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return parse_integer(digits, name, 0);
}

/// Other programs name their checkpoints alike: ours have the state of a first rank.
bool is_ours(const fs::path& folder) {
  return is_there(folder / kFacts) && std::ranges::any_of(names_in(folder), [](const std::string& name) {
           return name.starts_with("rank-00000-of-");
         });
}

/// Rising.
std::vector<std::int64_t> complete_steps(const fs::path& output) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(output))
    if (const auto step = step_of(name); step && is_folder(output / name) && is_ours(output / name))
      steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

fs::path unfinished(const fs::path& folder) { return folder.string() + std::string(kUnfinished); }

void remove_folder(const fs::path& folder) {
  std::error_code error;  // what stays is removed with the leftovers
  fs::remove_all(folder, error);
}

void remove_leftovers(const fs::path& output) {
  for (const std::string& name : names_in(output))
    if (name.ends_with(kUnfinished) && step_of(name.substr(0, name.size() - kUnfinished.size())))
      remove_folder(output / name);
}

/// Under a name that is never taken for a checkpoint before it loses its first file, also not after a power loss.
void remove_checkpoint(const fs::path& folder) {
  std::error_code error;
  fs::rename(folder, unfinished(folder), error);
  if (error) return remove_folder(folder);
  sync_path(folder.parent_path());
  remove_folder(unfinished(folder));
}

/// One that nobody else has put there, also not as a link.
void make_new_folder(const fs::path& folder) {
  make_folders(folder.parent_path());
  std::error_code error;
  if (!fs::create_directory(folder, error))
    throw EnvError(fmt::format("{}: {}", folder.string(),
                               error ? "the folder cannot be made: " + error.message() : "is there already"));
}

void sync_folder(const fs::path& folder) {
  for (const std::string& name : names_in(folder))
    is_folder(folder / name) ? sync_folder(folder / name) : sync_path(folder / name);
  sync_path(folder);
}

/// Gives a finished folder its name. One that has it already (the step was run again) is exchanged, so that one of the
/// two is there at any moment; only where the file system cannot, it is removed first.
void publish(const fs::path& from, const fs::path& to) {
  if (is_there(to) && !is_ours(to))
    throw EnvError(
        fmt::format("{}: is there already, and no checkpoint of gpuplan's: give another --output", to.string()));
  if (is_folder(to)) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      sync_path(to.parent_path());
      return remove_folder(from);
    }
    if (errno == EINVAL || errno == ENOSYS) remove_folder(to);
  }
  if (std::rename(from.c_str(), to.c_str()) != 0)
    throw EnvError(
        fmt::format("{}: the finished checkpoint cannot get its name: {}", to.string(), std::strerror(errno)));
}

/// Runs a rank's part of a save; returns what it threw, so that the rank meets the others all the same.
template <class Part>
std::exception_ptr attempt(Part part) {
  try {
    part();
  } catch (const fs::filesystem_error& error) {
    return std::make_exception_ptr(EnvError(std::string("the checkpoint cannot be written: ") + error.what()));
  } catch (const InputError& error) {  // a file that this save has written is gone
    return std::make_exception_ptr(EnvError(error.what()));
  } catch (...) { return std::current_exception(); }
  return nullptr;
}

}  // namespace

Checkpoints::Checkpoints(fs::path output, std::int64_t keep, CheckpointRank rank)
    : output_(std::move(output)),
      keep_(keep),
      rank_(std::move(rank)) {
  if (!rank_.meet) rank_.meet = [](bool is_well) { return is_well ? -1 : 0; };
}

fs::path Checkpoints::folder_of(std::int64_t step) const { return output_ / fmt::format("{}{}", kFolderPrefix, step); }

std::optional<std::int64_t> Checkpoints::latest() const {
  if (rank_.rank == 0) remove_leftovers(output_);
  const auto steps = complete_steps(output_);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::optional<fs::path> Checkpoints::foreign() const {
  for (const std::string& name : names_in(output_))
    if (step_of(name) && !is_ours(output_ / name)) return output_ / name;
  return std::nullopt;
}

void Checkpoints::save(std::int64_t step, const std::vector<StateBlob>& blobs, const nlohmann::json& facts,
                       const std::function<void(const fs::path&)>& export_model) const {
  const fs::path folder = folder_of(step), making = unfinished(folder);
  const bool is_first = rank_.rank == 0;
  std::exception_ptr failure;
  // Each part is done by all ranks or given up by all; every rank takes part in the same exchanges, whether its own
  // part succeeded or not.
  const auto together = [&](auto part, const fs::path& where, std::string_view what) {
    if (!failure) failure = attempt(part);
    const std::int64_t failed = rank_.meet(!failure);
    if (failed >= 0 && !failure)
      failure = std::make_exception_ptr(PeerFailed(fmt::format("{}: rank {} {}", where.string(), failed, what)));
  };
  const auto by_first = [&](auto part) {
    return [=] {
      if (is_first) part();
    };
  };
  together(by_first([&] {
             remove_leftovers(output_);
             make_new_folder(making);
             nlohmann::json own = facts;
             own[kSave] = new_id(), own[kStep] = step;
             write_file_atomically(making / kFacts, json_text(own));
           }),
           making, "could not make this folder");
  SaveId save;
  together(
      [&] {
        if (!is_folder(making))
          throw EnvError(
              fmt::format("{}: rank {} does not see what rank 0 made: --output must be one folder for all ranks",
                          making.string(), rank_.rank));
        save = save_in(making, step);
      },
      making, "does not see this folder: --output must be one for all ranks");
  together(
      [&] {
        if (export_model) export_model(making);
        write_rank_state(making, rank_, save, blobs);  // last: where it is, all of this rank's part is
      },
      making, "could not write its state, so there is no checkpoint of this step");
  together(by_first([&] { sync_folder(making), publish(making, folder), sync_path(output_); }), folder,
           "could not finish the checkpoint");
  if (failure && is_first) remove_leftovers(output_);
  if (failure) std::rethrow_exception(failure);
  if (is_first) prune();
}

void Checkpoints::prune() const {
  const auto steps = complete_steps(output_);
  const std::int64_t surplus = keep_ == 0 ? 0 : std::ssize(steps) - keep_;
  for (std::int64_t i = 0; i < surplus; ++i) remove_checkpoint(folder_of(steps[std::size_t(i)]));
}

nlohmann::json Checkpoints::facts(std::int64_t step) const {
  static_cast<void>(save_in(folder_of(step), step));
  return read_facts(folder_of(step));
}

std::string Checkpoints::facts_digest(std::int64_t step) const { return digest_of_facts(folder_of(step)); }

void Checkpoints::load(std::int64_t step, const std::vector<StateBlob>& blobs) const {
  read_rank_state(folder_of(step), rank_, save_in(folder_of(step), step), blobs);
}

}  // namespace gpuplan

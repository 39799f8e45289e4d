#include "run/files/output_folder.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "rows/file_access.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".gpuplan.lock";

/// Whether the folder was not there before. New names are on the disk before anything is in them: what a folder holds
/// is lost with its name, synced or not.
bool make_folder(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> missing;
  const fs::path named = path.has_filename() ? path : path.parent_path();
  for (fs::path above = fs::absolute(named, error); !fs::exists(above, error) && above.has_relative_path();
       above = above.parent_path())
    missing.push_back(above);
  const bool is_made = fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw EnvError(fmt::format("--output {}: cannot be made: {}", path.string(), error.message()));
  for (const fs::path& folder : missing) sync_path(folder.parent_path());
  return is_made;
}

/// A page of data to the disk: permissions are known before, room is not.
void prove_writable(const fs::path& folder, int file) {
  const std::string page(4096, '\n');
  ssize_t written = 0, left = std::ssize(page);
  while (left > 0 && (written = write(file, page.data(), std::size_t(left))) > 0) left -= written;
  if (left == 0 && fsync(file) == 0) return;
  throw EnvError(
      fmt::format("--output {}: cannot be written to: {}", folder.string(), std::strerror(written == 0 ? EIO : errno)));
}

void remove_temporary_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (is_temporary_name(item.path().filename().string())) leftovers.push_back(item.path());
  for (const fs::path& file : leftovers) unlink(file.c_str());
}

}  // namespace

OutputFolder::OutputFolder(fs::path path) : path_(std::move(path)), is_made_(make_folder(path_)) {
  try {
    lock_.emplace(path_ / kLock, "another run writes to this folder; give another --output, or wait for its end");
    prove_writable(path_, lock_->file());
  } catch (const EnvError&) {
    if (lock_) lock_->remove();
    throw;
  }
  remove_temporary_files(path_);
}

OutputFolder::~OutputFolder() {
  lock_->remove();
  lock_.reset();
  if (is_made_) rmdir(path_.c_str());  // fails where something is in it
}

}  // namespace gpuplan

#include "cli/mended_files.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "cli/output_flags.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

void require_place(const MendedFile& file) {
  if (file.before.empty()) {
    if (is_there(file.name)) throw InputError(file.name, "is there already", "move it away, or give it too");
    return;
  }
  if (follow_links(file.name) != fs::path(file.name))
    throw InputError(file.name, "is a link, which is not followed", "name the file itself, or take --output");
  if (!is_file(file.name)) throw InputError(file.name, "is no file that can be replaced", "--output writes elsewhere");
  if (read_file(file.name) != file.before) throw InputError(file.name, "changed while it was read", "start again");
  require_writable(file.name);
}

/// A name beside the file that nothing has.
fs::path backup_of(const std::string& name) {
  fs::path place = name + ".orig";
  for (int number = 2; is_there(place) || follow_links(place) != place; ++number)
    place = fmt::format("{}.orig{}", name, number);
  return place;
}

}  // namespace

void write_in_place(const MendedFiles& mended, Console& console) {
  for (const MendedFile& file : mended.files) require_place(file);
  for (const MendedFile& file : mended.files) {
    std::string kept;
    if (!file.before.empty()) {
      const fs::path backup = backup_of(file.name);
      write_file_atomically(backup, file.before);
      kept = fmt::format("; {} has it as it was", backup.string());
    }
    write_file_atomically(file.name, file.after);
    console.tell(fmt::format("wrote {}{}", file.name, kept));
  }
}

void write_elsewhere(const MendedFiles& mended, const std::string& place, Replaces replaces, Console& console) {
  const bool is_in_folder = is_folder(place);
  if (!is_in_folder && mended.files.size() > 1)
    throw InputError("--output", fmt::format("{} files change, and {} is no folder", mended.files.size(), place),
                     "name a folder that is there");
  for (const MendedFile& file : mended.files) {
    const std::string target = is_in_folder ? (fs::path(place) / fs::path(file.name).filename()).string() : place;
    if (is_in_folder && follow_links(target) != fs::path(target))
      throw InputError(target, "is a link, which is not followed", "an empty folder takes them all");
    if (is_in_folder && is_there(target) && replaces != Replaces::Everything)
      throw InputError(target, "is there already", "an empty folder takes them all; --force replaces it");
    write_output(target, file.after, console, fmt::format("wrote {}", target));
  }
}

}  // namespace gpuplan

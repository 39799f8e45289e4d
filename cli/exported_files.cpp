#include "cli/exported_files.h"

#include <ostream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

/// Says whether an export wrote a file: JSON has a text of its own for it, and of other files the first line that is
/// not for the shell or for Slurm says so.
bool is_ours(const std::filesystem::path& file) {
  constexpr std::string_view kMade = "Made by gpuplan ";
  constexpr std::int64_t kEnough = 16 << 10;  // bytes of such lines
  if (text_at_top(file, kMadeByKey).starts_with(kMade)) return true;
  for (const std::string& line : split(InputFile(file).read(0, kEnough), '\n'))
    if (!line.starts_with("#!") && !line.starts_with("#SBATCH")) return line.starts_with(fmt::format("# {}", kMade));
  return false;
}

/// A link may lead out of the folder, and what is no file cannot be replaced by one: neither is ever written to.
bool may_replace(const std::filesystem::path& file, Replaces replaces) {
  const bool is_link = follow_links(file) != file;
  if (!is_link && !is_there(file)) return true;
  if (is_link || !is_file(file))
    throw InputError(file.string(), is_link ? "is a link, which is not followed" : "is there already, and no file",
                     "remove it, or name another folder");
  if (replaces == Replaces::Everything) return true;
  return replaces == Replaces::Ours && is_ours(file);
}

}  // namespace

void write_exported(const std::vector<ExportedFile>& files, const std::filesystem::path& folder, Replaces replaces,
                    Console& console, const std::filesystem::path& input) {
  namespace fs = std::filesystem;
  const std::string read = input.empty() ? "" : file_identity(input);
  for (const ExportedFile& file : files)
    if (!read.empty() && file_identity(folder / file.name) == read)
      throw InputError((folder / file.name).string(), "is what the files are made from", "name another folder");
  for (const ExportedFile& file : files)
    if (!may_replace(folder / file.name, replaces))
      throw InputError((folder / file.name).string(), "is there already", "--force replaces it");
  make_folders(folder);
  for (const ExportedFile& file : files) {
    using fs::perms;
    write_file_atomically(folder / file.name, file.content);
    if (file.is_private)
      set_permissions(folder / file.name,
                      perms::owner_read | perms::owner_write | (file.is_program ? perms::owner_exec : perms::none));
    else if (file.is_program)
      set_permissions(folder / file.name, perms::owner_exec | perms::group_exec, fs::perm_options::add);
    console.tell(fmt::format("wrote {}", (folder / file.name).string()));
  }
}

std::string listing_of(const std::vector<ExportedFile>& files) {
  std::string out;
  for (const ExportedFile& file : files) out += fmt::format("==> {} <==\n{}\n", file.name, file.content);
  return out;
}

}  // namespace gpuplan

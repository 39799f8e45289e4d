#include "cli/exported_files.h"

#include <ostream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"

namespace gpuplan {
namespace {

/// A link may lead out of the folder, and what is no file cannot be replaced by one: neither is ever written to.
bool may_replace(const std::filesystem::path& file, Replaces replaces) {
  const bool is_link = follow_links(file) != file;
  if (!is_link && !is_there(file)) return true;
  if (is_link || !is_file(file))
    throw InputError(file.string(), is_link ? "is a link, which is not followed" : "is there already, and no file",
                     "remove it, or name another folder");
  if (replaces == Replaces::Everything) return true;
  return replaces == Replaces::Ours && has_mark(file, "Made by gpuplan");
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
  constexpr auto kReadWrite = fs::perms::owner_read | fs::perms::owner_write;
  std::error_code failed;
  for (const ExportedFile& file : files) {
    write_file_atomically(folder / file.name, file.content);
    if (file.is_private)
      fs::permissions(folder / file.name, file.is_program ? fs::perms::owner_all : kReadWrite, failed);
    else if (file.is_program)
      fs::permissions(folder / file.name, fs::perms::owner_exec | fs::perms::group_exec, fs::perm_options::add, failed);
    console.tell(fmt::format("wrote {}", (folder / file.name).string()));
  }
}

std::string listing_of(const std::vector<ExportedFile>& files) {
  std::string out;
  for (const ExportedFile& file : files) out += fmt::format("==> {} <==\n{}\n", file.name, file.content);
  return out;
}

}  // namespace gpuplan

// Files: where our data lives, reading whole files, and writing so that nothing is ever half-written. All that opens a
// file goes through here (base/surroundings.h says why), and none of it waits for a pipe that nobody serves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_limits.h"

namespace gpuplan {

/// The folder with models/, gpus/, … : $GPUPLAN_DATA_DIR, else share/gpuplan/data beside the installed program, else
/// the source tree it was built from. Throws EnvError listing the places tried.
const std::filesystem::path& data_dir();
/// The next data_dir() looks again.
void forget_data_dir();

/// Says whether a path is below data_dir(), by its name: nobody changes that while the program runs.
bool is_shipped(const std::filesystem::path& path);

/// A path is what it leads to, through links too.
enum class PathKind : std::uint8_t { Nothing, File, Folder, Other };
PathKind kind_of(const std::filesystem::path& path);
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);  // a regular one
bool is_folder(const std::filesystem::path& path);
/// The names in a folder, sorted; none where there is no folder, or it may not be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);
/// The files in a folder whose names end so, sorted. Throws InputError for a name that cannot be shown.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, std::string_view ending);

/// This very program; empty where the system does not tell.
std::filesystem::path own_program();

/// A regular file, open for reading. Opening it never waits for anybody.
class InputFile {
 public:
  /// Throws InputError (`where` = the path) when it cannot be read, or is a folder, a pipe, a socket or a device.
  explicit InputFile(const std::filesystem::path& path);

  int descriptor() const { return file_ ? *file_ : -1; }
  /// All of it where it is a file of given surroundings, which has no descriptor; else null.
  const std::string* content() const { return content_; }
  std::int64_t size() const { return size_; }
  /// Up to `count` bytes from `begin` on; fewer where the file ends or cannot be read further.
  std::string read(std::int64_t begin, std::int64_t count) const;

 private:
  InputFile() = default;
  friend std::optional<InputFile> open_if_there(const std::filesystem::path& path);

  std::shared_ptr<const int> file_;       // closed with the last copy
  const std::string* content_ = nullptr;  // of a file of given surroundings
  std::int64_t size_{};
};

/// The whole file; of a pipe what is written to it, if somebody does within five seconds, and of a terminal what is
/// typed when it is asked for as /dev/stdin. Throws InputError (`where` = the path) when it cannot be read, is a
/// folder, a socket or another device, or is larger than `limit`.
std::string read_file(const std::filesystem::path& path, const InputLimit& limit = kFileLimit);

/// Returns a small file of the kernel's (/proc, /sys) or of gpuplan's own; nothing where it cannot be read.
std::optional<std::string> read_if_there(const std::filesystem::path& path);
/// Returns a regular file that others write to and may remove; nothing where it cannot be opened.
std::optional<InputFile> open_if_there(const std::filesystem::path& path);

/// Opens a file or folder of gpuplan's own, or of the kernel's, as open(2) does; children do not inherit it. The
/// descriptor, or -1 with errno set.
int open_own(const std::filesystem::path& path, int flags, unsigned mode = 0666);

enum class StandardStream : std::uint8_t { In, Out, Err };
bool is_terminal(StandardStream stream);
/// Writes to standard error past every stream: of a process that is about to end, in a handler of a signal too.
void say_to_stderr(std::string_view text);

/// A standard stream that is closed (`>&-`) would be the next file that is opened, and get the answer. It becomes an
/// empty input, to which nothing can be written.
void fill_closed_streams();

/// Reads the rest of a stream, such as standard input. Throws InputError naming `where`, also when it is larger than
/// `limit`.
std::string read_stream(std::istream& in, const std::string& where, const InputLimit& limit = kFileLimit);

/// Throws InputError naming `where` and the limit.
void require_size(std::size_t bytes, const std::string& where, const InputLimit& limit);

/// A new file beside `path`, open for writing, under a name of its own ("adapter.json.gpuplan-x7Qp2a"): it replaces
/// nothing and follows no link. The descriptor, or -1 with errno set.
int open_temporary(const std::filesystem::path& path, std::filesystem::path& temporary);
/// Says whether open_temporary gives such names, which a killed process may leave.
bool is_temporary_name(std::string_view name);
/// Gives a file the permissions of the one that it replaces, else those that a new file gets. False with errno set.
bool give_mode_of(const std::filesystem::path& replaced, int file);

/// Returns the path from the root on; the current folder of given surroundings is the root.
std::filesystem::path absolute_path(const std::filesystem::path& path);
/// Returns the same text for all paths that lead to one file or folder, there or not yet; "" for devices and pipes.
std::string file_identity(const std::filesystem::path& path);
/// Says whether a path leads to a file or folder that is open; another may have got its name.
bool leads_to(const std::filesystem::path& path, int file);
/// Says whether a file holds `text` from byte `at` on.
bool holds_at(const std::filesystem::path& file, std::int64_t at, std::string_view text);
/// Follows a link hop by hop; other paths stay as they are. The path to the link stays as it was given: it may lead
/// through an open descriptor (/proc/self/fd/N), which has no other name that is sure.
std::filesystem::path follow_links(std::filesystem::path path);
/// Devices, pipes and our own open files cannot be replaced by a file: they are written to as they are.
bool is_written_in_place(const std::filesystem::path& path);
/// Opens what is written to as it is, without waiting: a named pipe gets five seconds for somebody to read from it. The
/// descriptor, or -1 with errno set, to ENXIO where nobody does.
int open_in_place(const std::filesystem::path& path);
/// Writes all of `content`; returns 0, or the errno of the failure: EAGAIN where nobody takes anything for 5 s from a
/// pipe that was opened without waiting.
int write_all(int file, std::string_view content);

/// Makes a folder and those above it, unless it is there. Throws EnvError.
void make_folders(const std::filesystem::path& folder);

/// Removes a file, if it is there and can be removed.
void remove_file(const std::filesystem::path& path);
/// Sets or adds permissions where the file system has them.
void set_permissions(const std::filesystem::path& path, std::filesystem::perms perms,
                     std::filesystem::perm_options how = std::filesystem::perm_options::replace);

/// Throws EnvError unless a file could be made or replaced there: asked before work whose result goes to it.
void require_writable(const std::filesystem::path& path);

/// Writes to a temporary file beside `path` and renames it. Throws EnvError; on failure `path` is as it was.
/// A link is followed; a device or pipe such as /dev/stdout is written to directly. A named pipe from which nobody
/// reads for 5 s is given up.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

}  // namespace gpuplan

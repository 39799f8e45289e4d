#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/work_count.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

fs::path find_data_dir() {
  std::vector<fs::path> tried;
  std::error_code error;
  const auto usable = [&](const fs::path& dir) {
    tried.push_back(dir);
    return fs::is_directory(dir / "models", error);
  };
  if (const auto set = variable("GPUPLAN_DATA_DIR")) {
    if (usable(*set)) return *set;
    throw EnvError(fmt::format("GPUPLAN_DATA_DIR={} has no models/ folder", *set));
  }
  const fs::path program = own_program();
  if (!program.empty() && usable(program.parent_path().parent_path() / "share/gpuplan/data")) return tried.back();
  if (usable(GPUPLAN_SOURCE_DATA_DIR)) return tried.back();
  std::string places;
  for (const fs::path& dir : tried) places += "\n  " + dir.string();
  throw EnvError("the data folder of gpuplan was not found; tried:" + places + "\n  set GPUPLAN_DATA_DIR to it");
}

[[noreturn]] void fail_to_write(const fs::path& path, const char* what, int reason) {
  throw EnvError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(reason)));
}

constexpr int kPatience = 5'000;  // ms, for whoever is at the other end of a pipe

/// Says whether a path is one of this process's own streams, behind which the user chose who reads.
bool is_own_stream(const fs::path& path) {
  const std::string& name = path.native();
  return name == "/dev/stdout" || name == "/dev/stderr" || name.starts_with("/dev/fd/");
}

void write_in_place(const fs::path& path, const std::string& content) {
  const int file = open_in_place(path);
  if (file < 0 && errno == ENXIO) throw EnvError(path.string() + ": is a pipe from which nobody has read for 5 s");
  if (file < 0) fail_to_write(path, "cannot be written", errno);
  const int reason = write_all(file, content);
  close(file);
  if (reason == EAGAIN) throw EnvError(path.string() + ": is a pipe whose reader has taken nothing for 5 s");
  if (reason != 0) fail_to_write(path, "writing failed", reason);
}

constexpr std::size_t kPiece = 64 << 10;  // most files are smaller

void append(std::string& content, std::string_view piece, const std::string& where, const InputLimit& limit) {
  require_size(content.size() + piece.size(), where, limit);
  count_work(Work::Bytes, std::int64_t(piece.size()));
  content.append(piece);
}

[[noreturn]] void fail_to_read(const fs::path& path, int reason) {
  throw InputError(path.string(), fmt::format("cannot be read: {}", std::strerror(reason)));
}

/// An open file and its kind; without one, why.
struct Opened {
  std::shared_ptr<const int> file;  // closed with the last copy
  struct stat status {};
  std::string problem;
};

/// Every input is opened here, without waiting for whoever writes to a pipe.
Opened try_to_open(const fs::path& path) {
  const auto no_file = [](std::string why) { return Opened{.file = nullptr, .problem = std::move(why)}; };
  const auto unread = [&] { return no_file(fmt::format("cannot be read: {}", std::strerror(errno))); };
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0 && errno == ENXIO) return no_file("is a socket or a device, not a file");
  if (file < 0) return unread();
  Opened opened{.file = std::shared_ptr<const int>(new int{file}, [](const int* open_file) {
                  close(*open_file);
                  delete open_file;
                })};
  if (fstat(file, &opened.status) != 0) return unread();
  return S_ISDIR(opened.status.st_mode) ? no_file("is a folder, not a file") : opened;
}

Opened open_input(const fs::path& path) {
  Opened opened = try_to_open(path);
  if (!opened.file) throw InputError(path.string(), opened.problem);
  return opened;
}

[[noreturn]] void refuse_special(const fs::path& path, mode_t mode) {
  throw InputError(path.string(), fmt::format("is a {}, not a file", S_ISFIFO(mode) ? "pipe" : "device"));
}

/// Reads an open file to its end. The writer of a pipe may not have begun yet, or may never come.
std::string read_to_end(const fs::path& path, int file, bool waits, const InputLimit& limit) {
  std::string content, piece(kPiece, '\0');
  for (;;) {
    pollfd watched{file, POLLIN, 0};  // for each piece
    if (waits && poll(&watched, 1, kPatience) == 0)
      throw InputError(path.string(), "is a pipe to which nobody has written for 5 s", "give a file");
    const ssize_t count = read(file, piece.data(), piece.size());
    if (count == 0) return content;
    if (count < 0 && errno != EINTR && errno != EAGAIN) fail_to_read(path, errno);
    if (count > 0) append(content, std::string_view(piece).substr(0, std::size_t(count)), path.string(), limit);
  }
}

constexpr std::string_view kTemporary = ".gpuplan-", kUnique = "XXXXXX";

/// Surroundings that hold a path's file instead of the disk; null for the disk.
Surroundings* given_for(const fs::path& path) {
  Surroundings* const given = given_surroundings();
  return given && !is_shipped(path) ? given : nullptr;
}

std::string key_of(const fs::path& path) {
  std::string key = path.lexically_normal().string();
  while (key.size() > 1 && key.ends_with('/')) key.pop_back();
  return key;
}

const std::string* content_in(const Surroundings& given, const fs::path& path) {
  for (const auto* files : {&given.written, &given.files})
    if (const auto found = files->find(key_of(path)); found != files->end()) return &found->second;
  return nullptr;
}

/// The first parts of the paths below a folder: the names in it.
std::vector<std::string> given_names(const Surroundings& given, const fs::path& folder) {
  const std::string key = key_of(folder), start = key == "." ? "" : key == "/" ? key : key + "/";
  std::set<std::string> names;
  for (const auto* files : {&given.written, &given.files})
    for (auto at = files->lower_bound(start); at != files->end() && at->first.starts_with(start); ++at)
      if (start.empty() ? !at->first.starts_with('/') : true)
        names.insert(at->first.substr(start.size(), at->first.find('/', start.size()) - start.size()));
  return {names.begin(), names.end()};
}

const std::string& required_content(const Surroundings& given, const fs::path& path) {
  if (const std::string* const content = content_in(given, path)) return *content;
  if (!given_names(given, path).empty()) throw InputError(path.string(), "is a folder, not a file");
  fail_to_read(path, ENOENT);
}

std::mutex data_dir_mutex;
std::unique_ptr<const fs::path> known_data_dir;

}  // namespace

const fs::path& data_dir() {
  const std::lock_guard lock(data_dir_mutex);
  if (!known_data_dir) known_data_dir = std::make_unique<fs::path>(find_data_dir());
  return *known_data_dir;
}

void forget_data_dir() {
  const std::lock_guard lock(data_dir_mutex);
  known_data_dir.reset();
}

PathKind kind_of(const fs::path& path) {
  if (const Surroundings* const given = given_for(path))
    return content_in(*given, path)             ? PathKind::File
           : !given_names(*given, path).empty() ? PathKind::Folder
                                                : PathKind::Nothing;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return PathKind::Nothing;
  return fs::is_regular_file(status) ? PathKind::File : fs::is_directory(status) ? PathKind::Folder : PathKind::Other;
}

bool is_there(const fs::path& path) { return kind_of(path) != PathKind::Nothing; }
bool is_file(const fs::path& path) { return kind_of(path) == PathKind::File; }
bool is_folder(const fs::path& path) { return kind_of(path) == PathKind::Folder; }

std::vector<std::string> names_in(const fs::path& folder) {
  if (const Surroundings* const given = given_for(folder)) return given_names(*given, folder);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const std::string& name : names_in(folder)) {
    if (!name.ends_with(ending)) continue;
    require_plain_name(name, folder.string(), "give the file a name that can be shown, or take it out of the folder");
    files.push_back(folder / name);
  }
  return files;
}

fs::path follow_links(fs::path path) {
  if (given_for(path)) return path;
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code error;
  for (int hops = 0; hops < kMostLinks && fs::is_symlink(path, error); ++hops) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;
  }
  return path;
}

bool leads_to(const fs::path& path, int file) {
  struct stat held {
  }, named{};
  return fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

fs::path absolute_path(const fs::path& path) { return given_surroundings() ? "/" / path : fs::absolute(path); }

std::string file_identity(const fs::path& path) {
  if (given_for(path)) return key_of(path);
  if (is_written_in_place(path)) return {};
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return fmt::format("{}:{}", status.st_dev, status.st_ino);
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(follow_links(path), error), error);
  return error ? std::string() : whole.string();
}

bool holds_at(const fs::path& file, std::int64_t at, std::string_view text) {
  return InputFile(file).read(at, std::ssize(text)) == text;
}

bool is_written_in_place(const fs::path& path) {
  if (given_for(path)) return false;
  if (is_own_stream(path)) return true;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

int open_in_place(const fs::path& path) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  constexpr int kTries = kPatience / int(kPause.count());
  int file = -1;
  for (int i = 0; i < kTries; ++i) {
    file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 || errno != ENXIO) break;
    std::this_thread::sleep_for(kPause);
  }
  if (struct stat status{};
      file >= 0 && (is_own_stream(path) || fstat(file, &status) != 0 || !S_ISFIFO(status.st_mode)))
    fcntl(file, F_SETFL, O_WRONLY | O_APPEND);
  return file;
}

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(file, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (pollfd watched{file, POLLOUT, 0}; n < 0 && errno == EAGAIN) {
      if (poll(&watched, 1, kPatience) == 0) return EAGAIN;
      continue;
    }
    if (n <= 0) return n < 0 ? errno : EIO;
    content.remove_prefix(std::size_t(n));
  }
  return 0;
}

bool is_shipped(const fs::path& path) {
  return path.lexically_normal().string().starts_with(data_dir().lexically_normal().string() + "/");
}

fs::path own_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program;
}

void require_size(std::size_t bytes, const std::string& where, const InputLimit& limit) {
  if (bytes <= limit.bytes) return;
  throw InputError(where, fmt::format("is larger than {} MiB", limit.bytes / kMebibyte),
                   fmt::format("the most that {} may have; docs/limits.md lists the limits", limit.input));
}

InputFile::InputFile(const fs::path& path) {
  if (const Surroundings* const given = given_for(path)) {
    content_ = &required_content(*given, path);
    size_ = std::ssize(*content_);
    return;
  }
  const Opened opened = open_input(path);
  if (!S_ISREG(opened.status.st_mode)) refuse_special(path, opened.status.st_mode);
  file_ = opened.file;
  size_ = opened.status.st_size;
}

std::string InputFile::read(std::int64_t begin, std::int64_t count) const {
  const auto available = std::size_t(std::max<std::int64_t>(0, std::min(count, size_ - begin)));
  if (content_) return available == 0 ? std::string() : content_->substr(std::size_t(begin), available);
  std::string bytes(available, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pread(*file_, bytes.data() + done, bytes.size() - done, begin + std::int64_t(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += std::size_t(n);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_file(const fs::path& path, const InputLimit& limit) {
  if (const Surroundings* const given = given_for(path)) {
    std::string content;
    append(content, required_content(*given, path), path.string(), limit);
    return content;
  }
  const Opened opened = open_input(path);
  const mode_t mode = opened.status.st_mode;
  if (S_ISREG(mode)) return read_to_end(path, *opened.file, false, limit);
  if (S_ISFIFO(mode)) return read_to_end(path, *opened.file, true, limit);
  if (path != "/dev/stdin") refuse_special(path, mode);
  fcntl(*opened.file, F_SETFL, 0);  // a terminal is waited for
  return read_to_end(path, *opened.file, false, limit);
}

std::optional<std::string> read_if_there(const fs::path& path) {
  if (const Surroundings* const given = given_for(path)) {
    const std::string* const content = content_in(*given, path);
    return content ? std::optional(*content) : std::nullopt;
  }
  const Opened opened = try_to_open(path);
  if (!opened.file || !S_ISREG(opened.status.st_mode)) return std::nullopt;
  std::string content, piece(kPiece, '\0');
  for (;;) {
    const ssize_t count = read(*opened.file, piece.data(), piece.size());
    if (count == 0) return content;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || content.size() + std::size_t(count) > kFileLimit.bytes) return std::nullopt;
    append(content, std::string_view(piece).substr(0, std::size_t(count)), path.string(), kFileLimit);
  }
}

std::optional<InputFile> open_if_there(const fs::path& path) {
  if (given_for(path)) return is_file(path) ? std::optional(InputFile(path)) : std::nullopt;
  const Opened opened = try_to_open(path);
  if (!opened.file || !S_ISREG(opened.status.st_mode)) return std::nullopt;
  InputFile file;
  file.file_ = opened.file;
  file.size_ = opened.status.st_size;
  return file;
}

int open_own(const fs::path& path, int flags, unsigned mode) {
  if (given_surroundings()) return errno = EACCES, -1;
  return open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode);
}

bool is_terminal(StandardStream stream) { return !given_surroundings() && isatty(int(stream)) != 0; }

void say_to_stderr(std::string_view text) { static_cast<void>(!write(STDERR_FILENO, text.data(), text.size())); }

void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);  // takes the lowest number that is free
}

std::string read_stream(std::istream& in, const std::string& where, const InputLimit& limit) {
  std::string content, piece(kPiece, '\0');
  while (in) {
    in.read(piece.data(), kPiece);
    append(content, std::string_view(piece).substr(0, std::size_t(in.gcount())), where, limit);
  }
  if (in.bad()) throw InputError(where, "reading stopped half-way");
  return content;
}

int open_temporary(const fs::path& path, fs::path& temporary) {
  std::string name = path.string() + std::string(kTemporary) + std::string(kUnique);
  const int file = mkostemp(name.data(), O_CLOEXEC);
  temporary = name;
  return file;
}

bool is_temporary_name(std::string_view name) {
  const std::size_t ending = kTemporary.size() + kUnique.size();
  return name.size() > ending && name.substr(name.size() - ending).starts_with(kTemporary);
}

bool give_mode_of(const fs::path& replaced, int file) {
  struct stat old {};
  if (stat(replaced.c_str(), &old) == 0) return fchmod(file, old.st_mode & 0777) == 0;
  const mode_t mask = umask(0);
  umask(mask);
  return fchmod(file, 0666 & ~mask) == 0;
}

void make_folders(const fs::path& folder) {
  if (given_for(folder)) return;  // a folder is where a file is
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw EnvError(fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
}

void remove_file(const fs::path& path) {
  if (Surroundings* const given = given_for(path)) {
    given->written.erase(key_of(path));
    return;
  }
  std::error_code none;
  fs::remove(path, none);
}

void set_permissions(const fs::path& path, fs::perms perms, fs::perm_options how) {
  std::error_code none;
  if (!given_for(path)) fs::permissions(path, perms, how, none);
}

void require_writable(const fs::path& path) {
  if (given_for(path)) {
    if (is_folder(path)) fail_to_write(path, "cannot be written", EISDIR);
    return;
  }
  if (is_written_in_place(path)) {
    if (access(path.c_str(), W_OK) != 0) fail_to_write(path, "cannot be written", errno);
    return;
  }
  std::error_code error;
  if (fs::is_directory(path, error)) fail_to_write(path, "cannot be written", EISDIR);
  fs::path temporary;
  const int file = open_temporary(follow_links(path), temporary);
  if (file < 0) fail_to_write(path, "cannot be written", errno);
  close(file);
  unlink(temporary.c_str());
}

void write_file_atomically(const fs::path& path, const std::string& content) {
  if (Surroundings* const given = given_for(path)) {
    require_writable(path);
    given->written[key_of(path)] = content;
    return;
  }
  if (is_written_in_place(path)) return write_in_place(path, content);
  const fs::path target = follow_links(path);  // a link stays a link; its target is replaced
  fs::path temporary;
  const int file = open_temporary(target, temporary);
  if (file < 0) fail_to_write(path, "cannot be written", errno);
  int reason = write_all(file, content);
  if (reason == 0 && (!give_mode_of(target, file) || fsync(file) != 0)) reason = errno;
  close(file);
  const char* what = "writing failed";
  if (reason == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) reason = errno, what = "cannot be replaced";
  if (reason == 0) return;
  unlink(temporary.c_str());
  fail_to_write(path, what, reason);
}

}  // namespace gpuplan

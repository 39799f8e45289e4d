#include "calibrate/journal.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"

namespace gpuplan {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw EnvError(path.string() + " cannot be " + what + ": " + std::strerror(errno));
}

void write_line(int file, const std::filesystem::path& path, const std::string& line) {
  struct stat status {};
  if (fstat(file, &status) != 0) fail(path, "read");
  const std::string text = line + "\n";
  const ssize_t written = write(file, text.data(), text.size());
  if (written == ssize_t(text.size()) && fsync(file) == 0) return;
  const int error = written >= 0 && written < ssize_t(text.size()) ? ENOSPC : errno;
  if (ftruncate(file, status.st_size) != 0) errno = error;  // half a line would spoil the next one
  errno = error;
  fail(path, "written");
}

/// Lines that were written whole: the last one may be torn.
std::vector<std::string> whole_lines(const std::string& text) {
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? std::vector<std::string>{} : split(std::string_view(text).substr(0, end), '\n');
}

std::size_t size_of_lines(const std::vector<std::string>& lines) {
  std::size_t size = 0;
  for (const std::string& line : lines) size += line.size() + 1;
  return size;
}

}  // namespace

Journal::Journal(std::filesystem::path path, const std::string& header, JournalStart start)
    : path_(std::move(path)),
      lock_(path_, kOtherCalibration) {
  read(header, start);
}

void Journal::read(const std::string& header, JournalStart start) {
  GPUPLAN_CHECK(header.find('\n') == std::string::npos, "the header is one line");
  const auto lines = whole_lines(read_file(path_));
  const bool is_ours = start == JournalStart::Resume && !lines.empty() && lines.front() == header;
  if (ftruncate(lock_.file(), is_ours ? off_t(size_of_lines(lines)) : 0) != 0) fail(path_, "written");
  if (!is_ours) return write_line(lock_.file(), path_, header);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    try {
      samples_.push_back(sample_from_json(lines[i], path_.string()));
    } catch (const InputError&) {  // damaged: what it held is measured again
    }
  }
}

void Journal::add(const Sample& sample) {
  write_line(lock_.file(), path_, to_json_line(sample));
  samples_.push_back(sample);
}

void Journal::remove() {
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) fail(path_, "removed");
}

}  // namespace gpuplan

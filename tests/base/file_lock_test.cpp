#include "base/file_lock.h"

#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

/// What taking the lock says; empty when it is taken.
std::string refusal(const std::filesystem::path& path) {
  try {
    const FileLock lock(path, "another run is there");
  } catch (const EnvError& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("file lock: held by one at a time, and free again when it ends") {
  const test::ScratchFolder scratch;
  const auto path = scratch.path() / "lock";
  {
    const FileLock lock(path, "");
    CHECK(refusal(path) ==
          path.string() + " is in use by process " + std::to_string(getpid()) + ": another run is there");
  }
  CHECK(refusal(path).empty());
}

TEST_CASE("file lock: a file that its holder removed is no lock for who comes after") {
  const test::ScratchFolder scratch;
  const auto path = scratch.path() / "lock";
  std::optional<FileLock> first(std::in_place, path, "");
  first->remove();
  const FileLock second(path, "");  // of a new file, while the first is still open
  CHECK(!refusal(path).empty());
  first.reset();
  CHECK(!refusal(path).empty());
}

TEST_CASE("file lock: a planted link is not followed, and a folder that is not there is told") {
  const test::ScratchFolder scratch;
  const auto victim = scratch.write("victim", "kept");
  std::filesystem::create_symlink(victim, scratch.path() / "lock");
  CHECK(refusal(scratch.path() / "lock").find("cannot be opened") != std::string::npos);
  CHECK(refusal(scratch.path() / "none/lock").find("No such file") != std::string::npos);
}

TEST_CASE("reserved file: one process's until its content comes; left empty it is removed, what was there stays") {
  const test::ScratchFolder scratch;
  const auto path = scratch.path() / "trace.json";
  const auto reserve = [&] {
    try {
      const ReservedFile file(path, "another run is there");
    } catch (const EnvError& error) { return std::string(error.what()); }
    return std::string();
  };
  {
    const ReservedFile file(path, "");
    CHECK(reserve().find("another run is there") != std::string::npos);
  }
  CHECK(!std::filesystem::exists(path));
  {
    const ReservedFile file(path, "");
    write_file_atomically(path, "new");
  }
  CHECK(read_file(path) == "new");
  CHECK(reserve().empty());
  CHECK(read_file(path) == "new");
  const ReservedFile first("/dev/null", ""), second("/dev/null", "");
}

#include "base/own_folder.h"

#include <csignal>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace fs = std::filesystem;

TEST_CASE("own folder: removed at its end with all that is in it, and of a killed process when the next one is made") {
  const test::ScratchFolder scratch;
  const OwnFolder living(scratch.path());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const OwnFolder doomed(scratch.path());
    fs::create_directories(doomed.path() / "a/b");
    write_file_atomically(doomed.path() / "a/b/c", "x");
    write_file_atomically(scratch.path() / "doomed", doomed.path().string());
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const fs::path doomed = read_file(scratch.path() / "doomed");
  CHECK(fs::exists(doomed / "a/b/c"));
  CHECK((fs::status(doomed).permissions() & fs::perms::all) == fs::perms::owner_all);
  fs::path own;
  {
    const OwnFolder next(scratch.path());
    own = next.path();
    write_file_atomically(own / "file", "x");
    CHECK(!fs::exists(doomed));
    CHECK(fs::exists(living.path()));
  }
  CHECK(!fs::exists(own));
}

TEST_CASE("own folder: what has another name, owner or mode, or is a link or a file, is left alone") {
  const test::ScratchFolder scratch;
  const auto mine = [&](const std::string& name, fs::perms mode = fs::perms::owner_all) {
    const fs::path file = scratch.write(name + "/file", "mine");
    fs::permissions(file.parent_path(), mode);
    return file;
  };
  const fs::path longer = mine(".gpuplan-process-abcdefg"), output = mine("gpuplan-output"),
                 open_to_all = mine(".gpuplan-process-public", fs::perms::all), other = mine(".gpuplan-process-other1"),
                 linked = mine("elsewhere");
  fs::create_symlink("elsewhere", scratch.path() / ".gpuplan-process-linked");
  const fs::path regular = scratch.write(".gpuplan-process-a1B2c3", "mine");
  const bool is_root = chown(other.parent_path().c_str(), 12345, 12345) == 0;
  const OwnFolder folder(scratch.path());
  for (const fs::path& file : {longer, output, open_to_all, linked, regular}) {
    CAPTURE(file);
    CHECK(fs::exists(file));
  }
  CHECK(fs::exists(other) == is_root);
  CHECK_THROWS_AS(OwnFolder(scratch.path() / "none"), EnvError);
}

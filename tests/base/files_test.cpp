#include "base/files.h"

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/error.h"
#include "environment_variable.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

std::string problem_of_reading(const fs::path& path) {
  try {
    read_file(path);
  } catch (const InputError& error) {
    CHECK(error.where() == path.string());
    return error.problem();
  }
  return "read";
}

std::string failure_of_writing(const fs::path& path) {
  try {
    write_file_atomically(path, "new");
  } catch (const EnvError& error) { return error.what(); }
  return "written";
}

TEST_CASE("read_file returns every byte of a file, also none") {
  const ScratchFolder scratch;
  const std::string bytes("a\r\n\0\xff z\n", 8);
  CHECK(read_file(scratch.write("all", bytes)) == bytes);
  CHECK(read_file(scratch.write("none", "")) == "");
}

TEST_CASE("read_file: a file that cannot be read is the user's mistake, told with its path") {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("file", "x");
  CHECK(problem_of_reading(scratch.path() / "absent") == "cannot be read: No such file or directory");
  CHECK(problem_of_reading(scratch.path()) == "is a folder, not a file");
  CHECK(problem_of_reading(file / "below") == "cannot be read: Not a directory");
  CHECK(problem_of_reading(scratch.path() / std::string(300, 'n')) == "cannot be read: File name too long");
  CHECK(problem_of_reading("") == "cannot be read: No such file or directory");
}

TEST_CASE("read_file: devices and sockets are refused, and a pipe to which nobody writes after a while") {
  CHECK(problem_of_reading("/dev/zero") == "is a device, not a file");
  CHECK(problem_of_reading("/dev/null") == "is a device, not a file");
  const ScratchFolder scratch;
  const fs::path pipe = scratch.path() / "pipe", socket_file = scratch.path() / "socket";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(problem_of_reading(pipe) == "is a pipe to which nobody has written for 5 s");
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socket_file.string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(problem_of_reading(socket_file) == "is a socket or a device, not a file");
  close(listener);
}

TEST_CASE("an input file is a regular one; a pipe, a folder and a device are refused without waiting") {
  const ScratchFolder scratch;
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const auto problem = [](const fs::path& path) -> std::string {
    try {
      const InputFile file(path);
      return "open";
    } catch (const InputError& error) { return error.problem(); }
  };
  CHECK(problem(pipe) == "is a pipe, not a file");
  CHECK(problem(scratch.path()) == "is a folder, not a file");
  CHECK(problem("/dev/zero") == "is a device, not a file");
  CHECK(problem(scratch.path() / "absent") == "cannot be read: No such file or directory");
  const InputFile file(scratch.write("file", "0123456789"));
  CHECK(file.size() == 10);
  CHECK(file.read(2, 3) == "234");
  CHECK(file.read(8, 100) == "89");
  CHECK(file.read(20, 1) == "");
}

TEST_CASE("a folder that cannot be made is told with its name, and one that is there is left alone") {
  const ScratchFolder scratch;
  make_folders(scratch.path() / "a/b");
  make_folders(scratch.path() / "a/b");
  CHECK(fs::is_directory(scratch.path() / "a/b"));
  CHECK_THROWS_WITH_AS(make_folders("/proc/x/journals"),
                       doctest::Contains("/proc/x/journals: the folder cannot be made: "), EnvError);
}

TEST_CASE("write_file_atomically makes a file, replaces it, and leaves nothing else behind") {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "plan.json";
  for (const std::string& content : {std::string("first"), std::string(3'000'000, 'x'), std::string()}) {
    write_file_atomically(file, content);
    CHECK(read_file(file) == content);
  }
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"plan.json"});
}

TEST_CASE("write_file_atomically: a missing folder is an error that names the file, and is not made") {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "absent" / "plan.json";
  CHECK(failure_of_writing(file) == file.string() + ": cannot be written: No such file or directory");
  CHECK(names_in(scratch.path()).empty());
}

TEST_CASE("write_file_atomically: a folder in the place of the file stays, and no temporary file does") {
  const ScratchFolder scratch;
  scratch.write("plan.json/inside", "x");
  CHECK(failure_of_writing(scratch.path() / "plan.json").find("plan.json: cannot be replaced: ") != std::string::npos);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"plan.json"});
  CHECK(read_file(scratch.path() / "plan.json/inside") == "x");
}

TEST_CASE("write_file_atomically: in a read-only folder the old file stays as it was") {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("locked/plan.json", "old");
  if (geteuid() == 0) {
    MESSAGE("skipped: root may write to read-only folders");
    return;
  }
  fs::permissions(file.parent_path(), fs::perms::owner_read | fs::perms::owner_exec);
  const std::string failure = failure_of_writing(file);
  fs::permissions(file.parent_path(), fs::perms::owner_all);
  CHECK(failure == file.string() + ": cannot be written: Permission denied");
  CHECK(read_file(file) == "old");
  CHECK(names_in(file.parent_path()) == std::vector<std::string>{"plan.json"});
}

TEST_CASE("write_file_atomically: a file system that refuses new files leaves the old state, root or not") {
  // /proc takes no new files from anybody.
  const ScratchFolder scratch;
  fs::create_directory_symlink("/proc/self/task", scratch.path() / "link");
  CHECK(failure_of_writing(scratch.path() / "link/plan.json").find("cannot be written: ") != std::string::npos);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"link"});
}

TEST_CASE("write_file_atomically keeps the permissions of the file it replaces, and obeys the umask for a new one") {
  const ScratchFolder scratch;
  const fs::path old = scratch.write("old", "x"), fresh = scratch.path() / "fresh";
  fs::permissions(old, fs::perms(0600));
  const mode_t before = umask(027);
  write_file_atomically(old, "y");
  write_file_atomically(fresh, "y");
  umask(before);
  CHECK(fs::status(old).permissions() == fs::perms(0600));
  CHECK(fs::status(fresh).permissions() == fs::perms(0640));  // 0666 without 0027
}

TEST_CASE("write_file_atomically through a link replaces the target and keeps the link") {
  const ScratchFolder scratch;
  const fs::path target = scratch.write("runs/plan.json", "old"), link = scratch.path() / "plan.json";
  fs::create_symlink(target, link);
  write_file_atomically(link, "new");
  CHECK(fs::is_symlink(link));
  CHECK(read_file(target) == "new");
}

TEST_CASE("write_file_atomically writes into devices and pipes instead of replacing them") {
  const ScratchFolder scratch;
  write_file_atomically("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));

  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file_atomically(pipe, "through");
  char received[16] = {};
  CHECK(read(reader, received, sizeof received) == 7);
  CHECK(std::string(received) == "through");
  close(reader);
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("write_file_atomically: a pipe whose reader takes nothing is given up after a while") {
  const ScratchFolder scratch;
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK_THROWS_WITH_AS(write_file_atomically(pipe, std::string(1 << 20, 'x')),
                       doctest::Contains("is a pipe whose reader has taken nothing for 5 s"), EnvError);
  close(reader);
}

TEST_CASE("a folder's file whose name holds a line feed or an escape sequence is refused by its shown name") {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path();
  scratch.write("a\nforged: b\x1b[31m.yaml", "");
  CHECK(files_in(folder, ".json").empty());
  CHECK_THROWS_WITH_AS(files_in(folder, ".yaml"), doctest::Contains("'a\\x0aforged: b\\x1b[31m.yaml' holds a control"),
                       InputError);
}

TEST_CASE("write_file_atomically: a full device is an error") {
  if (!fs::exists("/dev/full")) return;
  CHECK(failure_of_writing("/dev/full") == "/dev/full: writing failed: No space left on device");
}

TEST_CASE("open_temporary makes a file of its own beside another, that nobody else may open, and replaces none") {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("plan.json", "old");
  std::set<std::string> names;
  const mode_t before = umask(0);
  for (int i = 0; i < 1000; ++i) {
    fs::path temporary;
    const int descriptor = open_temporary(file, temporary);
    REQUIRE(descriptor >= 0);
    REQUIRE(write(descriptor, "mine", 4) == 4);
    struct stat status {};
    REQUIRE(lstat(temporary.c_str(), &status) == 0);
    CHECK(S_ISREG(status.st_mode));
    CHECK(status.st_size == 4);  // nobody's before
    CHECK((status.st_mode & 0777) == 0600);
    CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(temporary.parent_path() == file.parent_path());
    CHECK(is_temporary_name(temporary.filename().string()));
    CHECK(names.insert(temporary.filename()).second);
    close(descriptor);
  }
  umask(before);
  CHECK(read_file(file) == "old");
}

TEST_CASE("data_dir is the folder that GPUPLAN_DATA_DIR names, or that is refused") {
  const ScratchFolder scratch;
  scratch.write("data/models/m.yaml", "");
  {
    const test::Variable set("GPUPLAN_DATA_DIR", (scratch.path() / "data").c_str());
    forget_data_dir();
    CHECK(data_dir() == scratch.path() / "data");
  }
  {
    const test::Variable set("GPUPLAN_DATA_DIR", scratch.path().c_str());
    forget_data_dir();
    CHECK_THROWS_WITH_AS(data_dir(), doctest::Contains("has no models/ folder"), EnvError);
  }
  forget_data_dir();
}

TEST_CASE("data_dir is a folder with the models, and the same at every call") {
  CHECK(fs::is_directory(data_dir() / "models"));
  CHECK(&data_dir() == &data_dir());
}

}  // namespace
}  // namespace gpuplan

TEST_CASE(
    "read_file: a pipe gives what is written to it, and one that nobody writes to is told instead of waited for") {
  const gpuplan::test::ScratchFolder scratch;
  const std::filesystem::path named = scratch.path() / "pipe";
  REQUIRE(mkfifo(named.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(named) << std::string(3'000'000, 'x'); });
  CHECK(gpuplan::read_file(named).size() == 3'000'000);
  writer.join();
  std::string failure;
  try {
    static_cast<void>(gpuplan::read_file(named));
  } catch (const gpuplan::InputError& error) { failure = error.what(); }
  CHECK(failure.find("nobody has written for 5 s") != std::string::npos);
}

TEST_CASE("read_stream: an endless one is refused at 256 MiB") {
  std::ifstream zeros("/dev/zero", std::ios::binary);
  CHECK_THROWS_AS(static_cast<void>(gpuplan::read_stream(zeros, "standard input")), gpuplan::InputError);
}

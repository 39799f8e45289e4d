// The journal: nothing that was added is lost, nothing of another machine is kept.
#include <csignal>
#include <fstream>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/files.h"
#include "calibrate/journal.h"
#include "scratch_folder.h"

using namespace gpuplan;
using gpuplan::test::ScratchFolder;

namespace {

Sample sample(std::int64_t m) {
  return {.probe{.shape{m, 1, 1}}, .median = double(m), .low = 0, .high = 1, .num_runs = 7};
}

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

}  // namespace

TEST_CASE("what was added is there when the journal is opened again") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  {
    Journal journal(path, "this machine");
    CHECK(journal.samples().empty());
    journal.add(sample(1));
    journal.add({.probe{.shape{2, 1, 1}}, .failure = "out of memory"});
    CHECK(journal.samples().size() == 2);
  }
  const Journal journal(path, "this machine");
  REQUIRE(journal.samples().size() == 2);
  CHECK(journal.samples()[0].median == 1);
  CHECK(journal.samples()[1].failure == "out of memory");
}

TEST_CASE("a torn last line is dropped at whatever byte it was torn, and the journal goes on") {
  const std::string line = to_json_line(sample(2)) + "\n";
  for (std::size_t kept = 0; kept < line.size(); kept += 7) {
    const ScratchFolder folder;
    const auto path = folder.path() / "journal";
    { Journal(path, "h").add(sample(1)); }
    append(path, line.substr(0, kept));
    {
      Journal journal(path, "h");
      REQUIRE(journal.samples().size() == 1);
      journal.add(sample(3));
    }
    const Journal journal(path, "h");
    REQUIRE(journal.samples().size() == 2);
    CHECK(journal.samples()[1].median == 3);
  }
}

TEST_CASE("a torn header is a new journal") {
  const ScratchFolder folder;
  const auto path = folder.write("journal", "head");
  { Journal(path, "header").add(sample(1)); }
  CHECK(Journal(path, "header").samples().size() == 1);
}

TEST_CASE("samples of another machine are not used") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  { Journal(path, "one machine").add(sample(1)); }
  CHECK(Journal(path, "another").samples().empty());
  CHECK(Journal(path, "one machine").samples().empty());
}

TEST_CASE("a damaged line costs its own sample only") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  { Journal(path, "h").add(sample(1)); }
  append(path, "not JSON\n");
  { Journal(path, "h").add(sample(3)); }
  CHECK(Journal(path, "h").samples().size() == 2);
}

TEST_CASE("two calibrations do not write one journal") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  Journal first(path, "h");
  first.add(sample(1));
  for (const JournalStart start : {JournalStart::Resume, JournalStart::Anew})
    CHECK_THROWS_WITH_AS(Journal(path, "h", start), doctest::Contains("another calibration is running"), EnvError);
  first.add(sample(2));  // and what the first one writes is still there
  CHECK(read_file(path).find("\"median\":1") != std::string::npos);
}

TEST_CASE("a journal that starts anew has forgotten its samples, and keeps what is added then") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  { Journal(path, "h").add(sample(1)); }
  {
    Journal journal(path, "h", JournalStart::Anew);
    CHECK(journal.samples().empty());
    journal.add(sample(2));
  }
  const Journal journal(path, "h");
  REQUIRE(journal.samples().size() == 1);
  CHECK(journal.samples()[0].median == 2);
}

TEST_CASE("a journal that cannot be is an error of the machine") {
  CHECK_THROWS_AS(Journal("/no/such/folder/journal", "h"), EnvError);
}

TEST_CASE("a line for which there is no room is an error, and leaves no half line behind") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  {
    Journal journal(path, "h");
    journal.add(sample(1));
    const auto size = rlim_t(std::filesystem::file_size(path));
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{size + 20, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    CHECK_THROWS_AS(journal.add(sample(2)), EnvError);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(std::filesystem::file_size(path) == size);
    CHECK(journal.samples().size() == 1);
    journal.add(sample(3));
  }
  const Journal journal(path, "h");
  REQUIRE(journal.samples().size() == 2);
  CHECK(journal.samples()[1].median == 3);
}

TEST_CASE("a complete calibration leaves no journal") {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  Journal journal(path, "h");
  journal.remove();
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_NOTHROW(journal.remove());
}

// docs/help is what ./gpuplan prints before anything is built: each text as the program prints it, 80 columns wide and
// in ASCII, so that any terminal shows it. GPUPLAN_UPDATE_GOLDEN=1 rewrites the files.
#include <filesystem>
#include <map>
#include <sstream>

#include <doctest/doctest.h>

#include "base/files.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "golden/command_line.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

std::string printed(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  std::istringstream in;
  const int code = run(arguments, out, err, {.width = 80, .has_unicode = false}, in);
  INFO(err.str());
  CHECK(code == 0);
  return out.str();
}

/// The texts by the names of their files.
std::map<std::string, std::string> texts_of_today() {
  std::map<std::string, std::string> texts{{"gpuplan.txt", printed({"--help"})},
                                           {"gpuplan-h.txt", printed({"-h"})},
                                           {"licences.txt", printed({"--licences"})}};
  for (const Command& command : commands()) {
    texts[std::string(command.name) + ".txt"] = printed({command.name, "--help"});
    texts[std::string(command.name) + "-h.txt"] = printed({command.name, "-h"});
  }
  for (const char* shell : {"bash", "zsh", "fish"})
    texts[std::string("completion.") + shell] = printed({"completion", shell});
  return texts;
}

}  // namespace

TEST_CASE("docs/help is what the program prints, and nothing else") {
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", "/nonexistent");
  const fs::path folder = fs::path(GPUPLAN_TEST_DIR).parent_path() / "docs/help";
  const auto texts = texts_of_today();
  if (test::is_updating()) {
    fs::create_directories(folder);
    for (const auto& [name, text] : texts) write_file_atomically(folder / name, text);
  }
  for (const auto& [name, text] : texts) CHECK_MESSAGE(read_file(folder / name) == text, name);
  for (const auto& entry : fs::directory_iterator(folder))
    CHECK_MESSAGE(texts.contains(entry.path().filename().string()), entry.path().string());
}

TEST_CASE("help COMMAND is COMMAND --help, and help alone is --help") {
  CHECK(printed({"help"}) == printed({"--help"}));
  for (const Command& command : commands())
    CHECK_MESSAGE(printed({"help", command.name}) == printed({command.name, "--help"}), command.name);
}

}  // namespace gpuplan

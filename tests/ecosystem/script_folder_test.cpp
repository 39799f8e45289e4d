// Files that a script names lie in the folder in which its commands run.
#include "ecosystem/script_folder.h"

#include <map>

#include <doctest/doctest.h>

#include "ecosystem/config_reader.h"

using namespace gpuplan;

namespace {

/// The folder after one `cd` of a script at this path; words as the reader of shells leaves them.
std::string after_cd(const std::string& script, const std::string& to, bool is_known) {
  ScriptFolder folder(script);
  ShellWord word{.text = to};
  if (!is_known) word.unknown = {to};
  folder.take({.words = {{.text = "cd"}, word}, .environment = {}});
  return folder.text();
}

constexpr const char* kSft = "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nlora_r: 8\nmax_length: ";

}  // namespace

TEST_CASE("a script's own folder, folders beside it, and named ones are where its commands run") {
  for (const char* own : {"$(dirname \"$0\")", "$(dirname $0)", "$(dirname \"${BASH_SOURCE[0]}\")",
                          "$(cd \"$(dirname \"$0\")\" && pwd)", "$(dirname \"$(readlink -f \"$0\")\")", "${0%/*}"}) {
    CAPTURE(own);
    CHECK(after_cd("a/b/run.sh", own, false) == "a/b");
    CHECK(after_cd("/x/run.sh", own, false) == "/x");
    CHECK(after_cd("run.sh", own, false).empty());  // the current one
  }
  CHECK(after_cd("a/b/run.sh", "$(dirname \"$0\")/..", false) == "a");
  CHECK(after_cd("a/b/run.sh", "$(cd \"$(dirname \"$0\")/..\" && pwd)", false) == "a");
  CHECK(after_cd("a/b/run.sh", "${0%/*}/c", false) == "a/b/c");
  CHECK(after_cd("a/b/run.sh", "configs", true) == "configs");
  CHECK(after_cd("a/b/run.sh", "/data", true) == "/data");
  CHECK(after_cd("a/b/run.sh", "$WORK", false).empty());
  CHECK(after_cd("a/b/run.sh", "-", true).empty());
}

TEST_CASE(
    "the configuration of a script's folder is read where the script goes there, and that of the current one else") {
  const std::map<std::string, std::string> files{{"sft.yaml", std::string(kSft) + "512\n"},
                                                 {"out/sft.yaml", std::string(kSft) + "2048\n"}};
  const FindConfig find = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    const auto found = files.find(named);
    return found == files.end() ? std::nullopt : std::optional(ConfigFile{found->first, found->second});
  };
  const auto seq_len = [&](const std::string& cd) {
    return read_configs({{"out/run.sh", cd + "trl sft --config sft.yaml\n"}}, find).request.recipe.seq_len;
  };
  CHECK(seq_len("") == 512);
  CHECK(seq_len("cd \"$(dirname \"$0\")\"\n") == 2048);
  CHECK(seq_len("HERE=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\ncd \"$HERE\" && ") == 2048);
  CHECK(seq_len("cd out\n") == 2048);
  CHECK(seq_len("cd elsewhere\n") == 512);  // nothing of that name lies there
}

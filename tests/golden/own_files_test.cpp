// Cards, profiles, machines and models of the user that stand in the place of shipped ones are told by every answer
// that reads them.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/program.h"
#include "cluster/profile/profile.h"
#include "environment_variable.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

std::string assumptions_of(const std::string& line) {
  CAPTURE(line);
  std::ostringstream out, err;
  const int code = run(split(line + " --json", ' '), out, err);
  CHECK_MESSAGE(code < 2, err.str());
  if (code > 1) return {};
  return parse_json(out.str(), "").at("assumptions").dump();
}

void check_told(const std::string& line, const std::string& what) {
  const std::string assumed = assumptions_of(line);
  CHECK_MESSAGE(assumed.find(what) != std::string::npos, line, ": ", what, " is not in ", assumed);
}

}  // namespace

TEST_CASE("own files: cards and profiles in the place of shipped ones stand among the assumptions") {
  const test::ScratchFolder folder;
  const auto gpus = folder.path() / "gpuplan" / "gpus";
  std::filesystem::create_directories(gpus);
  write_file_atomically(gpus / "rtx-a6000.yaml", read_file(data_dir() / "gpus" / "rtx-a6000.yaml"));
  const auto profile = folder.write("profiles/default-workstation.yaml", profile_text(default_profile("rtx-a6000")));
  const test::Variable data("XDG_DATA_HOME", folder.path().c_str()),
      profiles("GPUPLAN_PROFILE_DIR", profile.parent_path().c_str());
  const std::string card = "rtx-a6000 is read from " + (gpus / "rtx-a6000.yaml").string() + ", not from the catalogue",
                    own = "profile default-workstation is read from " + profile.string() + ", not the shipped one";
  for (const char* command : {"estimate", "simulate", "plan", "estimate --generate"}) {
    const std::string line =
        std::string(command) + " --model smollm2-135m --gpus 2xA6000 --profile default-workstation";
    check_told(line, card);
    check_told(line, own);
  }
  check_told("plan --model smollm2-135m --rows 1000", card);
  check_told("topology --gpus 2xA6000", card);
  check_told("estimate --model smollm2-135m --gpus 1xA6000 --gpu-spec A6000:24GiB", card);
  CHECK(assumptions_of("estimate --model smollm2-135m --gpus 2x3090").find("is read from") == std::string::npos);
}

TEST_CASE("own files: a machine and a model of a shipped name stand among the assumptions") {
  const test::ScratchFolder folder;
  const std::string machine =
      folder.write("dgx-h100.yaml", read_file(data_dir() / "clusters" / "dgx-h100.yaml")).string();
  check_told("estimate --model smollm2-135m --cluster " + machine,
             "dgx-h100 is read from " + machine + ", not from the catalogue");
  CHECK(assumptions_of("estimate --model smollm2-135m --cluster dgx-h100").find("is read from") == std::string::npos);
  folder.write("smollm2-135m/config.json", R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256})");
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  check_told("estimate --model smollm2-135m --gpus 1xA6000", "smollm2-135m is read from here, not from the catalogue");
  std::filesystem::current_path(here);
}

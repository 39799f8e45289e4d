// The printed list of empirical constants holds every number that is no fact: no fitted one stands elsewhere.
#include "validate/constants.h"

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json_file.h"

using namespace gpuplan;

TEST_CASE("every fitted number is in the list of constants, and files of cards have none") {
  std::vector<Profile> profiles;
  for (const char* gpu : {"a100-sxm-80gb", "h100-sxm", "rtx-4090", "rtx-a6000", "t4", "v100-sxm2-16gb"})
    profiles.push_back(default_profile(gpu));
  const std::vector<EmpiricalConstant> constants = empirical_constants(profiles);
  const auto is_listed = [&](const std::string& name) {
    return std::any_of(constants.begin(), constants.end(),
                       [&](const EmpiricalConstant& c) { return c.name == name || c.name.starts_with(name + " ("); });
  };
  const auto ablation = read_json_file(data_dir() / "validation" / "ablation.json");
  for (const auto& [name, without] : ablation.at("constants").items())
    CHECK_MESSAGE(is_listed(name.substr(0, name.find('/'))), name);
  // links, collectives, slots of published runs, frameworks
  for (const char* name : {"share_of_link", "share_of_memory", "handshake_share", "saturation", "share_of_lanes",
                           "hook_kernels", "gptq_bytes_factor", "gemm_efficiency"})
    CHECK_MESSAGE(is_listed(name), name);
  for (const EmpiricalConstant& c : constants) CHECK_MESSAGE(!c.source.empty(), c.name);
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "gpus"))
    CHECK_MESSAGE(read_file(entry.path()).find("kind: fitted") == std::string::npos, entry.path().string());
}

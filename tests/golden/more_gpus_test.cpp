// More GPUs in the place of offload (search/more_gpus.h): the flags that are named lead to the figures beside them.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "golden/command_line.h"

namespace gpuplan {

using nlohmann::json;

TEST_CASE("the line that names more GPUs, followed, gives the figures that stand in it") {
  int with_optimizer = 0;
  for (const std::string asked : {"--model llama3-8b --full --gpus 2x4090", "--model qwen2.5-3b --full --gpus 1x4090",
                                  "--model qwen2.5-14b --full --gpus 3x4090"}) {
    CAPTURE(asked);
    const test::Ran ran = test::run_line("estimate --json --offline " + asked);
    REQUIRE_MESSAGE(ran.code == 0, ran.err);
    const json answer = json::parse(ran.out);
    for (const json& way : answer.at("better")) {
      const std::string flags = way.at("flags");
      if (flags.find("--gpus") == std::string::npos) continue;
      CAPTURE(flags);
      with_optimizer += flags.find("--optimizer") != std::string::npos ? 1 : 0;
      const std::string rest = asked.substr(0, asked.find("--gpus"));
      const json followed = json::parse(test::run_line("estimate --json --offline " + rest + flags).out);
      REQUIRE(followed.at("recommended").at("strategy") == way.at("strategy"));
      for (const json& row : followed.at("strategies"))
        if (row.at("name") == way.at("strategy"))
          CHECK(row.at("tokens_per_second").get<double>() ==
                doctest::Approx(way.at("tokens_per_second").get<double>()).epsilon(1e-9));
    }
  }
  CHECK(with_optimizer >= 1);
}

}  // namespace gpuplan

// Refusals of divided models name the flag that stands in the way, and what would be right.
#include <string>

#include <doctest/doctest.h>

#include "golden/command_line.h"

namespace gpuplan {

TEST_CASE("a model that cannot be divided so is refused by the flag that stands in the way") {
  struct Case {
    std::string flags, flag, instead;
  };
  const std::string stages = "one number for each of 4 stages, 32 layers in all";
  for (const Case& c : {Case{"--pp 4 --stage-layers 6,8,8,5", "--stage-layers", stages},
                        Case{"--tp 2 --pp 4 --stage-layers 6,8,8,5", "--stage-layers", stages},
                        Case{"--tp 2 --pp 4 --stage-layers 8,8,16", "--stage-layers", stages},
                        Case{"--tp 2 --pp 4 --virtual-stages 3", "--pp", "leave --pp out"}}) {
    CAPTURE(c.flags);
    const std::string asked = " --model llama3-8b --framework megatron --gpus 8xH100 --offline " + c.flags;
    const test::Ran simulated = test::run_line("simulate --strategy zero1" + asked);
    CHECK(simulated.code == 2);
    CHECK(simulated.err.find("gpuplan: " + c.flag + ": ") != std::string::npos);
    CHECK(simulated.err.find(c.instead) != std::string::npos);
    const test::Ran estimated = test::run_line("estimate" + asked);
    CHECK(estimated.code == 1);
    std::string text = estimated.out;
    for (char& letter : text)
      if (letter == '\n') letter = ' ';
    while (text.find("  ") != std::string::npos) text.replace(text.find("  "), 2, " ");
    CHECK(text.find(c.instead) != std::string::npos);
    CHECK(text.find("leave --tp out") == std::string::npos);
  }
}

}  // namespace gpuplan

#include "cli/output_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <CLI/CLI.hpp>

#include "cli/arguments.h"

using namespace gpuplan;

TEST_CASE(
    "every flag that takes a file or a folder is known as an output, which never replaces an input, or as input") {
  constexpr std::array<std::string_view, 7> kInputs{"--lengths", "--data",  "--tokenizer", "--from",
                                                    "--prices",  "--hosts", "--adapter"};
  CLI::App app;
  declare_commands(app);
  int num_outputs = 0;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name(), name = option->get_name();
      if (type != "FILE" && type != "DIR") continue;
      CAPTURE(name);
      const bool is_input = std::ranges::find(kInputs, name) != kInputs.end();
      CHECK(is_output_flag(name) != is_input);
      num_outputs += !is_input;
    }
  CHECK(num_outputs > 10);
}

// Every number of the command line at both ends of its range, asked for real: the answer keeps the laws, in work and
// memory too, and a plan that it saves is read back.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "questions/laws.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// A question of each command whose numbers mean something without training or measuring.
const char* const kBases[] = {
    "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xB200 --save saved.json --json",
    "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --strategy fsdp --json",
    "gpuplan plan --model smollm2-135m --gpus 2xA6000 --method lora --json",
    "gpuplan validate --json",
    "gpuplan topology --gpus 2xA6000 --json",
};

/// As the rows of the table write the number into their value; "" where the row is about a part that is asked apart.
std::string value_of(const FlagRange& row, double number) {
  const std::string text = fmt::format("{:.15g}{}", number, row.kind == NumberKind::Time ? "s" : "");
  if (row.flag == "--straggler") return row.part == "RANK" ? text + "=1.2" : "0=" + text;
  if (row.flag == "--checkpointing") return "every=" + text;
  if (row.flag == "--loss") return "chunked=" + text;
  if (row.flag == "--wrap") return "size:" + text;
  return text;
}

}  // namespace

TEST_CASE("every number at the ends of its range has an answer that keeps the laws") {
  const std::size_t every = std::size_t(num_rounds(3, 3, 1));  // not 2: both ends of each range in turn
  std::size_t num_ends = 0;
  CLI::App app;
  declare_commands(app);
  std::vector<Question> questions;
  for (const char* const line : kBases) {
    Question base = question_of(line);
    if (base.command == "validate") base.flags = {{"", "points.jsonl"}, {"--json", ""}};
    for (const FlagRange& row : flag_ranges()) {
      const std::string flag(row.flag);
      if (!ranges_of(base.command, flag).empty() && app.get_subcommand(base.command)->get_option_no_throw(flag))
        for (const double end : {row.range.least, row.range.most})
          if (num_ends++ % every == 0) questions.push_back(base.with(flag, value_of(row, end)));
    }
  }
  CHECK(num_ends > 100);
  const std::vector<std::string> verdicts = check_all(questions, first_broken);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    CAPTURE(questions[i].line());
    CHECK(verdicts[i] == "");
  }
}

// The numbers of the command line at both ends of their ranges and beyond, for every command that takes them.
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "cli/program.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

struct Outcome {
  int code{};
  std::string out, err;
};

Outcome outcome_of(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  std::istringstream in;
  const int code = run(words, out, err, {}, in);
  return {code, out.str(), err.str()};
}

/// A value of the flag whose number of this row is `number`, the others usual ones.
std::string value_with(const FlagRange& row, const std::string& number) {
  const std::string flag(row.flag), part(row.part);
  if (flag == "--straggler") return part == "RANK" ? number + "=1.2" : "0=" + number;
  if (flag == "--checkpointing") return "every=" + number;
  if (flag == "--loss") return "chunked=" + number;
  if (flag == "--wrap") return "size:" + number;
  if (flag == "--image-size") return "512x" + number;
  if (flag == "--scaling") return "1," + number;
  return number;
}

std::string text_of(const FlagRange& row, double value) {
  return fmt::format("{:.15g}{}", value, row.kind == NumberKind::Time ? "s" : "");
}

/// Just outside of the range on both sides, and what 64 bits and doubles cannot hold.
std::vector<std::string> beyond(const FlagRange& row) {
  const auto outside = [&](double end, int side) {
    return row.kind == NumberKind::Whole ? end + side : end + side * std::max(1e-12, std::abs(end) * 1e-9);
  };
  std::vector<std::string> out{text_of(row, outside(row.range.least, -1)), text_of(row, outside(row.range.most, 1))};
  const char* const unit = row.kind == NumberKind::Time ? "s" : "";
  for (const char* number : {"-1", "9223372036854775808", "1e308", "nan", "", "many"})
    out.push_back(fmt::format("{}{}", number, unit));
  return out;
}

struct OfCommand {
  std::string command;
  const FlagRange* row;
};

/// Every row with every command that has its flag.
std::vector<OfCommand> all_rows() {
  static CLI::App app;
  if (app.get_name().empty()) declare_commands(app);
  std::vector<OfCommand> out;
  for (const Command& command : commands())
    for (const FlagRange& row : flag_ranges())
      if ((row.command.empty() || row.command == command.name) &&
          app.get_subcommand(command.name)->get_option_no_throw(std::string(row.flag)))
        out.push_back({command.name, &row});
  return out;
}

}  // namespace

TEST_CASE("a number at the ends of its range is taken, and what lies beyond is refused with the range") {
  std::set<const FlagRange*> used;
  for (const auto& [command, row] : all_rows()) {
    used.insert(row);
    const std::string flag(row->flag);
    CAPTURE(command);
    CAPTURE(flag);
    CLI::App app;
    declare_commands(app);
    for (const double end : {row->range.least, row->range.most}) {
      CAPTURE(end);
      CHECK_NOTHROW(parse(app, {command, flag, value_with(*row, text_of(*row, end))}));
    }
    for (const std::string& number : beyond(*row)) {
      const std::string value = value_with(*row, number);
      CAPTURE(value);
      if (value.empty()) continue;  // "needs a value"
      const Outcome refused = outcome_of({command, flag + "=" + value});
      CAPTURE(refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out == "");
      CHECK(refused.err.starts_with(fmt::format("gpuplan: {}: ", flag)));
      CHECK(refused.err.find(to_string(*row)) != std::string::npos);
    }
  }
  CHECK(used.size() == flag_ranges().size());  // none is of a flag that is gone
}

TEST_CASE("the help shows the range of every number") {
  for (const auto& [command, row] : all_rows()) {
    std::string help = outcome_of({command, "--help"}).out;
    std::string flat;
    for (const char c : help)
      if (c != ' ' && c != '\n') flat += c;
    std::string range;
    for (const char c : to_string(*row))
      if (c != ' ') range += c;
    CAPTURE(command);
    CAPTURE(std::string(row->flag));
    CHECK(flat.find(range) != std::string::npos);
  }
}

TEST_CASE("every flag with a value is a number with a range, or a word") {
  // What stands in the help for words, names and files.
  const std::set<std::string> words{
      "MODEL",   "[SPEC]", "FRAMEWORK", "OPTIMIZER", "LIST",   "GPUS",           "SPEC",         "CLUSTER",  "GPU",
      "PROFILE", "FILE",   "DIR",       "VENDOR",    "TARGET", "NAME=VALUE,...", "STRATEGY,...", "NAME,...", "ORG/NAME",
      "random",  "1|2",    "NAMES",     "METHOD",    "KIND",   "SIZE",           "TRACE.json",   "ENGINE",   "ADDRESS"};
  CLI::App app;
  declare_commands(app);
  for (const Command& command : commands())
    for (const CLI::Option* option : app.get_subcommand(command.name)->get_options()) {
      if (option->get_positional() || option->get_items_expected_max() == 0) continue;
      const std::string value = option->get_type_name();
      const bool is_choice = value.find('|') != std::string::npos;
      CAPTURE(std::string(command.name));
      CAPTURE(option->get_name());
      CAPTURE(value);
      CHECK((is_choice || words.contains(value) || !ranges_of(command.name, option->get_name()).empty()));
    }
}

TEST_CASE("a change of --what-if that is a flag has the flag's range") {
  const Outcome refused =
      outcome_of({"simulate", "--model", "smollm2-135m", "--gpus", "2xA6000", "--what-if", "micro-batch=1000001"});
  CHECK(refused.code == 2);
  CHECK(refused.err == "gpuplan: --micro-batch: 1000001 is out of range: 1 to 1000000\n");
}

TEST_CASE("a scaling curve takes a change of the network where there is one, and says where there is none") {
  for (const char* gpus : {"8xA100", "16xA100"}) {
    CAPTURE(gpus);
    const Outcome answer = outcome_of({"simulate", "--model", "smollm2-135m", "--gpus", gpus, "--strategy", "fsdp",
                                       "--scaling", "8,16", "--what-if", "nic=0.5"});
    CHECK(answer.code == 0);
    CHECK(answer.out.find("8 GPUs without 0.5 Gbit/s of network per GPU: nic changes nothing on one machine") !=
          std::string::npos);
    CHECK(answer.out.find("16 GPUs without") == std::string::npos);
  }
  CHECK(outcome_of({"simulate", "--model", "smollm2-135m", "--gpus", "8xA100", "--what-if", "nic=50"}).code == 2);
}

}  // namespace gpuplan

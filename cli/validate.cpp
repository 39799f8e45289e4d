// gpuplan validate: how far off the predictions are on published measurements.
#include <array>
#include <istream>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cli/phase_points.h"
#include "report/answers.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "sim/simulation.h"
#include "validate/read_points.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUsualWorst = 5;

struct GroupingName {
  const char* name;
  Grouping grouping;
};
constexpr std::array kGroupings{GroupingName{"source", Grouping::Source}, GroupingName{"method", Grouping::Method},
                                GroupingName{"strategy", Grouping::Strategy}};

void setup_validate(CLI::App& app) {
  app.add_option("points")
      ->type_name("POINTS.jsonl")
      ->description("measured points, one JSON object per line; '-' is standard input. Default: the shipped ones")
      ->group("Options")
      ->allow_extra_args()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_flag(app, "--by", "source|method|strategy", "one row per source, method or strategy");
  add_flag(app, "--network", "flow|analytic",
           "time speed points with the simulator, on such links. Default: one forward pass");
  add_flag(app, "--worst", "N", "list the N points that are furthest off. Default 5");
  add_flag(app, "--picks", "", "for sources that compared settings: is our pick the measured best?");
  add_flag(app, "--report", "FILE", "write all of it as a Markdown page (docs/accuracy.md)");
  add_force_flag(app);
  add_flag(app, "--save-ranges", "FILE", "write the ranges that estimates show (data/validation/accuracy.json)");
  add_flag(app, "--json", "", "every point and the summary as JSON; memory in GiB, speed in the point's own unit");
}

std::optional<Grouping> read_grouping(const CLI::App& app) {
  const auto text = given(app, "--by");
  if (!text) return {};
  for (const GroupingName& row : kGroupings)
    if (row.name == *text) return row.grouping;
  throw InputError("--by", fmt::format("'{}' is not a grouping", *text),
                   did_you_mean(*text, {"source", "method", "strategy"}, "known: source, method, strategy"));
}

std::vector<Point> read_all(const CLI::App& app, std::istream& in) {
  std::vector<std::string> files = all_given(app, "points");
  if (files.empty())
    for (const char* name : {"memory.jsonl", "speed.jsonl"})
      files.push_back((data_dir() / "validation" / name).string());
  std::vector<Point> points;
  std::set<std::string> ids;
  for (const std::string& file : files) {
    const std::vector<Point> more = file == "-" ? read_points(in, "standard input") : read_points(file);
    for (const Point& point : more) {
      if (!ids.insert(point.id).second)
        throw InputError(point.where, fmt::format("the id '{}' is in another file too", point.id),
                         "give each file once");
      points.push_back(point);
    }
  }
  return points;
}

void save(const std::string& file, const std::string& content, Console& console) {
  write_output(file, content, console, fmt::format("written to {}", file));
}

/// The simulator in place of the forward pass.
TimeRefinement read_refinement(const CLI::App& app) {
  const auto network = given(app, "--network");
  if (!network) return {};
  const SimOptions options{.network = network_fidelity(*network), .records_spans = false};
  return [options](StrategyEstimate& e, const Job& job) {
    const SimulatedPlan plan = simulate_plan(job, options);
    e.time.step = plan.simulation.step_time();
    e.tokens_per_second = plan.tokens_per_second;
    e.mfu = plan.mfu;
  };
}

/// A file whose points are lines of flags, by itself.
std::optional<std::vector<PhasePoint>> given_phase_points(const CLI::App& app) {
  const std::vector<std::string> files = all_given(app, "points");
  if (files.size() != 1 || files.front() == "-") return {};
  return judge_phase_points(files.front());
}

int run_validate(const CLI::App& app, Console& console) {
  if (const auto points = given_phase_points(app)) {
    console.print(is_given(app, "--json") ? phase_points_json(*points).dump(2) + "\n"
                                          : phase_points_text(*points, console.screen));
    return 0;
  }
  const auto by = read_grouping(app);
  ValidationAnswer answer = validate_points(read_all(app, console.in), read_refinement(app));
  answer.by = by;
  answer.num_worst = std::size_t(given_integer(app, "--worst").value_or(kUsualWorst));
  if (is_given(app, "--picks"))
    answer.picks = {judge_picks(answer.results, PointKind::Memory), judge_picks(answer.results, PointKind::Speed)};
  if (const auto file = given(app, "--save-ranges")) save(*file, to_json(answer.ranges).dump(2) + "\n", console);
  if (const auto file = given(app, "--report")) save(*file, validation_report(answer, read_peers()), console);
  console.print(is_given(app, "--json") ? validation_json(answer).dump(2) + "\n"
                                        : validation_text(answer, console.screen));
  return 0;
}

}  // namespace

const Command kValidate{.name = "validate",
                        .summary = "how far off the predictions are on published measurements",
                        .usage = "[POINTS.jsonl]... [OPTION]...",
                        .example =
                            "gpuplan validate --by method\n"
                            "gpuplan validate --worst 20 --picks\n"
                            "gpuplan validate --json",
                        .first_flags = "--by --network --worst --report --json",
                        .setup = setup_validate,
                        .run = run_validate,
                        .has_tables = true};

}  // namespace gpuplan

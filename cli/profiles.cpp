// gpuplan profiles: lists, shows, compares and exports what machines were measured to do.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/output_flags.h"
#include "report/html/fit_svg.h"
#include "report/json/answers_json.h"
#include "report/profile_numbers.h"
#include "report/text/fit_plot.h"
#include "report/text/profile_text.h"

namespace gpuplan {
namespace {

using ProfilePtr = std::shared_ptr<const Profile>;

void setup_profiles(CLI::App& app) {
  const auto positional = [&](const char* name, const char* type, const char* help) {
    app.add_option(name)->type_name(type)->description(help)->group("Options");
  };
  positional("action", "list|show|compare|export", "what to do. Default list");
  positional("id", "PROFILE", "of show, compare and export: an id of the list, or a file");
  positional("id2", "PROFILE", "of compare: the other one");
  add_flag(app, "--plots", "", "show: draw a chart of every fit");
  add_flag(app, "--format", "yaml|json|csv|svg",
           "export: the file itself, everything as JSON, the samples, a page of charts. Default: as the name of "
           "--output ends, else yaml");
  add_flag(app, "--output", "FILE", "export: write here instead of to standard output");
  add_force_flag(app);
  add_flag(app, "--json", "", "list, show and compare: the answer as JSON, in base units");
}

void list(const CLI::App& app, const std::vector<ProfilePtr>&, Console& console) {
  const ProfileList all = list_profiles();
  console.print(is_given(app, "--json") ? json_text(profiles_json(all)) : profiles_text(all, console.screen));
}

void show(const CLI::App& app, const std::vector<ProfilePtr>& ids, Console& console) {
  const ShowPlots plots = is_given(app, "--plots") ? ShowPlots::Yes : ShowPlots::No;
  console.print(is_given(app, "--json") ? json_text(profile_json(*ids[0]))
                                        : profile_page(*ids[0], plots, console.screen));
}

void compare(const CLI::App& app, const std::vector<ProfilePtr>& ids, Console& console) {
  const ProfileComparison comparison = compare_profiles(*ids[0], *ids[1]);
  console.print(is_given(app, "--json") ? json_text(comparison_json(*ids[0], *ids[1], comparison))
                                        : comparison_text(*ids[0], *ids[1], comparison, console.screen));
}

const Measured& require_measured(const Profile& profile, const char* format) {
  if (profile.measured) return *profile.measured;
  throw InputError("--format", fmt::format("{} has no samples for {}", profile.id, format),
                   "it was not measured here: yaml and json work");
}

std::string svg_of(const Profile& profile) {
  const MeasuredOn& on = require_measured(profile, "svg").on;
  return fit_svg("What " + profile.id + " was fitted to", fmt::format("{}, measured {}", on.device, on.date),
                 fit_plots(profile));
}

std::string csv_of(const Profile& profile) {
  require_measured(profile, "csv");
  return samples_csv(samples_of(profile));
}

struct Format {
  std::string_view name;
  std::string (*write)(const Profile&);
};
constexpr std::array kFormats{Format{"yaml", [](const Profile& p) { return profile_text(p); }},
                              Format{"json", [](const Profile& p) { return json_text(profile_json(p)); }},
                              Format{"csv", csv_of}, Format{"svg", svg_of}};

const Format* find_format(std::string_view name) {
  const auto at = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  return at == kFormats.end() ? nullptr : &*at;
}

const Format& asked_format(const CLI::App& app) {
  const auto name = given(app, "--format");
  if (!name) {
    const std::string ending = std::filesystem::path(given(app, "--output").value_or("")).extension().string();
    const Format* const by_ending = ending.empty() ? nullptr : find_format(ending.substr(1));
    return by_ending ? *by_ending : kFormats.front();
  }
  if (const Format* const format = find_format(*name)) return *format;
  throw InputError("--format", fmt::format("unknown format '{}'", *name),
                   did_you_mean(*name, {"yaml", "json", "csv", "svg"}, "yaml, json, csv or svg"));
}

void export_profile(const CLI::App& app, const std::vector<ProfilePtr>& ids, Console& console) {
  const std::string text = asked_format(app).write(*ids[0]);
  const auto file = given(app, "--output");
  write_output(file.value_or("-"), text, console, fmt::format("{} is in {}", ids[0]->id, file.value_or("")));
}

struct Action {
  std::string_view name;
  std::size_t num_ids;
  std::vector<std::string> flags;  // that go with it
  void (*run)(const CLI::App&, const std::vector<ProfilePtr>&, Console&);
};

const std::vector<Action>& actions() {
  static const std::vector<Action> kActions{{"list", 0, {"--json"}, list},
                                            {"show", 1, {"--json", "--plots"}, show},
                                            {"compare", 2, {"--json"}, compare},
                                            {"export", 1, {"--format", "--output", "--force"}, export_profile}};
  return kActions;
}

const Action& asked_action(const CLI::App& app) {
  const std::string name = given(app, "action").value_or("list");
  std::vector<std::string> names;
  for (const Action& action : actions()) {
    if (action.name == name) return action;
    names.emplace_back(action.name);
  }
  throw InputError("", fmt::format("'gpuplan profiles' cannot '{}'", name),
                   did_you_mean(name, names, "list, show, compare or export"));
}

std::vector<ProfilePtr> asked_profiles(const CLI::App& app, const Action& action) {
  std::vector<std::string> ids;
  for (const char* positional : {"id", "id2"})
    if (const auto id = given(app, positional)) ids.push_back(*id);
  if (ids.size() != action.num_ids)
    throw InputError("",
                     fmt::format("{} takes {} profile{}, not {}", action.name, action.num_ids,
                                 action.num_ids == 1 ? "" : "s", ids.size()),
                     "'gpuplan profiles' lists them");
  std::vector<ProfilePtr> out;
  for (const std::string& id : ids) out.push_back(find_profile(id, ""));
  return out;
}

void check_flags(const CLI::App& app, const Action& action) {
  for (const char* flag : {"--json", "--plots", "--format", "--output", "--force"}) {
    if (!is_given(app, flag) || std::count(action.flags.begin(), action.flags.end(), flag) > 0) continue;
    throw InputError(flag, fmt::format("does not go with {}", action.name),
                     action.name == "export" ? "--format json" : "'gpuplan profiles --help' says what it is for");
  }
}

int run_profiles(const CLI::App& app, Console& console) {
  const Action& action = asked_action(app);
  check_flags(app, action);
  action.run(app, asked_profiles(app, action), console);
  return 0;
}

}  // namespace

const Command kProfiles{.name = "profiles",
                        .summary = "list, show, compare and export calibration profiles",
                        .usage = "[list | show ID | compare ID ID | export ID] [OPTION]...",
                        .example =
                            "gpuplan profiles\n"
                            "gpuplan profiles show default-hopper\n"
                            "gpuplan profiles export default-cpu --format json",
                        .first_flags = "--format --plots --output --json",
                        .setup = setup_profiles,
                        .run = run_profiles};

}  // namespace gpuplan

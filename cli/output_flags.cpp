#include "cli/output_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/flag_ranges.h"
#include "cluster/profile/profile.h"
#include "models/model_files.h"
#include "report/html/one_file.h"
#include "report/profile_numbers.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kOutputFlags{"--output", "--metrics", "--trace",  "--save",
                                                        "--html",   "--svg",     "--report", "--save-ranges",
                                                        "--job",    "--as-point"};

/// Outputs of a flag begin so, by which gpuplan knows its own files again; of formats without a beginning of their
/// own a text at the top of a JSON object (kVersionKey). Formats of one flag have a row each.
struct OutputMark {
  std::string_view flag, is, begins;
};
constexpr const char* kVersionKey = "gpuplan_version";
constexpr std::string_view kJson = "{";
constexpr std::array kMarks{
    OutputMark{"--save", "plan", kJson},
    OutputMark{"--as-point", "measured point", kJson},
    OutputMark{"--trace", "timeline", R"({"displayTimeUnit":"ms","otherData":{"gpuplan_version":")"},
    OutputMark{"--html", "page", kPageBegins},
    OutputMark{"--svg", "picture", R"(<svg xmlns="http://www.w3.org/2000/svg" class="gptopo")"},
    OutputMark{"--report", "report", "# How accurate gpuplan is\n\nWritten by `gpuplan validate "},
    OutputMark{
        "--save-ranges", "list of ranges",
        "{\n  \"about\": \"measured / predicted of published measurements: 8 of 10 of a new source lie between "},
    OutputMark{"--output", "profile", kProfileBegins},
    OutputMark{"--output", "profile", kJson},
    OutputMark{"--output", "profile", kSamplesBegin},
    OutputMark{"--output", "profile", R"(<svg xmlns="http://www.w3.org/2000/svg" class="fits")"}};

bool has_mark(const fs::path& file, const OutputMark& mark) {
  return holds_at(file, 0, mark.begins) && (mark.begins != kJson || !text_at_top(file, kVersionKey).empty());
}

/// Throws InputError where a file that is there holds none of the marks of its flag. What `fix` writes is the user's
/// own file in another place, which no mark tells from any other.
void require_own_file(const CLI::App& app, std::string_view flag, const fs::path& file) {
  const auto has_flag = [&](const OutputMark& row) { return row.flag == flag; };
  const auto row = std::ranges::find_if(kMarks, has_flag);
  if (row == kMarks.end() || is_written_in_place(file) || !is_file(file)) return;
  if (InputFile(file).size() == 0) return;  // of mktemp
  const bool is_users = app.get_name() == kFix.name;
  if (!is_users &&
      std::ranges::any_of(kMarks, [&](const OutputMark& m) { return m.flag == flag && has_mark(file, m); }))
    return;
  throw InputError(std::string(flag),
                   fmt::format("{} is there already{}", file.string(),
                               is_users ? std::string() : fmt::format(", and is no {} of gpuplan", row->is)),
                   "name another file; --force replaces it");
}

/// The trace of `diagnose` is read: its value has another name.
bool is_written(const CLI::Option& option) {
  return is_output_flag(option.get_name()) && option.get_type_name() != kReadTrace;
}

bool is_folder_flag(const CLI::Option& option) { return option.get_type_name() == "DIR"; }

/// Flags with a value, unless it is a number.
bool may_name_path(const CLI::App& app, const CLI::Option& option) {
  return option.get_items_expected_max() > 0 && ranges_of(app.get_name(), option.get_name()).empty();
}

struct NamedPath {
  std::string flag;
  fs::path path;
  bool is_output = false;
  bool is_folder = false;  // of many files, each with a rule of its own
};

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// A file that makes its folder a model or an adapter.
bool is_of_model(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") || name == "adapter_config.json" ||
         std::ranges::find(kModelFiles, name) != kModelFiles.end();
}

/// Says whether `file` would be one of the files that `other` has, or will have, in its folder.
bool is_file_of(const fs::path& file, const NamedPath& other) {
  if (!is_of_model(file.filename().string()) || (!other.is_output && !is_there(file))) return false;
  const std::string folder = file_identity(folder_of(file));
  return folder == file_identity(other.path) || folder == file_identity(folder_of(other.path));
}

void require_apart(const NamedPath& output, const NamedPath& other) {
  constexpr const char* kHint = "what a command writes never replaces what it reads: give it a place of its own";
  if (!other.is_output && !is_there(other.path)) return;  // a name of the catalogue, a number
  if (const std::string place = file_identity(output.path); !place.empty() && place == file_identity(other.path))
    throw InputError(output.flag, fmt::format("{} is also what {} names", output.path.string(), other.flag), kHint);
  if (is_file_of(output.path, other))
    throw InputError(output.flag, fmt::format("{} is a file of what {} names", output.path.string(), other.flag),
                     kHint);
}

}  // namespace

bool is_output_flag(std::string_view name) { return std::ranges::find(kOutputFlags, name) != kOutputFlags.end(); }

void add_force_flag(CLI::App& app) { add_flag(app, "--force", "", "replace files that gpuplan did not write"); }

void check_outputs(const CLI::App& app) {
  const bool is_forced = is_given(app, "--force");
  bool has_output = app.get_option_no_throw("--job") != nullptr;  // which has a usual folder
  std::vector<NamedPath> all;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (may_name_path(app, *option) && !value.empty() && value != "-")
        all.push_back({option->get_name(), value, is_written(*option), is_folder_flag(*option)});
  for (const NamedPath& output : all) {
    if (!output.is_output) continue;
    has_output = true;
    for (const NamedPath& other : all)
      if (&output != &other) require_apart(output, other);
    if (!is_forced && !output.is_folder) require_own_file(app, output.flag, output.path);
  }
  if (is_forced && !has_output)
    throw InputError("--force", "has nothing to replace", "it needs a flag that names a file");
}

void require_not_written(const CLI::App& app, const fs::path& read, const std::string& by) {
  const std::string place = file_identity(read);
  if (place.empty()) return;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (is_written(*option) && may_name_path(app, *option) && file_identity(value) == place)
        throw InputError(option->get_name(), fmt::format("{} is read: {} names it", value, by),
                         "what a command writes never replaces what it reads: give it a place of its own");
}

bool takes_standard_output(const CLI::App& app) {
  return std::ranges::any_of(app.get_options(), [&](const CLI::Option* option) {
    return is_written(*option) && !is_folder_flag(*option) && given(app, option->get_name()) == "-";
  });
}

void write_output(const std::string& file, const std::string& content, Console& console, const std::string& told) {
  if (file == "-") {
    console.out << content;
    return;
  }
  write_file_atomically(file, content);
  if (!told.empty()) console.tell(told);
}

}  // namespace gpuplan

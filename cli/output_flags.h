// A command writes to none of the files that it reads, and no two of its outputs to one file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "report/text/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

/// Says whether a flag of this name names what a command writes to.
bool is_output_flag(std::string_view name);

/// The value of a flag that has an output's name and is read: `diagnose --trace`.
inline constexpr const char* kReadTrace = "TRACE.json";

/// A file that gpuplan did not write is replaced with this alone.
void add_force_flag(CLI::App& app);

/// Throws InputError where an output of `app` leads to the file or folder that another flag or argument names, by
/// whatever path or link, or to a file of a model, adapter or output folder of the call (devices and pipes may be named
/// twice); where it leads to a file that gpuplan did not write, without --force; where --force has nothing to replace.
void check_outputs(const CLI::App& app);

/// Throws InputError where an output of `app` leads to `read`, which `by` names: an export's plan, a file in a script.
void require_not_written(const CLI::App& app, const std::filesystem::path& read, const std::string& by);

/// Says whether a flag sends a file to standard output ("-"); the answer then goes to standard error.
bool takes_standard_output(const CLI::App& app);

/// Writes the file of an output flag, and tells so if there is something to tell; "-" is standard output.
void write_output(const std::string& file, const std::string& content, Console& console, const std::string& told);

}  // namespace gpuplan

// A command writes to none of the files that it reads, and no two of its outputs to one file.
#pragma once

#include <filesystem>
#include <string_view>

namespace CLI {
class App;
}

namespace gpuplan {

/// Says whether a flag of this name names what a command writes to.
bool is_output_flag(std::string_view name);

/// A file that gpuplan did not write is replaced with this alone.
void add_force_flag(CLI::App& app);

/// Throws InputError where a flag of `app` that names an output
/// - leads to the same file or folder as another flag or argument of the call, by whatever path or link, or to a file
/// of
///   the model, adapter or output in such a folder (devices and pipes may be named twice);
/// - leads to a file that gpuplan did not write, without --force;
/// and where --force has nothing to replace.
void check_outputs(const CLI::App& app);

}  // namespace gpuplan

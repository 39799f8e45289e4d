// Files of gpuplan export and of run --engine on their way to a folder.
#pragma once

#include <filesystem>
#include <vector>

#include "ecosystem/emit.h"
#include "report/text/screen.h"

namespace gpuplan {

enum class Replaces : std::uint8_t { Nothing, Ours, Everything };  // Ours: files that say they were made by gpuplan

/// Nothing is written when one of the files must stay as it is, or is `input`, from which they were made. Throws
/// InputError and EnvError.
void write_exported(const std::vector<ExportedFile>& files, const std::filesystem::path& folder, Replaces replaces,
                    Console& console, const std::filesystem::path& input = {});

/// "==> sft.yaml <==" and what is in it, one file after the other.
std::string listing_of(const std::vector<ExportedFile>& files);

}  // namespace gpuplan

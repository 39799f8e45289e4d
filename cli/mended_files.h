// Writes the changed files of `fix` in their places, each with the file as it was beside it, or elsewhere.
#pragma once

#include <string>

#include "cli/exported_files.h"
#include "mend/stated_facts.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Replaces the files; "axolotl.yaml.orig" keeps what was there. Throws InputError before anything is written where a
/// file is a link or no regular file, was changed since it was read, or where a new one is there already.
void write_in_place(const MendedFiles& mended, Console& console);

/// Writes them to `place` instead: a folder that is there, or a file where there is but one; "-" is standard output.
/// Throws InputError for a file of the folder that is there, unless everything is replaced.
void write_elsewhere(const MendedFiles& mended, const std::string& place, Replaces replaces, Console& console);

}  // namespace gpuplan

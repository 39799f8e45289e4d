// Facts of a plan that a trainer's file has no key for: lengths of answers, for example. They stand in a comment of the
// exported file, so that the file is the plan when it is read again.
#pragma once

#include <string_view>

#include "ecosystem/setup.h"

namespace gpuplan {

/// The line begins so; one JSON object follows.
inline constexpr std::string_view kOwnFacts = "# Read by gpuplan alone: ";

/// Says whether a fact may stand there: one of the data, of versions and machines, or of a loss that takes as much as
/// another. A setting that the program does not have may not.
bool is_fact_of_no_key(std::string_view fact);

/// Reads the facts of such a line of a file. Throws InputError naming `file` where it is no such line any more.
Setup read_own_facts(std::string_view text, const std::string& file);

}  // namespace gpuplan

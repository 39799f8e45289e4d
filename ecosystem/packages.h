// Packages of Python that a plan's files need (data/ecosystem/packages.yaml), as commands of pip.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/key_table.h"
#include "ecosystem/versions.h"

namespace gpuplan {

/// Commands that install what `trainer`'s files need for a set-up, one after the other. `given`: versions that were
/// named, before those of the tables; `also`: packages that a method needs. Requires: a table of a trainer that is
/// written.
std::vector<std::string> pip_commands(const Setup& setup, const KeyTable& trainer, const Versions& given,
                                      const std::vector<std::string>& also = {});

/// A version as a table or a user states it, in the words of pip: "0.23 to 1.10" is ">=0.23,<1.11", "0.17 or later" is
/// ">=0.17", "4.56 to 5.x" is ">=4.56,<6", "1.2" is "==1.2".
std::string pip_bounds(const std::string& version);

}  // namespace gpuplan

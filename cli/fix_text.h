// The answer of `gpuplan fix` for people.
#pragma once

#include <string>

#include "mend/fix.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Says if the files fit and how likely; time and money; what to change; then the diff, of fewer lines of context where
/// that keeps it on one screen. `data`: "1,000 rows of 512 tokens", or what is assumed of them.
std::string fix_text(const FixAnswer& answer, const FixQuestion& question, const std::string& data,
                     const Screen& screen);

/// Says what comes of a diff that is shown and not written, for behind it; empty where nothing changes.
std::string next_step(const FixAnswer& answer);

}  // namespace gpuplan

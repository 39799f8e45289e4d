// JSON lines as examples: all documents joined and cut in blocks, or one document a row.
#pragma once

#include <memory>

#include "run/data/examples.h"

namespace gpuplan {

/// Counts the tokens of every line first (two passes over the file); 16 bytes of memory for each line.
std::unique_ptr<Examples> make_packed(const DataOptions& options);
/// Lines are checked when they are read, the first one at once.
std::unique_ptr<Examples> make_padded(const DataOptions& options);

}  // namespace gpuplan

// The manual page, in roff: written from the table of commands and the flags that CLI11 knows, as the help is.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace gpuplan {

/// docs/gpuplan.1 is what this writes; a test compares them.
std::string manual_page(const CLI::App& program);

}  // namespace gpuplan
